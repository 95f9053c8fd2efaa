//! How a server reacts to changing capacity, sampled twice a second over its API. It is a separate
//! process, since the server runs in a network namespace.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use reelway_node::process::get;

/// The task of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The server's HTTP address.
    pub server: SocketAddr,
    /// The film for which a newcomer's admission is queried.
    pub title: String,
}

/// One sample.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since the process started to watch.
    pub at: f64,
    /// Viewers present.
    pub viewers: u64,
    /// Capacity of the network as a share of the configured one, 0 to 1.
    pub network: f64,
    /// The same for the disks.
    pub disk: f64,
    /// Whether a newcomer would be admitted.
    pub room: bool,
}

/// Time between two samples.
const EVERY: Duration = Duration::from_millis(500);

/// Samples, and prints one line each, until the process is ended.
pub fn work(task: &Task) -> anyhow::Result<()> {
    let began = reelway_clock::now();
    loop {
        let at = reelway_clock::now().since(began).as_secs_f64();
        // When everything is delayed, the API may fail to answer, too.
        if let Ok(moment) = look(task, at) {
            println!("{}", serde_json::to_string(&moment)?);
        }
        std::thread::sleep(EVERY);
    }
}

fn look(task: &Task, at: f64) -> anyhow::Result<Moment> {
    let path = format!("/api/admission?ahead=1&title={}", task.title);
    let answer = get(task.server, &path)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer")?;
    let told: Value = serde_json::from_str(body)?;
    let share = |name: &str| {
        let all = told["resources"].as_array()?.iter();
        let mut found = all.filter(|resource| resource["name"] == name);
        found.next()?["share"].as_f64()
    };
    Ok(Moment {
        at,
        viewers: told["viewers"].as_u64().context("viewers")?,
        network: share("network").unwrap_or(1.0),
        disk: share("disk").unwrap_or(1.0),
        room: told["newcomer"]["admitted"] == true,
    })
}

//! The paper's sessions: ten at once, 1000 packets of 32 bytes, one each 30 ms.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::load::Load;
use super::receive::{self, Receiver};
use super::run::{on_servers_core, run};
use super::task::{Late, Outcome, Sessions, Task, Way};
use super::{Args, reel};

/// Sessions at once.
pub const SESSIONS: u32 = 10;
/// Payload bytes of a packet.
pub const BYTES: u16 = 32;
/// From packet to packet, µs.
pub const INTERVAL: u64 = 30_000;

/// One way under one condition.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Whether the machine was overloaded.
    pub overloaded: bool,
    /// Whether it had real-time priority.
    pub real_time: bool,
    /// How.
    pub way: Way,
    /// Packets of a session.
    pub packets: u32,
    /// From the first packet to the last of each session, by the receiver.
    pub seconds: Vec<f64>,
    /// Packets that did not arrive.
    pub lost: u32,
    /// By the receiver.
    pub late: Late,
    /// By the sender, and what it took.
    pub sender: Outcome,
}

impl Row {
    /// Smallest and largest number of seconds.
    pub fn range(&self) -> (f64, f64) {
        let low = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        (low, self.seconds.iter().copied().fold(0.0, f64::max))
    }
}

/// The ways compared.
pub fn ways() -> Vec<Way> {
    let mut ways = vec![Way::Ticks, Way::Relative, Way::Absolute, Way::Sendfile];
    ways.extend(reel::BACKENDS.iter().map(|backend| Way::Reelway { backend: (*backend).to_owned(), burst: 8 }));
    ways
}

/// All ways, idle and overloaded.
pub fn measure(args: &Args, folder: &Path, file: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let mut rows = Vec::new();
    for way in ways() {
        rows.push(one(args, file, &way, false, false)?);
    }
    let mut runs: Vec<(Way, bool)> = ways().into_iter().map(|way| (way, false)).collect();
    runs.push((Way::Absolute, true));
    runs.extend(ways().into_iter().filter(|way| matches!(way, Way::Reelway { .. })).map(|way| (way, true)));
    let seconds = longest(args).as_secs_f64() * runs.len() as f64;
    let load = Load::start(folder, seconds)?;
    // Until all of it is under way.
    std::thread::sleep(Duration::from_secs(3));
    for (way, real_time) in runs {
        rows.push(one(args, file, &way, true, real_time)?);
    }
    Ok((rows, load.what.clone()))
}

/// Longest that a run is waited for.
fn longest(args: &Args) -> Duration {
    Duration::from_micros(INTERVAL * u64::from(args.packets)) * 3 + Duration::from_secs(20)
}

fn one(args: &Args, file: &Path, way: &Way, overloaded: bool, real_time: bool) -> anyhow::Result<Row> {
    let receiver = Receiver::start(SESSIONS)?;
    let task = Sessions {
        way: way.clone(),
        sessions: SESSIONS,
        packets: args.packets,
        bytes: BYTES,
        interval_us: INTERVAL,
        file: file.to_owned(),
        to: receiver.address(),
    };
    let sender = run(on_servers_core(real_time)?, &Task::Sessions(task), longest(args), |_| {})?;
    let seen: Vec<_> = receiver.stop()?.iter().map(|arrivals| receive::judge(arrivals, INTERVAL * 1000)).collect();
    let row = Row {
        overloaded,
        real_time,
        way: way.clone(),
        packets: args.packets,
        seconds: seen.iter().map(|seen| seen.seconds).collect(),
        lost: SESSIONS * args.packets - seen.iter().map(|seen| seen.packets).sum::<u32>(),
        late: receive::late(&seen),
        sender,
    };
    let (low, high) = row.range();
    let state = if overloaded { "overloaded" } else { "idle" };
    let priority = if real_time { ", real-time" } else { "" };
    args.say(&format!("{state}, {}{priority}: {low:.4} – {high:.4} s, latest {:.2} ms", way.describe(), row.late.max));
    Ok(row)
}

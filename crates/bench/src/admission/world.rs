//! Changing capacity: a link that carries half for half a minute, disks that deliver a fifth.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::stage::{Films, Stage};
use super::task::Task;
use super::watch::{self, Moment};
use crate::bed::Child;
use crate::bed::limits::DiskLimit;
use crate::chart::{self, Axis, Mark, Series};
use crate::density::trial::answer;
use crate::density::viewers::Begun;

/// The resource whose capacity changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shortage {
    /// The link: 100 Mbit/s, then 50.
    Link,
    /// The disks: 20 MB/s, then 4.
    Disk,
}

/// Number of viewers: fewer than fit, so that newcomers would be admitted before the change.
const VIEWERS: u32 = 45;

/// Seconds of sampling before, during and after the shortage.
const BEFORE: u64 = 6;
const WHILE: u64 = 35;
const AFTER: u64 = 45;

/// Results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Change {
    /// The resource whose capacity changed.
    pub what: Shortage,
    /// How many viewers were admitted and refused.
    pub begun: Begun,
    /// Beginning and end of the shortage, in seconds on the clock of the samples.
    pub changed: (f64, f64),
    /// The samples.
    pub moments: Vec<Moment>,
}

impl Change {
    fn after(&self, from: f64, is: impl Fn(&Moment) -> bool) -> Option<f64> {
        let found = self
            .moments
            .iter()
            .find(|moment| moment.at >= from && is(moment));
        found.map(|moment| moment.at - from)
    }

    /// Returns the seconds until newcomers were refused.
    pub fn refused_after(&self) -> Option<f64> {
        self.after(self.changed.0, |moment| !moment.room)
    }

    /// Returns the viewers present just before the shortage.
    pub fn viewers_before(&self) -> u64 {
        let before = self
            .moments
            .iter()
            .filter(|moment| moment.at < self.changed.0);
        before.map(|moment| moment.viewers).next_back().unwrap_or(0)
    }

    /// Returns the seconds until the first viewer had to leave.
    pub fn left_after(&self) -> Option<f64> {
        let before = self.viewers_before();
        self.after(self.changed.0, |moment| moment.viewers < before)
    }

    /// Returns the viewers present at the end of the shortage.
    pub fn viewers_then(&self) -> u64 {
        let then = self
            .moments
            .iter()
            .filter(|moment| moment.at < self.changed.1);
        then.map(|moment| moment.viewers).next_back().unwrap_or(0)
    }

    /// Returns the seconds from its end until newcomers would be admitted again.
    pub fn room_after(&self) -> Option<f64> {
        self.after(self.changed.1, |moment| moment.room)
    }

    /// Returns the seconds from its end until the whole capacity was available again.
    pub fn whole_after(&self) -> Option<f64> {
        self.after(self.changed.1, |moment| self.share(moment) >= 1.0)
    }

    fn share(&self, moment: &Moment) -> f64 {
        match self.what {
            Shortage::Link => moment.network,
            Shortage::Disk => moment.disk,
        }
    }

    /// Returns a name for files.
    pub fn slug(&self) -> &'static str {
        match self.what {
            Shortage::Link => "link-halved",
            Shortage::Disk => "disk-slow",
        }
    }

    /// Draws the viewers and the capacity over time.
    pub fn chart(&self) -> String {
        let most = self.moments.iter().map(|moment| moment.viewers).max();
        let most = most.unwrap_or(1).max(1) as f64;
        let series = |name: &str, colour, mark, of: &dyn Fn(&Moment) -> f64| Series {
            name: name.to_owned(),
            mark,
            colour,
            points: self
                .moments
                .iter()
                .map(|moment| (moment.at, 100.0 * of(moment)))
                .collect(),
        };
        let all = [
            series("viewers, of all", 0, Mark::Line, &|moment| {
                moment.viewers as f64 / most
            }),
            series("what is trusted of it", 1, Mark::Line, &|moment| {
                self.share(moment)
            }),
            series("what there is", 2, Mark::Dashed, &|moment| {
                let changed = (self.changed.0..self.changed.1).contains(&moment.at);
                match (changed, self.what) {
                    (false, _) => 1.0,
                    (true, Shortage::Link) => 0.5,
                    (true, Shortage::Disk) => 0.2,
                }
            }),
        ];
        let last = self.moments.last().map_or(1.0, |moment| moment.at);
        let title = match self.what {
            Shortage::Link => "A link of 100 Mbit/s that carries 50 for a while",
            Shortage::Disk => "Disks of 20 MB/s that give 4 for a while",
        };
        let (x, y) = (
            Axis::linear("seconds", 0.0, last),
            Axis::linear("%", 0.0, 110.0),
        );
        chart::lines(title, &x, &y, &all)
    }
}

/// Runs a shortage of this kind.
pub fn run(stage: &Stage, films: &Films, what: Shortage) -> anyhow::Result<Change> {
    stage.net.limit(match what {
        Shortage::Link => "100mbit",
        // The disks are the bottleneck.
        Shortage::Disk => "1gbit",
    })?;
    let server = SocketAddr::new(stage.net.server(), 8554);
    let http = SocketAddr::new(stage.net.server(), 8080);
    let (capacity, pool) = match what {
        Shortage::Link => ("net = \"100Mbit\"\ndisk = \"none\"", "512MiB"),
        Shortage::Disk => ("net = \"none\"\ndisk = \"20MB/s\"", "64MiB"),
    };
    let config = format!("pool.size = \"{pool}\"\n[capacity]\nmem = \"none\"\n{capacity}\n");
    let mut disk = match what {
        Shortage::Link => None,
        Shortage::Disk => Some(DiskLimit::make(&films.folder, 20_000_000)?),
    };
    let words = disk.as_ref().map(DiskLimit::words);
    let _server = stage.start(films, &config, "world", server, words)?;
    let reports_to = Some(SocketAddr::new(server.ip(), 8001));
    let mut viewing = stage.viewers(films, VIEWERS, 1, server, reports_to)?;
    let lines = viewing.lines();
    let begun: Begun = serde_json::from_str(&answer(&lines, 90.0)?)?;
    let task = Task::Watch(watch::Task {
        server: http,
        title: "film0".into(),
    });
    let mut command = stage.net.beside_server_command(std::env::current_exe()?);
    command.args(["bench", "admission", "--task"]);
    let mut watching = Child::start(command.arg(serde_json::to_string(&task)?))?;
    let told = watching.lines();
    let began = reelway_clock::now();
    let passed = || reelway_clock::now().since(began).as_secs_f64();
    std::thread::sleep(Duration::from_secs(BEFORE));
    let changed = passed();
    match &mut disk {
        Some(disk) => disk.set(4_000_000)?,
        None => stage.net.limit("50mbit")?,
    }
    std::thread::sleep(Duration::from_secs(WHILE));
    let restored = passed();
    match &mut disk {
        Some(disk) => disk.set(20_000_000)?,
        None => stage.net.limit("100mbit")?,
    }
    std::thread::sleep(Duration::from_secs(AFTER));
    let moments = told
        .try_iter()
        .map(|line| serde_json::from_str(&line).context("a moment"))
        .collect::<anyhow::Result<Vec<Moment>>>()?;
    Ok(Change {
        what,
        begun,
        changed: (changed, restored),
        moments,
    })
}

//! The paper's sessions: ten at once, 1000 packets of 32 bytes, one every 30 ms.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::args::Args;
use super::load::Load;
use super::receive::{self, Receiver};
use super::reel;
use super::run::{on_servers_core, run};
use super::task::{Late, Outcome, Sessions, Task, Way};

/// Concurrent sessions.
pub const SESSIONS: u32 = 10;
/// Payload bytes of a packet.
pub const BYTES: u16 = 32;
/// Interval between packets, µs.
pub const INTERVAL: u64 = 30_000;

/// Scheduling priority of the sending threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// The default of every process.
    Normal,
    /// The default of Reelway's sender threads (a nice value below 0, if permitted).
    Own,
    /// Real-time (`SCHED_FIFO`) for the whole process.
    RealTime,
}

impl Priority {
    /// Returns the default priority of a way.
    pub fn usual(way: &Way) -> Priority {
        if matches!(way, Way::Reelway { .. }) {
            Priority::Own
        } else {
            Priority::Normal
        }
    }
}

/// Results of one way under one condition.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Whether the machine was overloaded.
    pub overloaded: bool,
    /// The priority.
    pub priority: Priority,
    /// The way of sending.
    pub way: Way,
    /// Packets per session.
    pub packets: u32,
    /// Seconds from the first packet to the last of each session, measured by the receiver.
    pub seconds: Vec<f64>,
    /// Packets lost.
    pub lost: u32,
    /// Lateness, measured by the receiver.
    pub late: Late,
    /// The sender's outcome.
    pub sender: Outcome,
}

impl Row {
    /// Describes the way and its priority in a few words.
    pub fn name(&self) -> String {
        // Sessions send one packet at a time, so bursts do not matter.
        let name = match &self.way {
            Way::Reelway { backend, .. } => format!("Reelway {backend}"),
            other => other.describe(),
        };
        match self.priority {
            Priority::RealTime => format!("{name}, real-time priority"),
            Priority::Normal if Priority::usual(&self.way) != Priority::Normal => {
                format!("{name}, normal priority")
            }
            _ => name,
        }
    }

    /// Returns the duration of the shortest and of the longest session, in seconds.
    pub fn range(&self) -> (f64, f64) {
        let low = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        (low, self.seconds.iter().copied().fold(0.0, f64::max))
    }
}

/// Returns the ways that are compared.
pub fn ways() -> Vec<Way> {
    let mut ways = vec![Way::Ticks, Way::Relative, Way::Absolute, Way::Sendfile];
    ways.extend(reel::backends().iter().map(|backend| Way::Reelway {
        backend: (*backend).to_owned(),
        burst: 8,
    }));
    ways
}

/// Measures all ways, on the idle and on the overloaded machine.
pub fn measure(args: &Args, folder: &Path, file: &Path) -> anyhow::Result<(Vec<Row>, Vec<String>)> {
    let mut rows = Vec::new();
    for way in ways() {
        rows.push(one(args, file, &way, false, Priority::usual(&way))?);
    }
    let usual = |way: Way| (way.clone(), Priority::usual(&way));
    let mut runs: Vec<(Way, Priority)> = ways().into_iter().map(usual).collect();
    runs.push((reel::chosen(8), Priority::Normal));
    runs.push((Way::Absolute, Priority::RealTime));
    runs.push((reel::chosen(8), Priority::RealTime));
    let seconds = longest(args).as_secs_f64() * runs.len() as f64;
    let load = Load::start(folder, seconds)?;
    // Until the whole load is running.
    std::thread::sleep(Duration::from_secs(3));
    for (way, priority) in runs {
        rows.push(one(args, file, &way, true, priority)?);
    }
    Ok((rows, load.what.clone()))
}

/// Returns the timeout of a run.
fn longest(args: &Args) -> Duration {
    Duration::from_micros(INTERVAL * u64::from(args.packets)) * 3 + Duration::from_secs(20)
}

fn one(
    args: &Args,
    file: &Path,
    way: &Way,
    overloaded: bool,
    priority: Priority,
) -> anyhow::Result<Row> {
    let receiver = Receiver::start(SESSIONS)?;
    let task = Sessions {
        way: way.clone(),
        sessions: SESSIONS,
        packets: args.packets,
        bytes: BYTES,
        interval_us: INTERVAL,
        file: file.to_owned(),
        normal_priority: priority == Priority::Normal,
        to: receiver.address(),
    };
    let sender = run(
        on_servers_core(priority == Priority::RealTime)?,
        &Task::Sessions(task),
        longest(args),
        |_| {},
    )?;
    let seen: Vec<_> = receiver
        .stop()?
        .iter()
        .map(|arrivals| receive::judge(arrivals, INTERVAL * 1000))
        .collect();
    let row = Row {
        overloaded,
        priority,
        way: way.clone(),
        packets: args.packets,
        seconds: seen.iter().map(|seen| seen.seconds).collect(),
        lost: SESSIONS * args.packets - seen.iter().map(|seen| seen.packets).sum::<u32>(),
        late: receive::late(&seen),
        sender,
    };
    let (low, high) = row.range();
    let state = if overloaded { "overloaded" } else { "idle" };
    args.say(&format!(
        "{state}, {}: {low:.4} – {high:.4} s, latest {:.2} ms",
        row.name(),
        row.late.max
    ));
    Ok(row)
}

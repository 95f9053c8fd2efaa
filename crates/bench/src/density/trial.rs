//! One trial: a new server, a number of viewers, some seconds of measurement.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::servers::Peer;
use super::viewers::{Begun, Task, ViewersReport};
use crate::bed::machine::{Idle, cpu_of, cpu_of_others, memory_of};
use crate::bed::{Child, Net};

/// The most new viewers per second.
const PER_SECOND: f64 = 100.0;
/// Seconds within which all viewers must begin.
pub const BEGINNING: f64 = 45.0;
/// Time from the beginning of the last viewer to the measurement.
const SETTLING: Duration = Duration::from_secs(2);

/// The setting that all trials share.
#[derive(Debug)]
pub struct Stage {
    /// The network.
    pub net: Net,
    /// The films.
    pub films: Vec<PathBuf>,
    /// Folder for the servers' files.
    pub folder: PathBuf,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
}

/// Results of a trial.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trial {
    /// Intended number of viewers.
    pub viewers: u32,
    /// Whether packets were dropped on arrival, before the viewers.
    pub dropped: bool,
    /// How many viewers began.
    pub begun: Begun,
    /// What they received.
    pub seen: ViewersReport,
    /// Actual duration of the measurement in seconds.
    pub seconds: f64,
    /// Busy seconds of all cores of the machine, less the CPU time of other processes.
    pub machine: f64,
    /// CPU seconds of other processes, which disturbed the trial.
    pub others: f64,
    /// CPU seconds of the server's process.
    pub server: f64,
    /// CPU seconds of the viewers' process.
    pub viewers_cpu: f64,
    /// Resident memory of the server, bytes.
    pub memory: u64,
}

impl Trial {
    /// Returns the server's CPU time per stream-second in ms: that of the whole machine except the
    /// viewers' process, so that work in interrupts is included.
    pub fn cost(&self) -> f64 {
        (self.machine - self.viewers_cpu).max(0.0) * 1e3 / self.stream_seconds()
    }

    /// Returns the part of it that is accounted to the server's process.
    pub fn process_cost(&self) -> f64 {
        self.server * 1e3 / self.stream_seconds()
    }

    fn stream_seconds(&self) -> f64 {
        (self.seconds * f64::from(self.begun.playing)).max(1e-9)
    }

    /// Returns why the server did not keep up; `None` if it did.
    pub fn trouble(&self, most_late_ms: f64) -> Option<String> {
        let Trial { begun, seen, .. } = self;
        if begun.playing < self.viewers {
            let why = begun.refused.first().map_or("", String::as_str);
            return Some(format!(
                "{} of {} began ({why})",
                begun.playing, self.viewers
            ));
        }
        let streams = u64::from(begun.playing * begun.tracks);
        if seen.streams < streams {
            return Some(format!(
                "{} of {streams} streams sent anything",
                seen.streams
            ));
        }
        if seen.lost > 0 {
            return Some(format!("{} packets lost", seen.lost));
        }
        (seen.late_max_ms > most_late_ms)
            .then(|| format!("a frame {:.1} ms late", seen.late_max_ms))
    }
}

/// Returns the next line of a process that is an answer (JSON).
pub fn answer(lines: &Receiver<String>, patience: f64) -> anyhow::Result<String> {
    loop {
        let line = lines
            .recv_timeout(Duration::from_secs_f64(patience))
            .context("the viewers say nothing more")?;
        if line.starts_with('{') {
            return Ok(line);
        }
    }
}

impl Stage {
    /// Runs a trial.
    pub fn trial(&self, peer: &Peer, viewers: u32, dropped: bool) -> anyhow::Result<Trial> {
        let folder = self.folder.join("server");
        std::fs::create_dir_all(&folder)?;
        // An earlier trial may have been interrupted.
        self.net.drop_at_viewers(false)?;
        let served = peer.start(&self.net, &self.films, &folder)?;
        let mut viewing = self.viewers(&served.urls, viewers)?;
        let lines = viewing.lines();
        let begun: Begun = serde_json::from_str(&answer(&lines, BEGINNING + 60.0)?)?;
        self.net.drop_at_viewers(dropped)?;
        std::thread::sleep(SETTLING);
        viewing.tell("judge")?;
        let account = || -> anyhow::Result<_> {
            let ours = [served.server.id(), viewing.id()];
            Ok((
                Idle::now()?,
                cpu_of(ours[0])?,
                cpu_of(ours[1])?,
                cpu_of_others(&ours)?,
            ))
        };
        let (idle_before, server_before, viewers_before, others_before) = account()?;
        std::thread::sleep(Duration::from_secs_f64(self.seconds));
        let (idle, server, viewers_cpu, others) = account()?;
        let memory = memory_of(served.server.id())?.0;
        viewing.tell("finish")?;
        let seen = serde_json::from_str(&answer(&lines, 60.0)?)?;
        self.net.drop_at_viewers(false)?;
        let seconds = idle.seconds_since(&idle_before);
        let busy = idle.busy_since(&idle_before).iter().sum::<f64>();
        Ok(Trial {
            viewers,
            dropped,
            begun,
            seen,
            seconds,
            others: others - others_before,
            machine: busy - (others - others_before),
            server: server.saturating_sub(server_before).as_secs_f64(),
            viewers_cpu: viewers_cpu.saturating_sub(viewers_before).as_secs_f64(),
            memory,
        })
    }

    fn viewers(&self, urls: &[String], viewers: u32) -> anyhow::Result<Child> {
        let task = Task {
            urls: urls.to_vec(),
            viewers,
            at: self.net.viewers(),
            per_second: PER_SECOND,
            patience: BEGINNING,
            places: Vec::new(),
            reports_to: None,
        };
        let mut command = self.net.viewer_command(std::env::current_exe()?);
        command.args(["bench", "density", "--task", &serde_json::to_string(&task)?]);
        Child::start(&mut command)
    }

    /// Creates a stage with a folder for the servers' files, and the duration of a measurement in
    /// seconds.
    pub fn new(net: Net, films: Vec<PathBuf>, folder: &Path, seconds: f64) -> Stage {
        Stage {
            net,
            films,
            folder: folder.to_owned(),
            seconds,
        }
    }
}

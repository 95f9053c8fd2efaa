//! One trial: a fresh server, so many viewers, some seconds of judging and accounting.

use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::servers::Peer;
use super::viewers::{Begun, Task, ViewersReport};
use crate::bed::machine::{Idle, cpu_of, cpu_of_others, memory_of};
use crate::bed::{Child, Net};

/// New viewers a second at most.
const PER_SECOND: f64 = 100.0;
/// Seconds that all may take to begin.
pub const BEGINNING: f64 = 45.0;
/// From the last beginning to the judging.
const SETTLING: Duration = Duration::from_secs(2);

/// What stays the same from trial to trial.
#[derive(Debug)]
pub struct Stage {
    /// Where.
    pub net: Net,
    /// What is played.
    pub films: Vec<PathBuf>,
    /// For what servers write.
    pub folder: PathBuf,
    /// Seconds judged.
    pub seconds: f64,
}

/// What a trial gave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trial {
    /// Viewers wished for.
    pub viewers: u32,
    /// Whether what arrived was dropped unseen.
    pub dropped: bool,
    /// How they began.
    pub begun: Begun,
    /// What they saw.
    pub seen: ViewersReport,
    /// Seconds of accounting.
    pub seconds: f64,
    /// Seconds of busy cores, of the whole machine, less what other processes were accounted for.
    pub machine: f64,
    /// CPU seconds of other processes: what disturbed the trial.
    pub others: f64,
    /// CPU seconds of the server's process.
    pub server: f64,
    /// CPU seconds of the viewers' process.
    pub viewers_cpu: f64,
    /// Resident memory of the server, bytes.
    pub memory: u64,
}

impl Trial {
    /// CPU of the server a stream-second in ms: all that the machine spent but for the viewers' process, so that
    /// work done in interrupts is in it.
    pub fn cost(&self) -> f64 {
        (self.machine - self.viewers_cpu).max(0.0) * 1e3 / self.stream_seconds()
    }

    /// What of it the server's process was accounted for.
    pub fn process_cost(&self) -> f64 {
        self.server * 1e3 / self.stream_seconds()
    }

    fn stream_seconds(&self) -> f64 {
        (self.seconds * f64::from(self.begun.playing)).max(1e-9)
    }

    /// Why it counts as not keeping up; `None`: it does.
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

/// The next line of the viewers' process that is an answer.
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
        // A trial before may have been broken off.
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

    /// Where a server may write, and the films' seconds for all of it.
    pub fn new(net: Net, films: Vec<PathBuf>, folder: &Path, seconds: f64) -> Stage {
        Stage {
            net,
            films,
            folder: folder.to_owned(),
            seconds,
        }
    }
}

//! Forty viewers who press play within a second, on a link of 100 Mbit/s with a short queue: how
//! many are admitted, what the link's queue drops, and how full it is over time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::stage::Stage;
use crate::bed::Child;
use crate::chart::{self, Axis, Mark, Series};
use crate::density::trial::answer;
use crate::density::viewers::{Begun, ViewersReport};
use crate::film::{self, Recipe};
use crate::report::{Figure, Report};

/// Number of viewers, and also arrivals per second.
const VIEWERS: u32 = 40;
/// Duration of the measurement in seconds.
const SECONDS: u64 = 60;
/// Capacity of the link, bytes per second.
const SPEED: f64 = 12_500_000.0;
/// Seconds between two samples of the queue.
const EVERY: &str = "0.02";

/// Parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    policy: &'static str,
    /// Length of the link's queue, ms.
    queue: u32,
}

/// The runs: queues of three lengths, and films sent ahead by a schedule.
pub const PLANS: [Plan; 4] = [
    Plan {
        policy: "exact",
        queue: 5,
    },
    Plan {
        policy: "exact",
        queue: 20,
    },
    Plan {
        policy: "exact",
        queue: 60,
    },
    Plan {
        policy: "smoothed:10",
        queue: 60,
    },
];

/// Results of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Crowd {
    /// The admission policy.
    pub policy: String,
    /// Length of the link's queue, ms.
    pub queue: u32,
    /// How many viewers were admitted and refused.
    pub begun: Begun,
    /// What admitted viewers received.
    pub seen: ViewersReport,
    /// The link's queue over time.
    pub moments: Vec<Moment>,
}

/// A sample of the link's queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Moment {
    /// Seconds since the first sample.
    pub at: f64,
    /// Bytes in the queue.
    pub waiting: u64,
    /// Packets dropped so far.
    pub dropped: u64,
    /// Bytes sent so far.
    pub bytes: u64,
    /// Packets sent so far.
    pub packets: u64,
}

impl Crowd {
    /// Returns the packets that the queue dropped in this run: its counter includes earlier runs.
    pub fn dropped(&self) -> u64 {
        let (first, last) = (self.moments.first(), self.moments.last());
        first
            .zip(last)
            .map_or(0, |(first, last)| last.dropped - first.dropped)
    }

    /// Returns bytes per second on the wire, as Ethernet counts them: 24 more per packet than the
    /// queue.
    fn rate(&self) -> f64 {
        let (Some(first), Some(last)) = (self.moments.first(), self.moments.last()) else {
            return 0.0;
        };
        let bytes = (last.bytes - first.bytes) + 24 * (last.packets - first.packets);
        bytes as f64 / (last.at - first.at).max(0.001)
    }

    /// Returns the longest wait in the samples, ms.
    fn longest(&self) -> f64 {
        let waits = self.moments.iter().map(Moment::wait);
        waits.fold(0.0, f64::max)
    }

    /// Returns a name for files.
    fn slug(&self) -> String {
        format!("crowd-{}-{}ms", self.policy.replace(':', "-"), self.queue)
    }

    /// Draws the queue over time; returns the file's name and the SVG.
    pub fn chart(&self) -> (String, String) {
        let last = self.moments.last().map_or(1.0, |moment| moment.at);
        let series = [Series {
            name: "wait in the link's queue".into(),
            mark: Mark::Line,
            colour: 0,
            points: self
                .moments
                .iter()
                .map(|moment| (moment.at, moment.wait()))
                .collect(),
        }];
        let title = format!(
            "{} of {VIEWERS} viewers on a link of 100 Mbit/s with a queue of {} ms ({})",
            self.begun.playing, self.queue, self.policy
        );
        let x = Axis::linear("seconds", 0.0, last);
        let y = Axis::linear("ms", 0.0, f64::from(self.queue));
        (self.slug(), chart::lines(&title, &x, &y, &series))
    }
}

impl Moment {
    /// Returns how long the last byte in the queue waits, ms.
    fn wait(&self) -> f64 {
        self.waiting as f64 / SPEED * 1e3
    }
}

/// Runs the crowd against a server.
pub fn run(stage: &Stage, plan: Plan) -> anyhow::Result<Crowd> {
    let films = stage.folder().join("crowd");
    if !films.exists() {
        std::fs::create_dir_all(&films)?;
        film::make(&films.join("film0.mp4"), &Recipe::usual(180, 4_000_000))?;
    }
    stage
        .net
        .limit_with("100mbit", "64kb", &format!("{}ms", plan.queue))?;
    let server = SocketAddr::new(stage.net.server(), 8554);
    let config = format!(
        "admission.policy = \"{}\"\n[capacity]\nnet = \"100Mbit\"\nqueue = {}\n",
        plan.policy,
        plan.queue.min(20)
    );
    let state = format!("crowd-{}-{}", plan.policy, plan.queue);
    let _server = stage.start_in(&films, &config, &state, server, None)?;
    let urls = vec![format!("rtsp://{server}/film0")];
    let mut viewing = stage.viewers_of(urls, VIEWERS, f64::from(VIEWERS), Vec::new(), None)?;
    let lines = viewing.lines();
    let mut looking = look(stage)?;
    let looks = looking.lines();
    let begun: Begun = serde_json::from_str(&answer(&lines, 60.0)?)?;
    viewing.tell("judge")?;
    std::thread::sleep(Duration::from_secs(SECONDS));
    viewing.tell("finish")?;
    let seen = serde_json::from_str(&answer(&lines, 60.0)?)?;
    drop(looking);
    let moments = moments(&looks.try_iter().collect::<Vec<String>>())?;
    Ok(Crowd {
        policy: plan.policy.to_owned(),
        queue: plan.queue,
        begun,
        seen,
        moments,
    })
}

/// Starts a program beside the server that samples the queue continuously.
fn look(stage: &Stage) -> anyhow::Result<Child> {
    let mut command = stage.net.beside_server_command("/bin/sh");
    let cable = stage.net.cable();
    let script =
        format!("while sleep {EVERY}; do date +%s.%N; tc -s -j qdisc show dev {cable} root; done");
    command.args(["-c", &script]);
    Child::start(&mut command)
}

/// Parses the samples: pairs of lines, a time and the output of `tc`.
fn moments(lines: &[String]) -> anyhow::Result<Vec<Moment>> {
    let mut moments = Vec::new();
    let mut first = None;
    let mut pairs = lines.chunks_exact(2).peekable();
    while let Some(pair) = pairs.next() {
        let time: f64 = pair[0].trim().parse().context("a time")?;
        let shown: serde_json::Value = match serde_json::from_str(&pair[1]) {
            Ok(shown) => shown,
            // The sampling program is killed in the middle of a line.
            Err(_) if pairs.peek().is_none() => break,
            Err(error) => return Err(error).context("what tc says"),
        };
        let of = |name: &str| shown[0][name].as_u64().unwrap_or(0);
        moments.push(Moment {
            at: time - *first.get_or_insert(time),
            waiting: of("backlog"),
            dropped: of("drops"),
            bytes: of("bytes"),
            packets: of("packets"),
        });
    }
    anyhow::ensure!(!moments.is_empty(), "the queue was not seen");
    Ok(moments)
}

/// Adds figures and a table.
pub fn add(report: &mut Report, crowds: &[Crowd]) {
    if crowds.is_empty() {
        return;
    }
    let fewest = crowds.iter().map(|crowd| crowd.begun.playing).min();
    let lost: u64 = crowds
        .iter()
        // Viewers miss what the queue dropped, unless it was an RTCP report.
        .map(|crowd| crowd.dropped().max(crowd.seen.lost))
        .sum();
    report.figures.extend([
        Figure::at_least(
            "forty who come within a second: admitted (22.7 fit by the mean rate)",
            f64::from(fewest.unwrap_or(0)),
            "",
            22.0,
        ),
        Figure::at_most("the same: packets lost", lost as f64, "", 0.0),
    ]);
    report.page += &format!(
        "### Forty within a second\n\n{VIEWERS} viewers of a film of 4.1 Mbit/s (GOPs of 2 s) press play within a second. \
         The link is a token bucket (TBF) with a burst of 64 KB and a short queue; where that is shorter than 20 ms, \
         `capacity.queue` says so. They watch for {SECONDS} s.\n\n\
         | queue | policy | admitted | on the wire | dropped | lost | lateness p99.9 | latest | longest wait in the queue \
         |\n|---|---|---|---|---|---|---|---|---|\n"
    );
    for crowd in crowds {
        report.page += &format!(
            "| {} ms | {} | {} | {:.1} Mbit/s | {} | {} | {:.1} ms | {:.1} ms | {:.1} ms |\n",
            crowd.queue,
            crowd.policy,
            crowd.begun.playing,
            crowd.rate() * 8e-6,
            crowd.dropped(),
            crowd.seen.lost,
            crowd.seen.late_p999_ms,
            crowd.seen.late_max_ms,
            crowd.longest(),
        );
    }
    for crowd in crowds {
        report.page += &format!("\n![The queue over time](admission/{}.svg)\n", crowd.slug());
    }
    report.page += "\nLateness is against each stream's earliest packets. Packets leave up to a second ahead of their time \
                    while the link has room, so most of it is not lateness but lead that was used up.\n\n";
}

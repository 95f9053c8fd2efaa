//! The same with a real server, real packets and a real link of 100 Mbit/s (TBF between two network
//! namespaces), measured by the yardstick's light viewers.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use reelway_admission::Policy;
use serde::{Deserialize, Serialize};

use super::crowd::{self, Crowd};
use super::films::FilmKind;
use super::model;
use super::stage::{Films, Stage};
use super::storm::Answered;
use super::world::{self, Change, Shortage};
use crate::bed::limits::MemoryLimit;
use crate::bed::{Folder, Net, cores};
use crate::density::trial::answer;
use crate::density::viewers::{Begun, ViewersReport};

/// Duration of the measurement in seconds.
pub const SECONDS: u64 = 4;
/// Newcomers, about 62 of whom fit.
const NEWCOMERS: u32 = 100;
/// Newcomers in runs that measure how many fit: the more positions in the films are tried, the more
/// fit.
const FOR_NODE: u32 = 400;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// All policies, with films whose bit rate varies by scene.
    Compared,
    /// Ten times as many newcomers as fit.
    Storm,
    /// The VODCA paper's node: its films, and 256 MB of memory.
    Node,
    /// A link that is halved, disks that become slow.
    World,
    /// Forty viewers who press play within a second.
    Crowd,
}

/// The queue in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// First in, first out.
    Plain,
    /// A queue that respects packets' marks (DSCP).
    Heeding,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The part of the experiment.
    pub part: Part,
    /// The admission policy.
    pub policy: String,
    /// The queue in front of the link.
    pub queue: Queue,
    /// How many newcomers were admitted and refused.
    pub begun: Begun,
    /// What admitted viewers received.
    pub seen: ViewersReport,
    /// Share of the link that was used during the measurement.
    pub share: f64,
    /// Answers to the storm over the link, and on the server's own side of it.
    pub storm: Option<(Answered, Answered)>,
    /// Peak memory of the server in bytes, if it had a limit.
    pub memory: Option<u64>,
}

/// All results with a real server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Real {
    /// Runs with constant capacity.
    pub runs: Vec<Run>,
    /// Runs in which capacity changed.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// Runs with a crowd that presses play at once.
    #[serde(default)]
    pub crowds: Vec<Crowd>,
}

/// Parameters of one run.
struct Plan<'a> {
    part: Part,
    policy: String,
    queue: Queue,
    /// Whether there is a storm of newcomers.
    storm: bool,
    films: &'a Films,
    /// Seed of everything random.
    seed: u64,
}

impl Real {
    /// Measures these parts again, and compares these policies; does nothing without network
    /// namespaces, which need root.
    pub fn add(&mut self, parts: &[Part], of: &[Policy], times: u32) -> anyhow::Result<()> {
        let anew = of.iter().map(Policy::to_string).collect::<Vec<_>>();
        self.runs.retain(|run| match run.part {
            Part::Compared => !parts.contains(&run.part) || !anew.contains(&run.policy),
            part => !parts.contains(&part),
        });
        cores::leave_the_servers();
        let net = Net::make()?;
        if parts.is_empty() || !net.has_namespaces() {
            return Ok(());
        }
        let folder = Folder::make("admission")?;
        eprintln!("making the films …");
        let scenes = Films::make(&folder, FilmKind::Scenes, 4, 240)?;
        let vodca = Films::make(&folder, FilmKind::Vodca, 2, 1200)?;
        let stage = Stage::new(net, folder);
        for plan in plans(parts, of, times, &scenes, &vodca) {
            let run = run(&stage, &plan)
                .with_context(|| format!("the server with policy {}", plan.policy))?;
            eprintln!(
                "{:?}, {}: {} viewers, {:.1} % of the link, {} packets lost, {} viewers harmed, the latest frame {:.1} ms late",
                run.part,
                run.policy,
                run.begun.playing,
                100.0 * run.share,
                run.seen.lost,
                run.seen.harmed,
                run.seen.behind_max_ms
            );
            self.runs.push(run);
        }
        if parts.contains(&Part::World) {
            self.changes.clear();
            for (what, films) in [(Shortage::Link, &scenes), (Shortage::Disk, &vodca)] {
                let change = world::run(&stage, films, what)?;
                eprintln!(
                    "{what:?}: {} viewers, {} then; newcomers refused after {:?} s, the first left after {:?} s",
                    change.viewers_before(),
                    change.viewers_then(),
                    change.refused_after(),
                    change.left_after()
                );
                self.changes.push(change);
            }
        }
        if parts.contains(&Part::Crowd) {
            self.crowds.clear();
            for plan in crowd::PLANS {
                let crowd = crowd::run(&stage, plan)?;
                eprintln!(
                    "{}, a queue of {} ms: {} of forty admitted, {} packets dropped",
                    crowd.policy,
                    crowd.queue,
                    crowd.begun.playing,
                    crowd.dropped()
                );
                self.crowds.push(crowd);
            }
        }
        Ok(())
    }
}

fn plans<'a>(
    parts: &[Part],
    of: &[Policy],
    times: u32,
    scenes: &'a Films,
    vodca: &'a Films,
) -> Vec<Plan<'a>> {
    let mut plans = Vec::new();
    let plan = |part, policy: Policy, queue, films, seed| Plan {
        part,
        policy: policy.to_string(),
        queue,
        storm: false,
        films,
        seed,
    };
    if parts.contains(&Part::Compared) {
        for seed in 1..=u64::from(times) {
            let all = of.iter().copied();
            plans
                .extend(all.map(|policy| plan(Part::Compared, policy, Queue::Plain, scenes, seed)));
        }
    }
    if parts.contains(&Part::Storm) {
        for queue in [Queue::Plain, Queue::Heeding] {
            for storm in [false, true] {
                plans.push(Plan {
                    storm,
                    ..plan(Part::Storm, Policy::Exact, queue, scenes, 1)
                });
            }
        }
    }
    if parts.contains(&Part::Node) {
        for policy in [Policy::Vodca, Policy::Exact, Policy::Smoothed(10)] {
            plans.push(plan(Part::Node, policy, Queue::Plain, vodca, 1));
        }
    }
    plans
}

/// Carries out one run.
fn run(stage: &Stage, plan: &Plan<'_>) -> anyhow::Result<Run> {
    match plan.queue {
        Queue::Plain => stage.net.limit("100mbit")?,
        Queue::Heeding => stage.net.limit_by_marks()?,
    }
    let (memory, pool) = match plan.part {
        Part::Node => (Some(MemoryLimit::make(model::MEMORY)?), "96MiB"),
        _ => (None, "512MiB"),
    };
    let server = SocketAddr::new(stage.net.server(), 8554);
    let limited = match plan.policy.as_str() {
        "vodca" => "mem = \"256MB\"\nheadroom = 0\n",
        _ => "mem = \"none\"\n",
    };
    let config = format!(
        "admission.policy = \"{}\"\npool.size = \"{pool}\"\n[capacity]\nnet = \"100Mbit\"\n{limited}",
        plan.policy
    );
    let words = memory.as_ref().map(MemoryLimit::words);
    let started = stage.start(plan.films, &config, &plan.policy, server, words)?;
    let newcomers = match (plan.part, plan.policy.as_str()) {
        // The paper's rule would admit all of them.
        (Part::Node, "vodca") => NEWCOMERS,
        (Part::Node, _) => FOR_NODE,
        _ => NEWCOMERS,
    };
    let mut viewing = stage.viewers(plan.films, newcomers, plan.seed, server, None)?;
    let lines = viewing.lines();
    let begun: Begun = serde_json::from_str(&answer(&lines, 60.0)?)?;
    std::thread::sleep(Duration::from_secs(1));
    viewing.tell("judge")?;
    let (from, before) = (reelway_clock::now(), stage.net.carried()?);
    let storm = match plan.storm {
        true => Some((
            stage.storm(plan.films, server, true)?,
            stage.storm(plan.films, server, false)?,
        )),
        false => None,
    };
    std::thread::sleep(Duration::from_secs(SECONDS));
    let (to, after) = (reelway_clock::now(), stage.net.carried()?);
    viewing.tell("finish")?;
    let seen = serde_json::from_str(&answer(&lines, 60.0)?)?;
    let most = memory.as_ref().map(MemoryLimit::peak).transpose();
    // The control group can only be removed after the server has ended.
    drop(started);
    drop(memory);
    let carried = after
        .zip(before)
        .map_or(0, |(after, before)| after - before);
    Ok(Run {
        part: plan.part,
        policy: plan.policy.clone(),
        queue: plan.queue,
        begun,
        seen,
        share: carried as f64 / to.since(from).as_secs_f64() / model::SPEED as f64,
        storm,
        memory: most?,
    })
}

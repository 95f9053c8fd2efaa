//! The same with a real server, real packets, and a link that really carries 100 Mbit/s (TBF between two network
//! namespaces), judged by the yardstick's light viewers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use reelway_admission::Policy;
use reelway_determinism::Random;
use reelway_timetable::BINS;
use serde::{Deserialize, Serialize};

use super::crowd::{self, Crowd};
use super::films::{self, Kind};
use super::model;
use super::storm::{self, Answered};
use super::world::{self, Change, What};
use crate::bed::limits::MemoryLimit;
use crate::bed::{Child, Folder, Net, cores};
use crate::density::trial::answer;
use crate::density::viewers::{Begun, Seen, Task};
use crate::film::{self, Recipe};

/// Seconds judged.
pub const SECONDS: u64 = 4;
/// Newcomers, of whom 62 or so fit; and how many of them come in a second.
const NEWCOMERS: u32 = 100;
const PER_SECOND: f64 = 50.0;
/// Newcomers where it is to be seen how many fit: the more places in the films are tried, the more do.
const FOR_NODE: u32 = 400;
/// Newcomers of the storm: ten times as many as fit.
const STORM: u32 = 620;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// All policies, with films of scenes.
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

/// What waits before the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// First come, first served.
    Plain,
    /// One that looks at marks.
    Heeding,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Of what.
    pub part: Part,
    /// By which rule.
    pub policy: String,
    /// What waited before the link.
    pub queue: Queue,
    /// Who asked, and how it went.
    pub begun: Begun,
    /// What admitted viewers saw.
    pub seen: Seen,
    /// Share of the link that was used meanwhile.
    pub share: f64,
    /// How the storm was answered over the link, and at the server's own end of it.
    pub storm: Option<(Answered, Answered)>,
    /// Most bytes of memory that the server held at once, where it had a limit.
    pub memory: Option<u64>,
}

/// All that was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Real {
    /// Servers at rest.
    pub runs: Vec<Run>,
    /// Worlds that changed.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// Crowds that pressed play at once.
    #[serde(default)]
    pub crowds: Vec<Crowd>,
}

/// Where it takes place.
pub struct Stage {
    pub net: Net,
    folder: Folder,
}

/// Films in a folder of their own.
pub struct Films {
    /// Which.
    pub folder: PathBuf,
    count: u32,
    /// Seconds of each.
    seconds: u32,
}

/// How one run is to be.
struct Plan<'a> {
    part: Part,
    policy: String,
    queue: Queue,
    /// Whether a storm comes.
    storm: bool,
    films: &'a Films,
    /// What is random in it comes from this.
    seed: u64,
}

impl Films {
    /// So many of 1.5 Mbit/s.
    fn make(folder: &Folder, kind: Kind, count: u32, seconds: u32) -> anyhow::Result<Films> {
        let films = Films {
            folder: folder.path().join(kind.slug()),
            count,
            seconds,
        };
        std::fs::create_dir_all(&films.folder)?;
        for number in 0..count {
            let recipe = Recipe {
                seconds,
                fps: 25,
                // The paper's GOPs, of 124 KB on average, play for about as long.
                gop: 17,
                picture_rate: 1_372_000,
                sound_rate: 128_000,
                with_media: true,
                seed: 100 + u64::from(number),
            };
            let levels = films::levels(kind, seconds as usize, &mut Random::new(recipe.seed));
            let level = |picture: u32| {
                let quarter = picture as usize * BINS / recipe.fps as usize;
                levels.get(quarter).copied().unwrap_or(1.0)
            };
            let path = films.folder.join(format!("film{number}.mp4"));
            film::make_varying(&path, &recipe, &level)?;
        }
        Ok(films)
    }

    fn titles(&self) -> Vec<String> {
        (0..self.count)
            .map(|number| format!("film{number}"))
            .collect()
    }
}

impl Real {
    /// Measures these parts anew, and where policies are compared these; nothing where there are no network namespaces
    /// (they need root).
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
        let scenes = Films::make(&folder, Kind::Scenes, 4, 240)?;
        let vodca = Films::make(&folder, Kind::Vodca, 2, 1200)?;
        let stage = Stage { net, folder };
        for plan in plans(parts, of, times, &scenes, &vodca) {
            let run = stage
                .run(&plan)
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
            for (what, films) in [(What::Link, &scenes), (What::Disk, &vodca)] {
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

impl Stage {
    fn run(&self, plan: &Plan<'_>) -> anyhow::Result<Run> {
        match plan.queue {
            Queue::Plain => self.net.limit("100mbit")?,
            Queue::Heeding => self.net.limit_by_marks()?,
        }
        let (memory, pool) = match plan.part {
            Part::Node => (Some(MemoryLimit::make(model::MEMORY)?), "96MiB"),
            _ => (None, "512MiB"),
        };
        let server = SocketAddr::new(self.net.server(), 8554);
        let limited = match plan.policy.as_str() {
            "vodca" => "mem = \"256MB\"\nheadroom = 0\n",
            _ => "mem = \"none\"\n",
        };
        let config = format!(
            "admission.policy = \"{}\"\npool.size = \"{pool}\"\n[capacity]\nnet = \"100Mbit\"\n{limited}",
            plan.policy
        );
        let words = memory.as_ref().map(MemoryLimit::words);
        let started = self.start(plan.films, &config, &plan.policy, server, words)?;
        let newcomers = match (plan.part, plan.policy.as_str()) {
            // By the paper's rule all of them would come in.
            (Part::Node, "vodca") => NEWCOMERS,
            (Part::Node, _) => FOR_NODE,
            _ => NEWCOMERS,
        };
        let mut viewing = self.viewers(plan.films, newcomers, plan.seed, server, None)?;
        let lines = viewing.lines();
        let begun: Begun = serde_json::from_str(&answer(&lines, 60.0)?)?;
        std::thread::sleep(Duration::from_secs(1));
        viewing.tell("judge")?;
        let (from, before) = (reelway_clock::now(), self.net.carried()?);
        let storm = match plan.storm {
            true => Some((
                self.storm(plan, server, true)?,
                self.storm(plan, server, false)?,
            )),
            false => None,
        };
        std::thread::sleep(Duration::from_secs(SECONDS));
        let (to, after) = (reelway_clock::now(), self.net.carried()?);
        viewing.tell("finish")?;
        let seen = serde_json::from_str(&answer(&lines, 60.0)?)?;
        let memory = memory.map(|memory| memory.peak()).transpose();
        drop(started);
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
            memory: memory?,
        })
    }

    /// Starts a server, `words` before its name.
    pub fn start(
        &self,
        films: &Films,
        config: &str,
        state: &str,
        at: SocketAddr,
        words: Option<[String; 4]>,
    ) -> anyhow::Result<Child> {
        self.start_in(&films.folder, config, state, at, words)
    }

    /// The same of a folder of films.
    pub fn start_in(
        &self,
        films: &Path,
        config: &str,
        state: &str,
        at: SocketAddr,
        words: Option<[String; 4]>,
    ) -> anyhow::Result<Child> {
        let file = self.folder.path().join("reelway.toml");
        std::fs::write(&file, config)?;
        let placed = self.net.server_command(std::env::current_exe()?);
        // Around all: within a network namespace control groups are not to be seen.
        let mut command = match words {
            Some([shell, rest @ ..]) => {
                let mut command = Command::new(shell);
                command.args(rest).arg(placed.get_program());
                command.args(placed.get_args());
                command
            }
            None => placed,
        };
        command
            .arg("serve")
            .arg(films)
            .arg("--config")
            .arg(&file)
            .arg("--state")
            .arg(self.folder.path().join("state").join(state))
            .args(["--rtsp", &at.to_string(), "--http"])
            .arg(format!("{}:8080", at.ip()))
            .args(["--log", "warn"]);
        Child::start_quiet(&mut command)
    }

    /// Viewers who begin anywhere in the films, so that the films' dense scenes do not come at once to all.
    /// Those who are to report what never came do it to `reports_to`.
    pub fn viewers(
        &self,
        films: &Films,
        newcomers: u32,
        seed: u64,
        server: SocketAddr,
        reports_to: Option<SocketAddr>,
    ) -> anyhow::Result<Child> {
        let mut random = Random::new(seed);
        let last = (f64::from(films.seconds) - 110.0).max(0.0);
        let titles = films.titles().into_iter();
        let urls = titles.map(|title| format!("rtsp://{server}/{title}"));
        let places = (0..newcomers).map(|_| random.unit() * last).collect();
        self.viewers_of(urls.collect(), newcomers, PER_SECOND, places, reports_to)
    }

    /// Viewers of these addresses, in turn, so many of whom come in a second and begin at these places.
    pub fn viewers_of(
        &self,
        urls: Vec<String>,
        viewers: u32,
        per_second: f64,
        places: Vec<f64>,
        reports_to: Option<SocketAddr>,
    ) -> anyhow::Result<Child> {
        let task = Task {
            urls,
            viewers,
            at: self.net.viewers(),
            per_second,
            patience: 45.0,
            places,
            reports_to,
        };
        let mut command = self.net.viewer_command(std::env::current_exe()?);
        command.args(["bench", "density", "--task", &serde_json::to_string(&task)?]);
        Child::start(&mut command)
    }

    /// Where its films and servers' states are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ten times as many newcomers as fit, at the far end of the link or at the server's own.
    fn storm(&self, plan: &Plan<'_>, server: SocketAddr, far: bool) -> anyhow::Result<Answered> {
        let task = super::Task::Storm(storm::Task {
            server,
            titles: plan.films.titles(),
            newcomers: STORM,
            per_second: 200.0,
        });
        let program = std::env::current_exe()?;
        let mut command = match far {
            true => self.net.viewer_command(program),
            false => self.net.beside_server_command(program),
        };
        command.args(["bench", "admission", "--task"]);
        let mut newcomers = Child::start(command.arg(serde_json::to_string(&task)?))?;
        let lines = newcomers.lines();
        Ok(serde_json::from_str(&answer(&lines, 60.0)?)?)
    }
}

//! The setting: films, a server, viewers and newcomers, on two sides of a link.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use reelway_demand::BINS;
use reelway_determinism::Random;

use super::films::{self, FilmKind};
use super::storm::{self, Answered};
use super::task::Task;
use crate::bed::{Child, Folder, Net};
use crate::density::trial::answer;
use crate::density::viewers;
use crate::film::{self, Recipe};

/// Viewers who arrive per second.
const PER_SECOND: f64 = 50.0;
/// Newcomers of the storm: ten times as many as fit.
const STORM: u32 = 620;

/// The two sides of a link, and a folder for films and the servers' state.
pub struct Stage {
    pub net: Net,
    folder: Folder,
}

/// Films in a separate folder.
pub struct Films {
    /// The folder.
    pub folder: PathBuf,
    count: u32,
    /// Duration of each film in seconds.
    seconds: u32,
}

impl Films {
    /// Makes `count` films of 1.5 Mbit/s.
    pub fn make(
        folder: &Folder,
        kind: FilmKind,
        count: u32,
        seconds: u32,
    ) -> anyhow::Result<Films> {
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
                // About the duration of the paper's GOPs, which have 124 KB on average.
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

    /// Returns their titles.
    pub fn titles(&self) -> Vec<String> {
        (0..self.count)
            .map(|number| format!("film{number}"))
            .collect()
    }
}

impl Stage {
    /// Creates a stage on this network; everything is written to this folder.
    pub fn new(net: Net, folder: Folder) -> Stage {
        Stage { net, folder }
    }

    /// Starts a server, with `words` before its command.
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

    /// Starts a server of a folder of films.
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
        // Before everything else: control groups are not visible within a network namespace.
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

    /// Starts viewers who begin anywhere in the films, so that dense scenes do not reach all of
    /// them at once. If `reports_to` is set, they report missing packets to it.
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

    /// Starts viewers of these addresses, in turn, at `per_second`, who begin at these positions.
    pub fn viewers_of(
        &self,
        urls: Vec<String>,
        viewers: u32,
        per_second: f64,
        places: Vec<f64>,
        reports_to: Option<SocketAddr>,
    ) -> anyhow::Result<Child> {
        let task = viewers::Task {
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

    /// Returns the folder of films and the servers' state.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a storm of ten times as many newcomers as fit, at the link's far end or at the
    /// server's.
    pub fn storm(&self, films: &Films, server: SocketAddr, far: bool) -> anyhow::Result<Answered> {
        let task = Task::Storm(storm::Task {
            server,
            titles: films.titles(),
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

//! Where it takes place: films, a server, viewers and newcomers, on two sides of a link.

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

/// Viewers who come in a second.
const PER_SECOND: f64 = 50.0;
/// Newcomers of the storm: ten times as many as fit.
const STORM: u32 = 620;

/// The two sides of a link, and a folder for films and servers' states.
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

impl Films {
    /// So many of 1.5 Mbit/s.
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

    /// Their titles.
    pub fn titles(&self) -> Vec<String> {
        (0..self.count)
            .map(|number| format!("film{number}"))
            .collect()
    }
}

impl Stage {
    /// On this net, with everything that is written in this folder.
    pub fn new(net: Net, folder: Folder) -> Stage {
        Stage { net, folder }
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

    /// Where its films and servers' states are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ten times as many newcomers as fit, at the far end of the link or at the server's own.
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

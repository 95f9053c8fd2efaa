//! The same with a real server, real packets, and a link that really carries 100 Mbit/s (TBF between two network
//! namespaces), judged by the yardstick's light viewers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use crate::bed::{Child, Folder, Net, cores};
use crate::density::trial::answer;
use crate::density::viewers::{Begun, Seen, Task};
use crate::film::{self, Recipe};

/// Seconds judged.
const SECONDS: u64 = 15;
/// Newcomers, of whom 62 or so fit.
const NEWCOMERS: u32 = 100;
/// Newcomers of the storm: ten times as many as fit.
const STORM: u32 = 620;

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// By which rule.
    pub policy: String,
    /// Whether ten times as many newcomers as fit came while it was judged.
    pub storm: bool,
    /// Who asked, and how it went.
    pub begun: Begun,
    /// What those saw who came in.
    pub seen: Seen,
    /// How the storm was answered.
    pub refused: Option<Begun>,
}

/// Where it takes place.
struct Stage {
    net: Net,
    folder: Folder,
    films: PathBuf,
}

/// Films of 1.5 Mbit/s, four of them.
fn films(folder: &Folder) -> anyhow::Result<PathBuf> {
    let films = folder.path().join("films");
    std::fs::create_dir_all(&films)?;
    for number in 0..4 {
        let recipe = Recipe {
            seconds: 150,
            fps: 25,
            gop: 13,
            picture_rate: 1_372_000,
            sound_rate: 128_000,
            with_media: true,
            seed: 100 + number,
        };
        film::make(&films.join(format!("film{number}.mp4")), &recipe)?;
    }
    Ok(films)
}

/// All runs; none where there are no network namespaces (they need root).
pub fn runs() -> anyhow::Result<Vec<Run>> {
    cores::leave_the_servers();
    let net = Net::make()?;
    if !net.has_namespaces() {
        return Ok(Vec::new());
    }
    net.limit("100mbit")?;
    let folder = Folder::make("admission")?;
    let films = films(&folder)?;
    let stage = Stage { net, folder, films };
    let mut runs = Vec::new();
    for (policy, storm) in [
        ("everybody", false),
        ("peak", false),
        ("smoothed:10", false),
        ("exact", false),
        ("exact", true),
    ] {
        let run = stage
            .run(policy, storm)
            .with_context(|| format!("the server with policy {policy}"))?;
        eprintln!(
            "{policy}{}: {} viewers, {} packets lost, p99.9 {:.1} ms late",
            if storm { ", in a storm" } else { "" },
            run.begun.playing,
            run.seen.lost,
            run.seen.late_p999_ms
        );
        runs.push(run);
    }
    Ok(runs)
}

impl Stage {
    fn run(&self, policy: &str, storm: bool) -> anyhow::Result<Run> {
        let config = self.folder.path().join("reelway.toml");
        std::fs::write(
            &config,
            format!(
                "admission.policy = \"{policy}\"\ncapacity.net = \"100Mbit\"\npool.size = \"512MiB\"\n"
            ),
        )?;
        let rtsp = format!("{}:8554", self.net.server());
        let mut command = self.net.server_command(std::env::current_exe()?);
        command
            .arg("serve")
            .arg(&self.films)
            .arg("--config")
            .arg(&config)
            .arg("--state")
            .arg(self.folder.path().join("state"))
            .args(["--rtsp", &rtsp, "--http"])
            .arg(format!("{}:8080", self.net.server()))
            .args(["--rtp-ports", "0,0", "--log", "warn"])
            .stderr(std::process::Stdio::null());
        let _server = Child::start_quiet(&mut command)?;
        let mut viewing = self.viewers(NEWCOMERS, 50.0, &rtsp)?;
        let lines = viewing.lines();
        let begun: Begun = serde_json::from_str(&answer(&lines, 60.0)?)?;
        std::thread::sleep(Duration::from_secs(2));
        viewing.tell("judge")?;
        let mut refused = None;
        if storm {
            let mut newcomers = self.viewers(STORM, 200.0, &rtsp)?;
            let said = newcomers.lines();
            refused = Some(serde_json::from_str(&answer(&said, 90.0)?)?);
        }
        std::thread::sleep(Duration::from_secs(SECONDS));
        viewing.tell("finish")?;
        let seen = serde_json::from_str(&answer(&lines, 60.0)?)?;
        Ok(Run {
            policy: policy.to_owned(),
            storm,
            begun,
            seen,
            refused,
        })
    }

    fn viewers(&self, viewers: u32, per_second: f64, rtsp: &str) -> anyhow::Result<Child> {
        let task = Task {
            urls: (0..4)
                .map(|number| format!("rtsp://{rtsp}/film{number}"))
                .collect(),
            viewers,
            at: self.net.viewers(),
            per_second,
            patience: 45.0,
        };
        let mut command = self.net.viewer_command(std::env::current_exe()?);
        command.args(["bench", "density", "--task", &serde_json::to_string(&task)?]);
        Child::start(&mut command)
    }
}

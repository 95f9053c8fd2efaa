//! `reelway bench yardstick`: how many virtual viewers a core of the yardstick carries.
//!
//! A server on one core, the yardstick's process on another. What is judged is the yardstick: its CPU a
//! viewer while all are there, the packets that it had no room for, and how right its times are. Whether
//! the server keeps up with so many is told beside it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::{Value, json};

use crate::film::{Recipe, make};
use crate::server::Server;
use crate::{Figure, Report};

/// What the experiment can be told.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench yardstick",
    about = "Virtual viewers a core: how many streams of 4 Mb/s the yardstick counts and times"
)]
struct Args {
    /// Viewers at once
    #[arg(long, default_value_t = 2000)]
    viewers: u32,
    /// Films
    #[arg(long, default_value_t = 4)]
    films: u32,
    /// Seconds that are judged with all viewers there
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Bits a second of a film
    #[arg(long, default_value_t = 4_000_000)]
    rate: u64,
    /// New viewers a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    per_second: u32,
}

/// Bits a second of the sound.
const SOUND: u64 = 128_000;

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let name = "reelway bench yardstick".to_owned();
    let args = Args::try_parse_from(std::iter::once(&name).chain(args))
        .unwrap_or_else(|error| error.exit());
    let dir = std::env::temp_dir().join(format!("reelway-bench-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("films")).with_context(|| dir.display().to_string())?;
    let outcome = measure(&dir, &args);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

fn measure(dir: &Path, args: &Args) -> anyhow::Result<Report> {
    let films = dir.join("films");
    let coming = args.viewers / args.per_second + 2;
    let length = coming + args.seconds;
    for number in 0..args.films {
        let recipe = Recipe {
            seconds: length + 30,
            fps: 25,
            gop: 50,
            picture_rate: args.rate.saturating_sub(SOUND),
            sound_rate: SOUND,
            with_media: true,
            seed: u64::from(number) + 1,
        };
        let path = films.join(format!("film{number:02}.mp4"));
        make(&path, &recipe).with_context(|| path.display().to_string())?;
    }
    let server = Server::start(&films, &dir.join("state"), &["--pool", "512MiB"])?;
    let story = dir.join("story.json");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("taskset");
    command
        .args(["-c", &(cores - 1).to_string()])
        .arg(std::env::current_exe()?)
        .arg("yardstick");
    for number in 0..args.films {
        command.arg(format!("rtsp://{}/film{number:02}", server.rtsp));
    }
    let tenth = args.per_second / 10;
    command
        .arg(format!("--clients={}", args.viewers))
        .arg(format!("--arrivals=steps:{tenth}+{tenth}/100ms"))
        .arg(format!("--duration={length}"))
        .arg("--json")
        .arg(&story);
    let before = server.cpu_seconds()?;
    // It exits with 1 where the server did not keep up: that is told, too.
    command
        .stdin(Stdio::null())
        .status()
        .context("starting the yardstick (taskset is in util-linux)")?;
    let server_cpu = server.cpu_seconds()? - before;
    let text = std::fs::read_to_string(&story).context("the yardstick told nothing")?;
    report(args, &serde_json::from_str(&text)?, server_cpu)
}

fn report(args: &Args, told: &Value, server_cpu: f64) -> anyhow::Result<Report> {
    let number = |value: &Value, what: &str| value[what].as_f64().unwrap_or(0.0);
    let samples = told["samples"].as_array().context("no samples")?;
    // Whole seconds with everybody there.
    let there: Vec<&Value> = samples
        .iter()
        .filter(|sample| number(sample, "playing") == f64::from(args.viewers))
        .collect();
    let judged = there.get(1..).unwrap_or_default();
    ensure!(
        !judged.is_empty(),
        "never were all {} viewers there: {} of them came, {} were refused",
        args.viewers,
        told["viewers"],
        told["refused"]
    );
    let mean = |what: &str| {
        judged
            .iter()
            .map(|sample| number(sample, what))
            .sum::<f64>()
            / judged.len() as f64
    };
    // What did not come cost nothing: only what did counts as viewers.
    let worth = |bytes: f64, cpu: f64| bytes * 8.0 / args.rate as f64 / cpu.max(1e-3);
    let mut cores: Vec<f64> = judged
        .iter()
        .map(|sample| worth(number(sample, "bytes"), number(sample, "cpu")))
        .collect();
    cores.sort_by(f64::total_cmp);
    let mut report = Report::new("yardstick");
    report.figures = vec![
        Figure::at_least(
            "virtual_viewers_a_core",
            worth(mean("bytes"), mean("cpu")),
            "viewers",
            2000.0,
        )
        .spread(cores[0], cores[cores.len() - 1]),
        Figure::at_most(
            "timing_error_p99_ms",
            number(told, "timing_error_p99_ms"),
            "ms",
            0.2,
        ),
        Figure::at_most(
            "packets_without_room",
            number(told, "dropped_here"),
            "packets",
            0.0,
        ),
    ];
    for what in [
        "viewers",
        "admitted",
        "refused",
        "harmed",
        "packets",
        "lost",
        "late_p99_ms",
        "late_p999_ms",
        "late_max_ms",
        "cpu_s",
    ] {
        report.details.insert(what.into(), told[what].clone());
    }
    report
        .details
        .insert("server_cpu_seconds".into(), json!(server_cpu));
    report.text = vec![
        format!(
            "  {} viewers of {:.1} Mb/s for {} s: {:.2} Gb/s, {:.0} packets a second, {:.0}% of the yardstick's core",
            args.viewers,
            args.rate as f64 / 1e6,
            judged.len(),
            mean("bytes") * 8e-9,
            mean("packets"),
            mean("cpu") * 100.0
        ),
        format!(
            "  the server on the other core: {} packets lost, lateness p99 {:.2} ms, p99.9 {:.2}, greatest {:.2}; {} of {} viewers harmed",
            told["lost"],
            number(told, "late_p99_ms"),
            number(told, "late_p999_ms"),
            number(told, "late_max_ms"),
            told["harmed"],
            told["viewers"]
        ),
    ];
    Ok(report)
}

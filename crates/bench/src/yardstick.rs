//! `reelway bench yardstick`: how many virtual viewers the yardstick carries on one core.
//!
//! A server runs on one core, the yardstick's process on another. The subject is the yardstick: its
//! CPU per viewer while all are present, the packets for which its buffers had no room, and the
//! accuracy of its times. Whether the server keeps up is reported beside it.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::{Value, json};

use crate::arguments::{arguments, one_or_more};
use crate::bed::Folder;
use crate::chart::{self, Axis, Mark, Series};
use crate::film::{Recipe, SOUND, make_many};
use crate::report::{Figure, Report};
use reelway_node::process::Server;

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench yardstick",
    about = "Virtual viewers per core: how many streams of 4 Mb/s the yardstick counts and times"
)]
struct Args {
    /// Number of concurrent viewers
    #[arg(long, default_value_t = 2000, value_parser = one_or_more::<u32>)]
    viewers: u32,
    /// Number of films
    #[arg(long, default_value_t = 4, value_parser = one_or_more::<u32>)]
    films: u32,
    /// Seconds that are judged, with all viewers playing
    #[arg(long, default_value_t = 20, value_parser = one_or_more::<u32>)]
    seconds: u32,
    /// Bit rate of a film, in bit/s
    #[arg(long, default_value_t = 4_000_000)]
    rate: u64,
    /// New viewers per second, rounded down to a multiple of 10
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    per_second: u32,
}

/// The chart's file.
const CHART: &str = "yardstick/yardstick.svg";

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let args: &Args = &arguments("yardstick", args);
    let folder = Folder::make("bench-yardstick")?;
    let films = folder.path().join("films");
    let tenth = args.per_second / 10;
    let coming = args.viewers / (10 * tenth) + 2;
    let length = coming + args.seconds;
    let picture = args.rate.saturating_sub(SOUND);
    make_many(
        &films,
        args.films as usize,
        &Recipe::usual(length + 30, picture),
    )?;
    let state = folder.path().join("state");
    let server = Server::start(&films, &state, &["--pool", "512MiB"])?;
    let story = folder.path().join("story.json");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new("taskset");
    command
        .args(["-c", &(cores - 1).to_string()])
        .arg(std::env::current_exe()?)
        .arg("yardstick");
    for number in 0..args.films {
        command.arg(format!("rtsp://{}/film{number:02}", server.rtsp));
    }
    command
        .arg(format!("--clients={}", args.viewers))
        .arg(format!("--arrivals=steps:{tenth}+{tenth}/100ms"))
        .arg(format!("--duration={length}"))
        .arg("--json")
        .arg(&story);
    let before = server.cpu_seconds()?;
    // It exits with 1 if the server did not keep up, which is reported, too.
    command
        .stdin(Stdio::null())
        .status()
        .context("starting the yardstick (taskset is in util-linux)")?;
    let server_cpu = server.cpu_seconds()? - before;
    let text = std::fs::read_to_string(&story).context("the yardstick reported nothing")?;
    let measured = serde_json::from_str(&text)?;
    report(args, &measured, server_cpu)
}

/// Draws the use of the yardstick's core and the received rate, second by second.
fn chart(args: &Args, measured: &Value) -> String {
    let samples = measured["samples"].as_array();
    let points = |what: fn(&Value) -> f64| {
        let samples = samples.into_iter().flatten();
        let point = |sample: &Value| (sample["at_s"].as_f64().unwrap_or(0.0), what(sample));
        samples.map(point).collect::<Vec<_>>()
    };
    let cpu = points(|sample| sample["cpu"].as_f64().unwrap_or(0.0) * 100.0);
    let rate = points(|sample| sample["bytes"].as_f64().unwrap_or(0.0) * 8e-8);
    let last = cpu.last().map_or(1.0, |point| point.0);
    let most = |points: &[(f64, f64)]| points.iter().map(|point| point.1).fold(0.0, f64::max);
    let top = most(&cpu).max(most(&rate)).max(1.0);
    let line = |name: &str, colour, points| Series {
        name: name.to_owned(),
        mark: Mark::Line,
        colour,
        points,
    };
    chart::lines(
        &format!("{} virtual viewers on one core", args.viewers),
        &Axis::linear("seconds", 0.0, last),
        &Axis::linear("% of the core; Gb/s × 10", 0.0, top),
        &[
            line("the yardstick's core, %", 0, cpu),
            line("received, tenths of Gb/s", 1, rate),
        ],
    )
}

fn report(args: &Args, measured: &Value, server_cpu: f64) -> anyhow::Result<Report> {
    let number = |value: &Value, what: &str| value[what].as_f64().unwrap_or(0.0);
    let samples = measured["samples"].as_array().context("no samples")?;
    // Whole seconds in which all viewers are present.
    let there: Vec<&Value> = samples
        .iter()
        .filter(|sample| number(sample, "playing") == f64::from(args.viewers))
        .collect();
    let judged = there.get(1..).unwrap_or_default();
    ensure!(
        !judged.is_empty(),
        "never were all {} viewers there: {} of them came, {} were refused",
        args.viewers,
        measured["viewers"],
        measured["refused"]
    );
    let mean = |what: &str| {
        judged
            .iter()
            .map(|sample| number(sample, what))
            .sum::<f64>()
            / judged.len() as f64
    };
    // Packets that did not arrive cost nothing, so viewers are counted by the bytes received.
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
            number(measured, "timing_error_p99_ms"),
            "ms",
            0.2,
        ),
        Figure::at_most(
            "packets_without_room",
            number(measured, "dropped_here"),
            "packets",
            0.0,
        ),
    ];
    for (id, what, unit) in [
        ("server_packets_lost", "lost", "packets"),
        ("server_late_p99_ms", "late_p99_ms", "ms"),
        ("server_late_p999_ms", "late_p999_ms", "ms"),
        ("server_late_max_ms", "late_max_ms", "ms"),
    ] {
        let value = number(measured, what);
        report.figures.push(Figure::without_goal(id, value, unit));
    }
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
        report.details.insert(what.into(), measured[what].clone());
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
            measured["lost"],
            number(measured, "late_p99_ms"),
            number(measured, "late_p999_ms"),
            number(measured, "late_max_ms"),
            measured["harmed"],
            measured["viewers"]
        ),
    ];
    report.page = format!("![the yardstick's core over time]({CHART})\n");
    report.charts.push((CHART.into(), chart(args, measured)));
    Ok(report)
}

//! `reelway bench beside`: whether heavy HTTP traffic makes packets to RTSP/UDP viewers later.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use reelway_node::process::Server;
use reelway_yardstick::{Histogram, Reference};
use serde_json::json;

use crate::arguments::{arguments, one_or_more};
use crate::bed::{Folder, cores};
use crate::film::{Recipe, make_many};
use crate::http::load::{Load, SEGMENT, Target};
use crate::reference;
use crate::report::{Figure, Report};
use crate::serve::{ARRIVALS, Crowd};
use crate::stats::Spread;

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench beside",
    about = "Lateness of packets to viewers over RTSP/UDP with and without HTTP traffic, one core for the server"
)]
struct Args {
    /// Number of concurrent viewers over RTSP/UDP
    #[arg(long, default_value_t = 200, value_parser = one_or_more::<usize>)]
    viewers: usize,
    /// Seconds that each viewer watches
    #[arg(long, default_value_t = 20, value_parser = one_or_more::<u32>)]
    seconds: u32,
    /// Traffic over HTTP, in Mbit/s
    #[arg(long, default_value_t = 2000)]
    http: u32,
    /// Alternating runs of both cases; the median is reported
    #[arg(long, default_value_t = 5, value_parser = one_or_more::<usize>)]
    rounds: usize,
}

/// Number of films, and the bit rate of each in bit/s.
const FILMS: (usize, u64) = (20, 4_000_000);
/// Number of HTTP connections.
const CONNECTIONS: usize = 16;
/// Number of segments that are requested over HTTP; all are in memory.
const SEGMENTS: u64 = 16;

/// Results of one run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Run {
    late_p99_ms: f64,
    late_p999_ms: f64,
    late_max_ms: f64,
    harmed: u64,
    /// HTTP throughput in Mbit/s.
    http: f64,
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let args: &Args = &arguments("beside", args);
    // HTTP readers are threads that this one starts.
    cores::leave_the_servers();
    let folder = Folder::make("bench-beside")?;
    let films = folder.path().join("films");
    let recipe = Recipe::usual(args.seconds + 60, FILMS.1);
    let mut references = Vec::new();
    for path in make_many(&films, FILMS.0, &recipe)? {
        references.push(Arc::new(reference::read(&path)?));
    }
    let state = folder.path().join("state");
    let server = Server::start(&films, &state, &["--pool", "1GiB"])?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..args.rounds {
        eprintln!("beside: round {} of {}", round + 1, args.rounds);
        without.push(watch(args, &server, &references, 0)?);
        with.push(watch(args, &server, &references, args.http)?);
    }
    Ok(report(args, &without, &with))
}

/// Runs the RTSP viewers beside `http` Mbit/s of HTTP.
fn watch(
    args: &Args,
    server: &Server,
    references: &[Arc<Reference>],
    http: u32,
) -> anyhow::Result<Run> {
    let load = Load {
        target: Target::Parts(server.http, "/film00/file"),
        connections: CONNECTIONS,
        rate: f64::from(http) * 1e6 / 8.0 / SEGMENT as f64,
        segments: SEGMENTS,
        bytes: SEGMENT,
        shuffled: false,
    };
    let crowd = Crowd {
        viewers: args.viewers,
        films: FILMS.0,
        seconds: args.seconds,
    };
    // From the arrival of the first viewer to the departure of the last.
    let seconds = Duration::from_secs(args.seconds.into()) + ARRIVALS;
    let (stories, bytes) = std::thread::scope(|scope| -> anyhow::Result<_> {
        let beside = (http > 0).then(|| scope.spawn(|| load.run(seconds, 0, &|_| {})));
        let stories = crowd.watches(server, references)?;
        let bytes = match beside.map(|thread| thread.join()) {
            None => 0,
            Some(Ok(done)) => done.context("HTTP beside the viewers")?.bytes,
            Some(Err(_)) => bail!("the thread that asks over HTTP ended"),
        };
        Ok((stories, bytes))
    })?;
    let mut late = Histogram::default();
    let mut harmed = 0;
    for story in &stories {
        match story {
            Ok(story) => {
                late.merge(&story.late());
                harmed += u64::from(!story.is_whole());
            }
            Err(_) => harmed += 1,
        }
    }
    let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
    Ok(Run {
        late_p99_ms: millis(late.percentile(0.99)),
        late_p999_ms: millis(late.percentile(0.999)),
        late_max_ms: millis(late.max()),
        harmed,
        http: bytes as f64 * 8.0 / 1e6 / seconds.as_secs_f64(),
    })
}

fn report(args: &Args, without: &[Run], with: &[Run]) -> Report {
    let of = |runs: &[Run], what: fn(&Run) -> f64| Spread::of(runs.iter().map(what).collect());
    let later =
        of(with, |run| run.late_p999_ms).median - of(without, |run| run.late_p999_ms).median;
    let harmed: u64 = without.iter().chain(with).map(|run| run.harmed).sum();
    let mut report = Report::new("beside");
    report.figures = vec![
        Figure::at_most("late_p999_more_ms", later, "ms", 1.0),
        Figure::at_most("viewers_harmed", harmed as f64, "viewers", 0.0),
        Figure::without_goal("http_mbit", of(with, |run| run.http).median, "Mbit/s"),
    ];
    let mut table = String::from(
        "| | lateness p99, ms | p99.9, ms | maximum, ms | HTTP, Mbit/s |\n|---|---:|---:|---:|---:|\n",
    );
    for (name, runs) in [("alone", without), ("beside HTTP", with)] {
        let spread = |what: fn(&Run) -> f64| {
            let spread = of(runs, what);
            format!(
                "{:.2} ({:.2} – {:.2})",
                spread.median, spread.low, spread.high
            )
        };
        table += &format!(
            "| {name} | {} | {} | {} | {:.0} |\n",
            spread(|run| run.late_p99_ms),
            spread(|run| run.late_p999_ms),
            spread(|run| run.late_max_ms),
            of(runs, |run| run.http).median
        );
    }
    report.page = format!(
        "{} viewers of {} films of {} Mb/s over RTSP/UDP, for {} s each, alone and beside {CONNECTIONS} connections that ask for \
         segments of 2 MiB over HTTP; {} runs of each, in turns. The server has core 0, viewers and readers the others. \
         Lateness is that of each packet against its timestamp, as the kernel received it.\n\n{table}",
        args.viewers,
        FILMS.0,
        FILMS.1 / 1_000_000,
        args.seconds,
        args.rounds
    );
    report.details.insert("alone".into(), json!(without));
    report.details.insert("beside".into(), json!(with));
    report
}

//! `reelway bench start`: how soon a film begins, and continues after a seek; the same when each
//! viewer's needs are booked first; and how long a task occupies a reactor thread, for which all of
//! these wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;

use crate::arguments::arguments;
use crate::film::{Recipe, make};
use crate::report::{Figure, Report};
use crate::stats::at;
use reelway_node::process::{Server, get};

const FILM: Recipe = Recipe {
    seconds: 600,
    fps: 25,
    gop: 50,
    picture_rate: 4_000_000,
    sound_rate: 128_000,
    with_media: true,
    seed: 7,
};
const STARTS: usize = 200;
const SEEKS: usize = 200;

/// How soon a film begins over RTSP and HLS, and goes on after a seek
#[derive(clap::Parser)]
struct Args {}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let Args {} = arguments("start", args);
    let folder = crate::bed::Folder::make("bench-start")?;
    std::fs::create_dir_all(folder.path().join("films"))?;
    measure(folder.path())
}

/// Returns the `number`th of some positions, in seconds, in an order that no read-ahead guesses.
fn place(number: usize) -> f64 {
    (number * 377 % 590) as f64
}

fn measure(dir: &Path) -> anyhow::Result<Report> {
    make(&dir.join("films/film.mp4"), &FILM)?;
    // Pages still to be written would delay the first reads.
    nix::unistd::sync();
    let mut report = Report::new("start");
    // By default nothing is limited on loopback, so nothing is booked.
    let ways: [(&str, &[&str]); 2] = [
        ("", &[]),
        (
            "booked_",
            &["--capacity", "net=10Gbit,disk=10GB/s,cpu=20Gbit"],
        ),
    ];
    for (prefix, flags) in ways {
        times(&mut report, dir, prefix, flags)?;
    }
    Ok(report)
}

/// Measures start times at a server with these flags; the names of the figures begin with `prefix`.
fn times(report: &mut Report, dir: &Path, prefix: &str, flags: &[&str]) -> anyhow::Result<()> {
    let server = Server::start(&dir.join("films"), &dir.join("state"), flags)?;
    let url = format!("rtsp://{}/film", server.rtsp);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut starts = Vec::new();
    for number in 0..STARTS {
        starts.extend(
            runtime.block_on(reelway_yardstick::rtsp::start_times(&url, &[place(number)]))?,
        );
    }
    let places: Vec<f64> = (0..=SEEKS).map(|number| place(number + 100)).collect();
    let seeks = runtime
        .block_on(reelway_yardstick::rtsp::start_times(&url, &places))?
        .split_off(1);
    let segments = segment_times(server.http)?;
    let polls = Polls::of(server.http)?;

    for (name, goal, times) in [
        ("play", 20.0, starts),
        ("seek", 20.0, seeks),
        ("hls_first_byte", 10.0, segments),
    ] {
        let name = format!("{prefix}{name}");
        let mut millis: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        millis.sort_by(f64::total_cmp);
        report.figures.push(Figure::at_most(
            &format!("{name}_p99_ms"),
            at(&millis, 0.99),
            "ms",
            goal,
        ));
        for (of, share) in [("p50", 0.5), ("p999", 0.999), ("max", 1.0)] {
            let id = format!("{name}_{of}_ms");
            let figure = Figure::without_goal(&id, at(&millis, share), "ms");
            report.figures.push(figure);
        }
        report
            .details
            .insert(format!("{name}_times"), json!(millis.len()));
        report
            .text
            .push(format!("  {name:<22} measured {} times", millis.len()));
    }
    report.figures.push(Figure::at_most(
        &format!("{prefix}poll_cpu_max_ms"),
        polls.longest_ms,
        "ms",
        5.0,
    ));
    report.text.push(format!(
        "  {:<22} {} polls of the reactor: mean {:.3} ms of CPU, greatest {:.2}; {} bytes serialised or compressed in one at most",
        format!("{prefix}poll"),
        polls.count,
        polls.mean_ms,
        polls.longest_ms,
        polls.most_bytes
    ));
    Ok(())
}

/// How long single polls occupied the reactor's threads.
struct Polls {
    count: f64,
    mean_ms: f64,
    longest_ms: f64,
    most_bytes: f64,
}

impl Polls {
    fn of(server: SocketAddr) -> anyhow::Result<Polls> {
        let metrics = get(server, "/metrics")?;
        let value = |name: &str| {
            let mut values = metrics.lines().filter_map(|line| {
                line.strip_prefix(name)?
                    .strip_prefix(' ')?
                    .parse::<f64>()
                    .ok()
            });
            values
                .next()
                .with_context(|| format!("no {name} in /metrics"))
        };
        let count = value("reelway_reactor_poll_cpu_seconds_count")?;
        Ok(Polls {
            count,
            mean_ms: value("reelway_reactor_poll_cpu_seconds_sum")? / count.max(1.0) * 1e3,
            longest_ms: value("reelway_reactor_poll_longest_cpu_seconds")? * 1e3,
            most_bytes: value("reelway_reactor_poll_most_bytes")?,
        })
    }
}

/// Measures the time from a segment's request to its first byte, for new viewers who each begin
/// somewhere in the film. (A viewer who requests segment after segment is paced at about twice the
/// film's rate once they are well ahead, and would measure that.)
fn segment_times(server: SocketAddr) -> anyhow::Result<Vec<Duration>> {
    const MAIN: &str = "/film/hls/main.m3u8";
    let is_playlist = |line: &&str| line.contains(".m3u8") && !line.starts_with('#');
    let mut times = Vec::new();
    for number in 0..STARTS {
        let main = get(server, MAIN)?;
        let playlist = below(
            MAIN,
            main.lines()
                .find(is_playlist)
                .context("no media playlist")?,
        );
        let media = get(server, &playlist)?;
        let segments: Vec<&str> = media.lines().filter(|line| line.contains(".m4s")).collect();
        let segment = segments
            .get(number * 37 % segments.len().max(1))
            .context("no segments")?;
        let path = below(&playlist, segment);
        let mut stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let asked = reelway_clock::now();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n"
        )?;
        stream.read_exact(&mut [0])?;
        times.push(reelway_clock::now().since(asked));
    }
    Ok(times)
}

/// Resolves a relative address against the document that contains it.
fn below(document: &str, address: &str) -> String {
    if address.starts_with('/') {
        return address.to_owned();
    }
    let mut parts: Vec<&str> = document
        .split('?')
        .next()
        .unwrap_or_default()
        .split('/')
        .collect();
    parts.pop();
    for part in address.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

//! `reelway bench http`: the cost of a megabyte over HTTP, in segments of 2 MiB from memory and
//! from disk, compared with nginx (with and without sendfile), Varnish and Squid.
//!
//! Each server in turn has core 0 for itself; persistent connections from the other cores send it
//! requests at the same fixed rate. The cost is the busy time of the whole core, less its busy time
//! without a server: with sendfile, most of the work is done in interrupts, which are charged to no
//! process.
//!
//! | file | content |
//! |---|---|
//! | `kind.rs`, `servers.rs` | the servers: names and versions; start of each with the same bytes |
//! | `segments.rs` | the bytes |
//! | `bodies.rs` | ways of sending a body, each as a server that does nothing else (`--bodies`) |
//! | `requests.rs` | the cost of a small response (`--requests`) |
//! | `shadow.rs` | the cost of comparing cache policies (`reelway bench shadow`) |
//! | `quiet.rs` | the load of the machine without a server; undisturbed runs |
//! | `load.rs` | connections that send requests at a fixed rate and count the bytes received |

mod bodies;
mod kind;
pub mod load;
mod quiet;
mod requests;
mod segments;
mod servers;
pub mod shadow;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use clap::Parser;
use serde::Serialize;
use serde_json::json;

use self::kind::ServerKind;
use self::load::{Load, SEGMENT};
use self::quiet::{Quiet, undisturbed};
use self::requests::Runs;
use self::segments::{Bytes, HOT, SEGMENTS};
use self::servers::{POOLS, Running};
use crate::arguments::{one_or_more, positive};
use crate::bed::machine::Idle;
use crate::bed::{Folder, cores};
use crate::chart::{Bar, bars};
use crate::report::{Figure, Report};
use crate::stats::Spread;

/// Its arguments.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench http",
    about = "Cost of a megabyte over HTTP, compared with nginx, Varnish and Squid"
)]
struct Args {
    /// Install the Debian packages of missing servers (needs root)
    #[arg(long)]
    install: bool,
    /// Segments of 2 MiB per second, from memory
    #[arg(long, default_value_t = 150.0, value_parser = positive)]
    rate: f64,
    /// Segments of 2 MiB per second, from disk
    #[arg(long, default_value_t = 150.0, value_parser = positive)]
    disk_rate: f64,
    /// Number of connections
    #[arg(long, default_value_t = 16, value_parser = one_or_more::<usize>)]
    connections: usize,
    /// Duration of a run, in seconds
    #[arg(long, default_value_t = 5, value_parser = one_or_more::<u32>)]
    seconds: u32,
    /// Maximum number of attempts at a run that other programs disturb; the least disturbed counts
    #[arg(long, default_value_t = 8, value_parser = one_or_more::<usize>)]
    tries: usize,
    /// Runs of each server; the median is reported
    #[arg(long, default_value_t = 3, value_parser = one_or_more::<usize>)]
    rounds: usize,
    /// Measure only these servers, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<ServerKind>,
    /// Compare ways to send a response body from memory, instead of whole servers
    #[arg(long)]
    bodies: bool,
    /// Measure responses of 1 KB instead of segments
    #[arg(long)]
    requests: bool,
    /// Be the server of one way
    #[arg(long, hide = true, value_name = "WAY", requires = "film")]
    serve_bodies: Option<String>,
    /// Of this film
    #[arg(long, hide = true)]
    film: Option<PathBuf>,
}

/// Segments that are fetched before a run from disk: more than Reelway's pool holds.
const FILLS: u64 = 64;

/// The cost of a server.
#[derive(Clone, Debug, Serialize)]
struct Cost {
    server: ServerKind,
    version: String,
    from_disk: bool,
    /// Microseconds of the server's core per megabyte, by run.
    core_us_mb: Vec<f64>,
    /// The same for all cores, which includes the client.
    all_us_mb: Vec<f64>,
    /// The same for the server's processes, as charged by the kernel.
    process_us_mb: Vec<f64>,
    /// Bytes read from the disk for each byte sent, by run; empty if the folder is not on a disk.
    disk_share: Vec<f64>,
    /// The most that other programs used during a run, as a share of a core.
    disturbed: f64,
    /// Requests that were not sent when due, since the previous one was still being answered.
    late: u64,
    requests: u64,
}

impl Cost {
    fn core(&self) -> Spread {
        Spread::of(self.core_us_mb.clone())
    }
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let words = std::iter::once("reelway bench http".to_owned()).chain(args.iter().cloned());
    let args = Args::parse_from(words);
    if let Some((way, film)) = args.serve_bodies.as_deref().zip(args.film.as_deref()) {
        match bodies::serve(way, film)? {}
    }
    ensure!(
        args.rate > 0.0 && args.disk_rate > 0.0 && args.connections > 0 && args.rounds > 0,
        "--rate, --disk-rate, --connections and --rounds: above 0"
    );
    ensure!(args.seconds > 0, "--seconds: above 0");
    ensure!(
        cores::configured() > 1,
        "one core is the server's and another the client's: this machine has one"
    );
    if args.install {
        servers::install()?;
    }
    let mut kinds = match args.only.is_empty() {
        true if args.bodies => ServerKind::BODIES.to_vec(),
        true => ServerKind::ALL.to_vec(),
        false => args.only.clone(),
    };
    kinds.retain(|kind| {
        let is_there = kind.is_installed();
        if !is_there {
            eprintln!(
                "http: {} is not installed (--install installs it)",
                kind.name()
            );
        }
        is_there
    });
    let report = Report::new(match (args.bodies, args.requests) {
        (_, true) => "http-requests",
        (true, _) => "http-bodies",
        _ => "http",
    });
    cores::leave_the_servers();
    let folder = Folder::make("http")?;
    let bytes = Bytes::make(folder.path())?;
    // Pages still to be written would disturb the first server.
    nix::unistd::sync();
    let quiet = Quiet::look(args.tries)?;
    if args.requests {
        let runs = Runs {
            connections: args.connections,
            time: Duration::from_secs(args.seconds.into()),
            rounds: args.rounds,
            tries: args.tries,
        };
        return requests::run(report, runs, &bytes, &quiet);
    }
    let mut costs = Vec::new();
    let from_disk = kinds
        .iter()
        .filter(|kind| kind.reads_from_disk() && !args.bodies);
    let from_memory = kinds.iter().filter(|kind| kind.keeps_in_memory());
    let runs = from_memory.map(|kind| (kind, false));
    for (kind, from_disk) in runs.chain(from_disk.map(|kind| (kind, true))) {
        match measure(*kind, &bytes, &args, &quiet, from_disk) {
            Ok(cost) => costs.push(cost),
            Err(error) if *kind != ServerKind::Reelway => {
                eprintln!("http: {} is left out: {error:#}", kind.name());
            }
            Err(error) => return Err(error),
        }
    }
    describe(report, &args, &costs)
}

/// Returns the bytes that all processes have read so far from the disk on which a path lies.
fn disk_read(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let device = reelway_sys::device_numbers(std::fs::metadata(path).ok()?.dev());
    let text = std::fs::read_to_string("/proc/diskstats").ok()?;
    disk_of(&text, device)
}

/// Parses `/proc/diskstats`: major, minor, name, reads, merged, sectors of 512 bytes.
fn disk_of(text: &str, (major, minor): (u32, u32)) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let is_it = words.next()?.parse() == Ok(major) && words.next()?.parse() == Ok(minor);
        let sectors: u64 = words.nth(3)?.parse().ok()?;
        is_it.then_some(sectors * 512)
    })
}

fn measure(
    kind: ServerKind,
    bytes: &Bytes,
    args: &Args,
    quiet: &Quiet,
    from_disk: bool,
) -> anyhow::Result<Cost> {
    let place = if from_disk { "disk" } else { "memory" };
    eprintln!("http: {} from {place}", kind.name());
    let running = Running::start(kind, bytes, POOLS[usize::from(from_disk)])?;
    let rate = if from_disk { args.disk_rate } else { args.rate };
    let load = Load {
        target: running.target(),
        connections: args.connections,
        rate,
        segments: if from_disk { SEGMENTS } else { HOT },
        bytes: SEGMENT,
        shuffled: from_disk,
    };
    load.compare(&bytes.film())?;
    let after: &(dyn Fn(u64) + Sync) = match from_disk {
        true => &|number| bytes.forget(number),
        false => &|_| {},
    };
    if from_disk {
        // The state after some minutes: its memory is in use, but holds none of the segments.
        load.fetch(SEGMENTS - FILLS..SEGMENTS)?;
        (0..SEGMENTS).for_each(after);
    } else {
        load.fetch((0..HOT).chain(0..HOT))?;
    }
    let seconds = Duration::from_secs(args.seconds.into());
    let ours = running.pids();
    running.settle()?;
    let mut cost = Cost {
        server: kind,
        version: kind.version(),
        from_disk,
        core_us_mb: Vec::new(),
        all_us_mb: Vec::new(),
        process_us_mb: Vec::new(),
        disk_share: Vec::new(),
        disturbed: quiet.disturbed,
        late: 0,
        requests: 0,
    };
    let mut asked = 0;
    for _ in 0..args.rounds {
        let (disturbed, (busy, elapsed, process, read, done)) =
            undisturbed(&ours, args.tries, || {
                let (idle, process) = (Idle::now()?, running.cpu()?);
                let read = disk_read(&bytes.segments);
                let done = load.run(seconds, asked, after)?;
                // The next run begins with the least recently requested segments.
                asked += done.requests;
                let now = Idle::now()?;
                let process = running.cpu()?.saturating_sub(process);
                let elapsed = now.seconds_since(&idle);
                let read = disk_read(&bytes.segments)
                    .zip(read)
                    .map(|(now, before)| now - before);
                Ok((now.busy_since(&idle), elapsed, process, read, done))
            })?;
        let mb = done.bytes as f64 / 1e6;
        ensure!(mb > 0.0, "{} sent nothing", kind.name());
        let beyond = |nth: usize| busy[nth] - quiet.shares[nth] * elapsed;
        cost.core_us_mb.push(beyond(0) * 1e6 / mb);
        let all: f64 = (0..busy.len()).map(beyond).sum();
        cost.all_us_mb.push(all * 1e6 / mb);
        cost.process_us_mb.push(process.as_secs_f64() * 1e6 / mb);
        cost.disk_share
            .extend(read.map(|read| read as f64 / done.bytes as f64));
        cost.disturbed = cost.disturbed.max(disturbed);
        cost.late += done.late;
        cost.requests += done.requests;
    }
    Ok(cost)
}

fn describe(mut report: Report, args: &Args, costs: &[Cost]) -> anyhow::Result<Report> {
    let of = |kind: ServerKind, from_disk: bool| {
        costs
            .iter()
            .find(|cost| cost.server == kind && cost.from_disk == from_disk)
            .map(|cost| cost.core().median)
    };
    let mut ratio = |id: &str, other: ServerKind, from_disk: bool, most: f64| {
        if let Some((ours, theirs)) = of(ServerKind::Reelway, from_disk).zip(of(other, from_disk)) {
            let figure = Figure::at_most(id, ours / theirs, "of its CPU", most);
            report.figures.push(figure);
        }
    };
    ratio(
        "memory_against_nginx_sendfile",
        ServerKind::NginxSendfile,
        false,
        1.1,
    );
    ratio(
        "memory_against_nginx_without",
        ServerKind::NginxCopying,
        false,
        0.5,
    );
    ratio("memory_against_varnish", ServerKind::Varnish, false, 0.85);
    ratio("memory_against_squid", ServerKind::Squid, false, 0.2);
    ratio(
        "disk_against_nginx_sendfile",
        ServerKind::NginxSendfile,
        true,
        1.5,
    );
    let mut table = String::from(
        "| server | segments | core, µs/MB | all cores, µs/MB | process, µs/MB | read from disk | late requests |\n|---|---|---:|---:|---:|---:|---:|\n",
    );
    for cost in costs {
        let (core, all) = (cost.core(), Spread::of(cost.all_us_mb.clone()));
        let process = Spread::of(cost.process_us_mb.clone());
        table += &format!(
            "| {} {} | from {} | {:.0} ({:.0} – {:.0}) | {:.0} | {:.0} | {} | {} of {} |\n",
            cost.server.name(),
            cost.version,
            if cost.from_disk { "disk" } else { "memory" },
            core.median,
            core.low,
            core.high,
            all.median,
            process.median,
            match cost.disk_share.is_empty() {
                true => "?".to_owned(),
                false => format!("{:.2}", Spread::of(cost.disk_share.clone()).median),
            },
            cost.late,
            cost.requests
        );
    }
    report.text = table
        .lines()
        .skip(2)
        .map(|line| format!("  {}", line.trim_matches(['|', ' '])))
        .collect();
    if args.bodies {
        report.page = format!(
            "Segments of 2 MiB over loopback, {} connections, {} segments a second, by servers that do nothing else: one \
             thread per connection, one call for as much as the kernel takes. The film is in the page cache, and for \
             `write` in pinned memory with large pages, like film blocks. Accounted as in [http](http.md); other programs \
             took at most {:.1}% of a core.\n\n{table}",
            args.connections,
            args.rate,
            100.0 * costs.iter().map(|cost| cost.disturbed).fold(0.0, f64::max)
        );
        report.details.insert("costs".into(), json!(costs));
        return Ok(report);
    }
    report.page = format!(
        "Segments of 2 MiB over loopback, {} connections, {} segments a second from memory and {} from disk (each dropped \
         from the page cache after it was sent; Reelway reads past the page cache, and so does nginx with directio). The \
         server has core 0, the client the others; the core's load without any server is subtracted. *Process* is the CPU \
         time charged to the server's processes; it excludes packets sent in interrupts. *Read from disk* is the number of \
         bytes read from the disk for each byte sent. *All cores* includes the client, which discards everything unread. \
         Runs that other programs disturbed were repeated; in those that count, other programs took at most {:.1}% of a \
         core.\n\n{table}\n![core time a megabyte](http/core.svg)\n",
        args.connections,
        args.rate,
        args.disk_rate,
        100.0 * costs.iter().map(|cost| cost.disturbed).fold(0.0, f64::max)
    );
    report.details.insert("costs".into(), json!(costs));
    let bar = |cost: &Cost| Bar {
        name: format!(
            "{}, {}",
            cost.server.name(),
            if cost.from_disk { "disk" } else { "memory" }
        ),
        value: cost.core().median,
        colour: usize::from(cost.server == ServerKind::Reelway),
        spread: Some((cost.core().low, cost.core().high)),
    };
    let all: Vec<Bar> = costs.iter().map(bar).collect();
    let chart = bars("The server's core, microseconds a megabyte", "µs/MB", &all);
    report.charts.push(("http/core.svg".into(), chart));
    Ok(report)
}

#[cfg(test)]
#[test]
fn what_a_disk_gave_is_found_by_its_numbers() {
    let text =
        "   7  0 loop0 9 0 9 0\n 254       0 vda 1000 20 3000 4 5 6 7\n 254 1 vda1 1 0 8 0\n";
    assert_eq!(disk_of(text, (254, 0)), Some(3000 * 512));
    assert_eq!(disk_of(text, (254, 1)), Some(8 * 512));
    assert_eq!(disk_of(text, (8, 0)), None);
}

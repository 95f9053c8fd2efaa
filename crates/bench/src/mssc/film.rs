//! Film traffic: streams of 4 Mb/s in packets of 1328 bytes, measured at the sender's end of a
//! cable whose other end drops them, and with receivers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

use super::args::Args;
use super::reel;
use super::run::run;
use super::task::{Outcome, PORT, Task, Traffic, WHOLE, Watched, Way};
use crate::bed::children::is_installed;
use crate::bed::{Child, Net};
use crate::film::{Recipe, make};
use crate::stats::Spread;

/// Number of films, each played at many positions.
const FILMS: u64 = 10;
/// Streams that a core must carry in every attempt.
const GOAL: u32 = 3000;
/// Number of attempts.
const TRIES: usize = 5;
/// Reelway's block pool in bytes, which has room for all films.
const POOL: u64 = 768 << 20;
/// Number of streams at which the cost of a packet is compared.
const COMPARED: u32 = 500;
/// Share of a core up to which the goal of lateness applies.
const BUSY: f64 = 0.7;
/// An arbitrary port, since the other end drops everything.
const DISCARD: u16 = 9000;

/// Results of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The way of sending.
    pub way: Way,
    /// Concurrent streams.
    pub streams: u32,
    /// What the sender measured.
    pub sender: Outcome,
    /// What receivers measured, if there were any.
    pub received: Option<Watched>,
}

impl Row {
    /// Returns the CPU time per packet, ns.
    pub fn cost(&self) -> f64 {
        self.sender.cpu_ns as f64 / self.sender.packets.max(1) as f64
    }

    /// Returns the share of the core that the process used.
    pub fn busy(&self) -> f64 {
        self.sender.cpu_ns as f64 / 1e9 / self.sender.seconds.max(1e-9)
    }

    /// Whether every packet left at most `most` ms late, and none was refused.
    pub fn keeps_up(&self, most: f64) -> bool {
        self.sender.late.max <= most && self.sender.refused == 0
    }
}

/// The cost of a packet by one way, over several runs.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// The way of sending.
    pub way: Way,
    /// CPU time per packet, ns: least, median, most.
    pub ns: (f64, f64, f64),
    /// How many times cheaper than `read` + `sendto` in the same round: least, median, most.
    pub times_cheaper: (f64, f64, f64),
    /// Packets per call, if the sender counts calls.
    pub packets_a_call: Option<f64>,
}

/// Memory after a run that began with no films in memory, in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Memory {
    /// The way of sending.
    pub way: Way,
    /// Bytes of films in the page cache.
    pub page_cache: u64,
    /// Size of the block pool, even if it is not full.
    pub pool: u64,
    /// The process's resident memory.
    pub resident: u64,
}

/// All results with film traffic.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Films {
    /// The network between sender and receivers.
    pub place: String,
    /// Cost of a packet by each way, at `compared` streams.
    pub costs: Vec<Cost>,
    /// Number of streams at which the cost is compared.
    pub compared: u32,
    /// The same with a device that cannot segment packets itself.
    pub without_offload: Vec<Cost>,
    /// Runs with increasing numbers of streams.
    pub sweep: Vec<Row>,
    /// A run with about as many streams as use 70% of the core.
    pub near_70: Option<Row>,
    /// Attempts with [`GOAL`] streams.
    pub tries: Vec<Row>,
    /// Runs with receivers.
    pub received: Vec<Row>,
    /// System calls of all threads per stream-second, by way, at `compared` streams.
    pub calls: Vec<(Way, f64)>,
    /// CPU profile of the sender's default backend: shares in percent, and functions.
    pub profile: Vec<(f64, String)>,
    /// Memory by way.
    pub memory: Vec<Memory>,
    /// Total bytes of the films.
    pub film_bytes: u64,
}

struct Bench<'a> {
    net: Net,
    films: Vec<PathBuf>,
    args: &'a Args,
}

fn reelway(backend: &str, burst: u16) -> Way {
    Way::Reelway {
        backend: backend.to_owned(),
        burst,
    }
}

/// Measures everything.
pub fn measure(args: &Args, folder: &Path) -> anyhow::Result<Films> {
    let mut bench = Bench {
        net: Net::make()?,
        films: Vec::new(),
        args,
    };
    let seconds = (args.film_seconds() * 3.0 + 40.0) as u32;
    for number in 0..FILMS {
        let path = folder.join(format!("film{number}.mp4"));
        let recipe = Recipe {
            seconds,
            fps: 25,
            gop: 50,
            picture_rate: 4_000_000,
            sound_rate: 128_000,
            with_media: true,
            seed: number + 1,
        };
        make(&path, &recipe).with_context(|| path.display().to_string())?;
        bench.films.push(path);
    }
    bench.net.drop_at_viewers(true)?;
    let mut films = Films {
        place: bench.net.describe().to_owned(),
        compared: bench.compared(),
        ..Films::default()
    };
    for path in &bench.films {
        films.film_bytes += std::fs::metadata(path)?.len();
    }
    films.costs = bench.costs(&all_ways(), args.runs)?;
    if bench.net.without_offload(true)? {
        let ways = [Way::Relative, reel::chosen(8), reel::chosen(WHOLE)];
        films.without_offload = bench.costs(&ways, 1)?;
        bench.net.without_offload(false)?;
    }
    films.calls = bench.calls()?;
    films.profile = bench.profile(folder)?;
    films.memory = bench.memory()?;
    films.sweep = bench.sweep()?;
    films.near_70 = bench.near_70(&films.sweep)?;
    films.tries = bench.tries()?;
    bench.net.drop_at_viewers(false)?;
    films.received = bench.received()?;
    Ok(films)
}

/// Returns the ways whose costs are compared.
fn all_ways() -> Vec<Way> {
    let mut ways = vec![Way::Relative, Way::Sendfile, Way::Batched { burst: 8 }];
    for backend in reel::backends() {
        ways.extend([8, 16, WHOLE].map(|burst| reelway(backend, burst)));
    }
    ways
}

impl Bench<'_> {
    fn compared(&self) -> u32 {
        if self.args.quick { 100 } else { COMPARED }
    }

    fn one(
        &self,
        way: &Way,
        streams: u32,
        port: Option<u16>,
        measuring: impl FnOnce(u32),
    ) -> anyhow::Result<Row> {
        let traffic = Traffic {
            way: way.clone(),
            streams,
            warm_up: self.args.film_seconds() / 2.0,
            seconds: self.args.film_seconds(),
            films: self.films.clone(),
            sound: false,
            from: self.net.server(),
            to: SocketAddr::new(self.net.viewers(), port.unwrap_or(DISCARD)),
            pool: POOL,
        };
        let patience = Duration::from_secs_f64(traffic.warm_up + traffic.seconds + 60.0);
        let command = self.net.server_command(std::env::current_exe()?);
        let sender = run(command, &Task::Traffic(traffic), patience, measuring)?;
        let row = Row {
            way: way.clone(),
            streams,
            sender,
            received: None,
        };
        self.args.say(&format!(
            "{} streams, {}: {:.0} ns a packet, {:.0}% of the core, p99.9 {:.2} ms, latest {:.2} ms",
            streams,
            way.describe(),
            row.cost(),
            row.busy() * 100.0,
            row.sender.late.p999,
            row.sender.late.max
        ));
        Ok(row)
    }

    /// Measures all ways in each round, so that disturbances of the machine affect all of them.
    fn costs(&self, ways: &[Way], rounds: u32) -> anyhow::Result<Vec<Cost>> {
        let mut rows: Vec<Vec<Row>> = vec![Vec::new(); ways.len()];
        for _ in 0..rounds {
            for (way, rows) in ways.iter().zip(&mut rows) {
                rows.push(self.one(way, self.compared(), None, |_| {})?);
            }
        }
        let plain: Vec<f64> = rows.first().into_iter().flatten().map(Row::cost).collect();
        let three = |spread: Spread| (spread.low, spread.median, spread.high);
        let cost = |(way, rows): (&Way, &Vec<Row>)| Cost {
            way: way.clone(),
            ns: three(Spread::of(rows.iter().map(Row::cost).collect())),
            times_cheaper: three(Spread::of(
                rows.iter()
                    .zip(&plain)
                    .map(|(row, plain)| plain / row.cost())
                    .collect(),
            )),
            packets_a_call: rows
                .last()
                .filter(|row| row.sender.calls > 0)
                .map(|row| row.sender.packets as f64 / row.sender.calls as f64),
        };
        Ok(ways.iter().zip(&rows).map(cost).collect())
    }

    /// Counts the system calls of the whole process by the kernel's tracepoint, in separate runs.
    fn calls(&self) -> anyhow::Result<Vec<(Way, f64)>> {
        if !is_installed("perf") {
            return Ok(Vec::new());
        }
        let mut all = Vec::new();
        let mut ways = vec![Way::Relative, Way::Sendfile];
        ways.extend(reel::backends().iter().map(|backend| reelway(backend, 8)));
        for way in ways {
            let mut calls = None;
            let seconds = (self.args.film_seconds() / 2.0).max(1.0);
            self.one(&way, self.compared(), None, |pid| {
                calls = count_calls(pid, seconds)
            })?;
            all.extend(calls.map(|calls| (way, calls / seconds / f64::from(self.compared()))));
        }
        Ok(all)
    }

    /// Profiles the sender in a separate run.
    fn profile(&self, folder: &Path) -> anyhow::Result<Vec<(f64, String)>> {
        let mut shares = None;
        if is_installed("perf") {
            let seconds = (self.args.film_seconds() / 2.0).max(1.0);
            self.one(&reel::chosen(8), self.compared(), None, |pid| {
                shares = profile_of(pid, seconds, &folder.join("profile"));
            })?;
        }
        Ok(shares.unwrap_or_default())
    }

    fn memory(&self) -> anyhow::Result<Vec<Memory>> {
        let mut all = Vec::new();
        for way in [Way::Relative, reel::chosen(8)] {
            for path in &self.films {
                let film = std::fs::File::open(path)?;
                film.sync_all()?;
                nix::fcntl::posix_fadvise(
                    &film,
                    0,
                    0,
                    nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED,
                )?;
            }
            let row = self.one(&way, self.compared(), None, |_| {})?;
            let Some(page_cache) = in_page_cache(&self.films) else {
                return Ok(all);
            };
            all.push(Memory {
                way,
                page_cache,
                pool: row.sender.pool,
                resident: row.sender.memory,
            });
        }
        Ok(all)
    }

    fn sweep(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        let mut ways = vec![Way::Relative];
        ways.extend(reel::backends().iter().map(|backend| reelway(backend, 8)));
        for way in ways {
            for streams in &self.args.streams() {
                let row = self.one(&way, *streams, None, |_| {})?;
                let full = row.busy() > 0.97;
                rows.push(row);
                if full {
                    break;
                }
            }
        }
        Ok(rows)
    }

    /// Attempts to carry [`GOAL`] streams on a core.
    fn tries(&self) -> anyhow::Result<Vec<Row>> {
        let tries = if self.args.quick { 0 } else { TRIES };
        let way = reel::chosen(8);
        (0..tries)
            .map(|_| self.one(&way, GOAL, None, |_| {}))
            .collect()
    }

    /// Runs as many streams as use `BUSY` of the core, judging by their cost in the sweep.
    fn near_70(&self, sweep: &[Row]) -> anyhow::Result<Option<Row>> {
        let way = reel::chosen(8);
        let rows = sweep
            .iter()
            .filter(|row| row.way == way && row.busy() < 0.95);
        let Some(last) = rows.max_by_key(|row| row.streams) else {
            return Ok(None);
        };
        // Slightly below, since it must not be exceeded.
        let streams = (f64::from(last.streams) * (BUSY - 0.02) / last.busy()) as u32;
        let mut streams = streams.min(4 * last.streams);
        for _ in 0..4 {
            let row = self.one(&way, streams, None, |_| {})?;
            if row.busy() <= BUSY {
                return Ok(Some(row));
            }
            streams = streams * 9 / 10;
        }
        Ok(None)
    }

    fn received(&self) -> anyhow::Result<Vec<Row>> {
        let mut rows = Vec::new();
        let counts: &[u32] = if self.args.quick {
            &[20]
        } else {
            &[50, 200, 500]
        };
        let mut ways = vec![Way::Relative];
        ways.extend(reel::backends().iter().map(|backend| reelway(backend, 8)));
        for way in &ways {
            for streams in counts {
                let mut command = self.net.viewer_command(std::env::current_exe()?);
                let task = serde_json::to_string(&Task::Watch {
                    at: self.net.viewers(),
                })?;
                command.args(["bench", "mssc", "--task", &task]);
                let mut child = Child::start(&mut command)?;
                let lines = child.lines();
                let port = wait_for(&lines, PORT)?.trim_start_matches(PORT).parse()?;
                let mut row = self.one(way, *streams, Some(port), |_| {
                    // If the process has ended, its missing report is noticed below.
                    let _ = child.tell("judge");
                })?;
                child.tell("finish")?;
                row.received = Some(serde_json::from_str(&wait_for(&lines, "{")?)?);
                rows.push(row);
            }
        }
        Ok(rows)
    }
}

fn wait_for(lines: &Receiver<String>, beginning: &str) -> anyhow::Result<String> {
    loop {
        let line = lines
            .recv_timeout(Duration::from_secs(20))
            .context("the receivers say nothing")?;
        if line.starts_with(beginning) {
            return Ok(line);
        }
    }
}

/// Counts the system calls of all threads of a process over `seconds`.
fn count_calls(pid: u32, seconds: f64) -> Option<f64> {
    let mut command = Command::new("perf");
    command.args([
        "stat",
        "-x,",
        "-e",
        "raw_syscalls:sys_enter",
        "-p",
        &pid.to_string(),
        "--",
        "sleep",
        &seconds.to_string(),
    ]);
    let output = command.output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines()
        .find(|line| line.contains("raw_syscalls"))?
        .split(',')
        .next()?
        .parse()
        .ok()
}

/// Returns the functions in which a process spends the most time.
fn profile_of(pid: u32, seconds: f64, file: &Path) -> Option<Vec<(f64, String)>> {
    const SHOWN: usize = 20;
    let mut record = Command::new("perf");
    record
        .args([
            "record",
            "-q",
            "-e",
            "cpu-clock",
            "-F",
            "1999",
            "-p",
            &pid.to_string(),
            "-o",
        ])
        .arg(file);
    record.args(["--", "sleep", &seconds.to_string()]);
    record.output().ok()?;
    let mut report = Command::new("perf");
    report
        .args([
            "report",
            "--stdio",
            "--no-children",
            "--sort",
            "symbol",
            "-i",
        ])
        .arg(file);
    let output = report.output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(
        text.lines()
            .filter_map(share_and_symbol)
            .take(SHOWN)
            .collect(),
    )
}

/// Parses share and function from a line of `perf report`.
fn share_and_symbol(line: &str) -> Option<(f64, String)> {
    let (share, symbol) = line.trim().split_once('%')?;
    // More columns may follow.
    let symbol = symbol.trim().split("  ").next()?;
    (symbol.starts_with('[')).then_some((share.parse().ok()?, symbol.to_owned()))
}

/// Returns the bytes of files in the page cache.
fn in_page_cache(files: &[PathBuf]) -> Option<u64> {
    let output = Command::new("fincore")
        .args(["--bytes", "--noheadings", "--output", "RES"])
        .args(files)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .map(|line| line.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_profile_are_read_and_others_left_out() {
        let line = "    18.90%  [k] _copy_from_iter       -      -";
        assert_eq!(
            share_and_symbol(line),
            Some((18.9, "[k] _copy_from_iter".to_owned()))
        );
        assert_eq!(share_and_symbol("# Samples: 3K of event 'cpu-clock'"), None);
        assert_eq!(share_and_symbol(""), None);
    }
}

//! The cost of a small response: 1 KB over persistent connections, compared with a static file of
//! nginx. Servers answer requests at a fixed rate; the number that a whole core could answer
//! follows from the cost of these.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;

use super::kind::ServerKind;
use super::load::Load;
use super::quiet::{Quiet, undisturbed};
use super::segments::{Bytes, HOT, SMALL};
use super::servers::{POOLS, Running};
use crate::bed::machine::Idle;
use crate::report::{Figure, Report};
use crate::stats::Spread;

/// Requests per second, over all connections.
const RATE: f64 = 5000.0;

/// Number and duration of runs.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// Connections.
    pub connections: usize,
    /// Duration of a run.
    pub time: Duration,
    /// Runs of each server; the median counts.
    pub rounds: usize,
    /// Tries of a run that other programs disturb.
    pub tries: usize,
}

/// Measures both servers in turn.
pub fn run(mut report: Report, runs: Runs, bytes: &Bytes, quiet: &Quiet) -> anyhow::Result<Report> {
    let mut costs = Vec::new();
    let mut late = 0;
    for kind in [ServerKind::Reelway, ServerKind::NginxSendfile] {
        ensure!(kind.is_installed(), "{} is not installed", kind.name());
        eprintln!("http: small answers of {}", kind.name());
        costs.push((Vec::new(), kind));
        let running = Running::start(kind, bytes, POOLS[0])?;
        let load = Load {
            target: running.small(),
            connections: runs.connections,
            rate: RATE,
            segments: HOT,
            bytes: SMALL,
            shuffled: false,
        };
        load.compare(&bytes.film())?;
        load.fetch(0..HOT)?;
        running.settle()?;
        let ours = running.pids();
        let us = &mut costs.last_mut().context("the one just begun")?.0;
        for _ in 0..runs.rounds {
            let (_, (busy, done)) = undisturbed(&ours, runs.tries, || {
                let idle = Idle::now()?;
                let done = load.run(runs.time, 0, &|_| {})?;
                let now = Idle::now()?;
                let busy = now.busy_since(&idle)[0] - quiet.shares[0] * now.seconds_since(&idle);
                Ok((busy, done))
            })?;
            us.push(busy * 1e6 / done.requests as f64);
            late += done.late;
        }
    }
    let mut table = String::from(
        "| server | core, µs a request | requests a second a core |\n|---|---:|---:|\n",
    );
    let mut medians = Vec::new();
    for (us, kind) in &costs {
        let cost = Spread::of(us.clone());
        medians.push(cost.median);
        table += &format!(
            "| {} {} | {:.1} ({:.1} – {:.1}) | {:.0} |\n",
            kind.name(),
            kind.version(),
            cost.median,
            cost.low,
            cost.high,
            1e6 / cost.median
        );
    }
    let least = Figure::at_least(
        "requests_a_core_against_nginx",
        medians[1] / medians[0],
        "×",
        0.8,
    );
    report.figures.push(least);
    report.page = format!(
        "Answers of 1 KB over loopback, {} connections that stay, {RATE} requests a second; medians of {} runs. nginx has them as \
         files, Reelway as parts of a film (`Range`). The server has core 0, the client the others; the core's load without \
         any server is subtracted. {late} requests could not be made when they were due.\n\n{table}",
        runs.connections, runs.rounds
    );
    report.details.insert("costs".into(), json!(costs));
    Ok(report)
}

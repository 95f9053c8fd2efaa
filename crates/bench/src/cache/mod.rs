//! `reelway bench cache`: the misses of each replacement policy compared with Belady's optimum, and
//! the EXT3NS paper's comparison of ONS with LFU, on simulated time.

mod ext3ns;
mod page;
mod tried;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use clap::Parser;
use reelway_cache::Spec;
use reelway_cache::sim::{Outcome, Requests, Workload, belady, bound, run, told};

use self::tried::{Line, SIZES, Tried};
use crate::report::{Figure, Report};

/// Misses of each replacement policy of the block cache, compared with Belady's optimum.
#[derive(Debug, Parser)]
struct Args {
    /// Use smaller workloads, for a quick check
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs a policy over all requests.
fn one(requests: &Requests, policy: &str, blocks: u64) -> anyhow::Result<Outcome> {
    let mut policy = match policy {
        "belady" => return Ok(belady(requests, blocks, true)),
        "bound" => return bound(requests, blocks).context("a workload without a bound"),
        "told" => told(requests, blocks as usize).context("a workload without rates")?,
        name => name.parse::<Spec>()?.build(blocks, blocks as usize),
    };
    Ok(run(requests, &mut *policy, blocks, true))
}

fn attempt(name: &'static str, about: &'static str, workload: &Workload) -> anyhow::Result<Tried> {
    eprintln!("cache: {name}");
    let requests = workload.make()?;
    let mut names = Spec::NAMES.to_vec();
    names.push("told");
    if bound(&requests, 1).is_some() {
        names.push("bound");
    }
    names.push("belady");
    let jobs: Vec<(u64, &str)> = SIZES
        .iter()
        .flat_map(|size| names.iter().map(|name| (*size, *name)))
        .collect();
    let lines: Vec<OnceLock<anyhow::Result<Line>>> = jobs.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((size, policy)) = jobs.get(number) else {
                        break;
                    };
                    let _ = lines[number].set(line(&requests, *size, policy));
                }
            });
        }
    });
    let lines: anyhow::Result<Vec<Line>> =
        lines.into_iter().filter_map(OnceLock::into_inner).collect();
    let mut tried = Tried {
        name,
        about,
        lines: lines?,
    };
    for size in SIZES {
        let optimum = tried.line("belady", size).map_or(1, |line| line.misses);
        let all = tried.lines.iter_mut().filter(|line| line.size == size);
        all.for_each(|line| line.ratio = line.misses as f64 / optimum.max(1) as f64);
    }
    Ok(tried)
}

/// Runs and times a policy over all requests; the ratio is not yet known.
fn line(requests: &Requests, size: u64, policy: &str) -> anyhow::Result<Line> {
    let blocks = (requests.objects() as u64 * size / 100).max(1);
    let began = reelway_clock::now();
    let outcome = one(requests, policy, blocks)?;
    let nanos = reelway_clock::now().since(began).as_nanos() as f64;
    Ok(Line {
        policy: policy.to_owned(),
        size,
        requests: outcome.requests,
        misses: outcome.misses,
        ratio: f64::NAN,
        // Requests that only warm the cache are included.
        ns_a_request: nanos / requests.events.len().max(1) as f64,
    })
}

/// Runs the experiment.
pub fn run_all(args: &[String]) -> anyhow::Result<Report> {
    let name = "reelway bench cache".to_owned();
    let args =
        Args::try_parse_from(std::iter::once(&name).chain(args)).unwrap_or_else(|e| e.exit());
    let base = Workload {
        block: if args.quick { 64 << 20 } else { 8 << 20 },
        seed: args.seed,
        ..Workload::default()
    };
    let busy = Workload {
        arrivals: 0.2,
        block: base.block * 2,
        ..base.clone()
    };
    let restless = Workload {
        seeks: 0.1,
        leave: 0.5,
        ..base.clone()
    };
    let tried = [
        attempt(
            "thin",
            "200 films, 0.05 viewers a second, all to the end",
            &base,
        )?,
        attempt(
            "busy",
            "200 films, 0.2 viewers a second, all to the end",
            &busy,
        )?,
        attempt(
            "restless",
            "200 films, 0.05 viewers a second, a tenth seeks, half leave early",
            &restless,
        )?,
    ];
    let [thin, busy, restless] = &tried;
    let paper = ext3ns::study(args.seed)?;

    let mut report = Report::new("cache");
    let small = &SIZES[..4];
    report.figures = vec![
        Figure::at_most("thin_1_to_10_percent", thin.worst(small), "× Belady", 1.02),
        Figure::at_most("thin_25_percent", thin.worst(&[25]), "× Belady", 1.08),
        Figure::at_most("busy_1_to_10_percent", busy.worst(small), "× Belady", 1.02),
        Figure::at_most("busy_25_percent", busy.worst(&[25]), "× Belady", 1.08),
        Figure::at_most(
            "restless_all_sizes",
            restless.worst(&SIZES),
            "× Belady",
            1.1,
        ),
        Figure::at_least("gap_closed_thin", thin.closed(), "", 0.9),
        Figure::at_least("gap_closed_busy", busy.closed(), "", 0.9),
    ];
    report.text = page::summary(&tried);
    report.page = page::page(&tried, &paper);
    report
        .details
        .insert("workloads".into(), serde_json::to_value(&tried)?);
    report
        .details
        .insert("ext3ns".into(), serde_json::to_value(&paper)?);
    report.charts = page::charts(&tried, &paper)
        .into_iter()
        .map(|(name, chart)| (format!("cache/{name}"), chart))
        .collect();
    Ok(report)
}

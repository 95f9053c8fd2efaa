//! How much runs with different seeds differ, why they do, and the alternative: `sh` distributes
//! clients by a hash of their addresses; `wlc` with persistence also keeps a client at their cache,
//! but distributes clients by number.

use super::lab::{Run, Setup, clients};
use super::text::{GUEST, table};
use crate::report::{Figure, Report};
use crate::stats::Spread;

/// Scheduler and seconds of persistence, by direct routing.
const KINDS: [(&str, u32); 5] = [("rr", 0), ("lc", 0), ("wlc", 0), ("sh", 0), ("wlc", 300)];
const SEEDS: u32 = 5;

pub fn setups() -> Vec<Setup> {
    KINDS
        .iter()
        .flat_map(|(scheduler, persistence)| {
            (1..=SEEDS).map(move |seed| {
                clients(20, 140, 20)
                    .with("METHOD", "direct")
                    .with("SCHEDULER", scheduler)
                    .with("PERSISTENCE", persistence)
                    .with("SEED", seed)
            })
        })
        .collect()
}

pub fn report(runs: &[Run]) -> Report {
    let mut report = Report::new("lvscache-seeds");
    report.title = "Caches behind a director: how much runs differ".into();
    let kinds: Vec<(&(&str, u32), &[Run])> =
        KINDS.iter().zip(runs.chunks(SEEDS as usize)).collect();
    let unevenness = |runs: &[Run]| Spread::of(runs.iter().map(Run::unevenness).collect());
    let rows = kinds.iter().map(|((scheduler, persistence), runs)| {
        let shown = |spread: Spread| {
            format!(
                "{:.2} ({:.2} – {:.2})",
                spread.median, spread.low, spread.high
            )
        };
        let stays = match (scheduler, persistence) {
            (&"sh", _) => "by a hash of their address",
            (_, 0) => "no",
            _ => "by persistence",
        };
        vec![
            format!("direct {scheduler}"),
            stays.to_owned(),
            runs.len().to_string(),
            runs.iter()
                .map(Run::unwell)
                .max()
                .unwrap_or_default()
                .to_string(),
            shown(unevenness(runs)),
            shown(Spread::of(
                runs.iter()
                    .map(|run| run.done("origin").sent / 1e6)
                    .collect(),
            )),
        ]
    });
    let rows = table(
        &[
            "method, scheduler",
            "a client stays at a cache",
            "runs",
            "not well, at most",
            "largest cache / mean",
            "origin sent, MB",
        ],
        rows,
    );
    for ((scheduler, persistence), runs) in &kinds {
        let name = match (*scheduler, *persistence) {
            ("sh", 0) => "largest_cache_sh",
            ("wlc", 1..) => "largest_cache_wlc_persistent",
            _ => continue,
        };
        report.figures.push(Figure::without_goal(
            name,
            unevenness(runs).high,
            "× the mean of all caches, in the worst of five runs",
        ));
    }
    report.page = format!(
        "The paper's clients (8, and 6 more at each step, until there are 38 with three streams each) in 140 seconds, with five seeds each, by \
         which viewers come at other moments. {GUEST} The paper's runs differed from each other, and it did not find out why.\n\n{rows}\n\
         What makes runs differ is how a hash lets clients' addresses fall on caches (`sh`). Counting schedulers give the same each time. Where \
         a client is to stay at a cache, a counting scheduler with persistence keeps them there, and divides clients by number."
    );
    report
}

//! Thresholds of ONS: the paper's Figs 6 (throughput) and 8 (hits).

use super::results::{Results, THRESHOLDS_AT};
use super::threads::{Files, Pattern, Run};
use crate::chart::{Axis, Mark, Series, lines, most};
use crate::template::{row, rows};

/// Thresholds for which the paper reports throughput.
const OF_THROUGHPUT: std::ops::RangeInclusive<u32> = 4..=13;

fn find(
    results: &Results,
    threshold: u32,
    files: Files,
    pattern: Pattern,
    threads: usize,
) -> Option<&Run> {
    let mut all = results.thresholds.iter();
    let found = all.find(|one| {
        one.threshold == threshold
            && (one.run.files, one.run.pattern, one.run.threads) == (files, pattern, threads)
    });
    found.map(|one| &one.run)
}

fn measured(results: &Results) -> impl Iterator<Item = u32> {
    (1..=13).filter(|threshold| {
        let mut all = results.thresholds.iter();
        all.any(|one| one.threshold == *threshold)
    })
}

/// Returns the head of a table with a column for each number of threads.
fn head(first: &str) -> String {
    let threads = THRESHOLDS_AT.iter();
    let columns: String = threads
        .map(|threads| format!(" {threads} threads |"))
        .collect();
    let rule = "---:|".repeat(THRESHOLDS_AT.len());
    format!("| {first} |{columns}\n|---:|{rule}\n")
}

/// Returns the tables of throughput, each after an empty line.
pub fn throughput(results: &Results) -> String {
    let table = |files: Files| {
        let of_threads = |threshold, threads| {
            let rate = |pattern| {
                find(results, threshold, files, pattern, threads)
                    .map_or(String::new(), |run| format!("{:.0}", run.mb_s))
            };
            Pattern::ALL.map(rate).join(" / ")
        };
        let shown = measured(results).filter(|threshold| OF_THROUGHPUT.contains(threshold));
        let lines = shown.map(|threshold| {
            let cells = THRESHOLDS_AT
                .iter()
                .map(|threads| of_threads(threshold, *threads));
            row(std::iter::once(threshold.to_string()).chain(cells))
        });
        format!("\n{}{}", head(files.name()), rows(lines))
    };
    rows(Files::ALL.map(table))
}

/// Returns the table of hits.
pub fn hits_by_threads(results: &Results) -> String {
    let of_threads = |threshold, threads| {
        let hits = |files| {
            find(results, threshold, files, Pattern::Random, threads)
                .and_then(|run| run.hits)
                .map_or(String::new(), |hits| format!("{:.1}", hits * 100.0))
        };
        Files::ALL.map(hits).join(", ")
    };
    let lines = measured(results).map(|threshold| {
        let cells = THRESHOLDS_AT
            .iter()
            .map(|threads| of_threads(threshold, *threads));
        row(std::iter::once(threshold.to_string()).chain(cells))
    });
    format!("{}{}", head("threshold"), rows(lines))
}

fn series(results: &Results, value: impl Fn(&Run) -> f64) -> Vec<Series> {
    let line = |(colour, threads): (usize, usize)| Series {
        name: format!("{threads} threads"),
        mark: Mark::Line,
        colour,
        points: measured(results)
            .filter_map(|threshold| {
                let run = find(results, threshold, Files::Each, Pattern::Random, threads)?;
                Some((f64::from(threshold), value(run)))
            })
            .collect(),
    };
    THRESHOLDS_AT.into_iter().enumerate().map(line).collect()
}

/// Draws Fig. 8.
pub fn hits(results: &Results) -> String {
    let series = series(results, |run| run.hits.unwrap_or(0.0) * 100.0);
    lines(
        "Random reads of a part each: hits by the threshold of ONS",
        &Axis::linear("threshold", 0.0, 14.0),
        &Axis::linear("hits, %", 0.0, most(&series)),
        &series,
    )
}

/// Draws Fig. 6.
pub fn rates(results: &Results) -> String {
    let series = series(results, |run| run.mb_s);
    lines(
        "Random reads of a part each: throughput by the threshold of ONS",
        &Axis::linear("threshold", 0.0, 14.0),
        &Axis::linear("MB/s", 0.0, most(&series)),
        &series,
    )
}

//! Thresholds of ONS: Figs 6 (throughput) and 8 (hits) of the paper.

use std::fmt::Write;

use super::results::{Results, THRESHOLDS_AT};
use super::threads::{Files, Pattern, Run};
use crate::chart::{Axis, Mark, Series, lines, most};

/// Thresholds whose throughput the paper tells.
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

/// Both tables.
pub fn tables(results: &Results, out: &mut String) {
    let columns = |of: &dyn Fn(usize) -> String| -> String {
        THRESHOLDS_AT.iter().map(|threads| of(*threads)).collect()
    };
    *out += "\n## Throughput by the threshold of ONS (Fig. 6)\n\n\
        MB/s of reading, re-reading and random reads, over one file and in a part each. The paper tried 4 to 13, \
        took 5, and gives its figures as a drawing only.\n\n\
        ![Random reads by threshold](ext3ns/threshold-rate.svg)\n";
    for files in Files::ALL {
        let heads = columns(&|threads| format!(" {threads} threads |"));
        let _ = write!(out, "\n| {} |{heads}\n|---:|", files.name());
        *out += &columns(&|_| "---:|".to_owned());
        out.push('\n');
        for threshold in measured(results).filter(|threshold| OF_THROUGHPUT.contains(threshold)) {
            let cells = columns(&|threads| {
                let rate = |pattern| {
                    find(results, threshold, files, pattern, threads)
                        .map_or(String::new(), |run| format!("{:.0}", run.mb_s))
                };
                format!(" {} |", Pattern::ALL.map(rate).join(" / "))
            });
            let _ = writeln!(out, "| {threshold} |{cells}");
        }
    }
    let heads = columns(&|threads| format!(" {threads} threads |"));
    let _ = write!(
        out,
        "\n## Hits by the threshold of ONS (Fig. 8)\n\n\
         Of random reads, in percent; over one file, and in a part each. The paper has the most hits at 5, 6 and 7 with 20 \
         threads, at 1 and 5 with 30, and no difference with 10.\n\n\
         ![Hits by threshold](ext3ns/threshold.svg)\n\n| threshold |{heads}\n|---:|---:|---:|---:|\n"
    );
    for threshold in measured(results) {
        let cells = columns(&|threads| {
            let hits = |files| {
                find(results, threshold, files, Pattern::Random, threads)
                    .and_then(|run| run.hits)
                    .map_or(String::new(), |hits| format!("{:.1}", hits * 100.0))
            };
            format!(" {} |", Files::ALL.map(hits).join(", "))
        });
        let _ = writeln!(out, "| {threshold} |{cells}");
    }
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

/// Fig. 8.
pub fn hits(results: &Results) -> String {
    let series = series(results, |run| run.hits.unwrap_or(0.0) * 100.0);
    lines(
        "Random reads of a part each: hits by the threshold of ONS",
        &Axis::linear("threshold", 0.0, 14.0),
        &Axis::linear("hits, %", 0.0, most(&series)),
        &series,
    )
}

/// Fig. 6.
pub fn rates(results: &Results) -> String {
    let series = series(results, |run| run.mb_s);
    lines(
        "Random reads of a part each: throughput by the threshold of ONS",
        &Axis::linear("threshold", 0.0, 14.0),
        &Axis::linear("MB/s", 0.0, most(&series)),
        &series,
    )
}

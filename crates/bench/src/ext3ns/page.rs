//! The page of the experiment and its charts: every number of ours on it is what the run measured.

use std::fmt::Write;

use super::file::DEPTH;
use super::results::{ALL_AT, OURS, Results, block_ways, find, ons, ways};
use super::threads::{Files, Pattern, Run};
use super::{paper, sweep, thresholds};
use crate::chart::{Axis, Bar, Mark, Series, bars, lines, most};

/// Lines for the terminal.
pub fn summary(results: &Results) -> Vec<String> {
    let sweep = &results.sweep;
    let Some(row) = sweep.judged() else {
        return Vec::new();
    };
    let cpu = |passes: &[sweep::Pass]| sweep::median(passes, |pass| pass.cpu_s_gb);
    let rate = |passes: &[sweep::Pass]| sweep::median(passes, |pass| pass.mb_s);
    vec![
        format!("  disk: {}", results.disk),
        format!(
            "  {} KiB a read, {DEPTH} under way, MB/s: the store {:.0}, {} {:.0}, fio with registered large pages {:.0}, through the page cache {:.0}",
            row.kib,
            rate(&row.ours),
            sweep.fio_version,
            rate(&row.fio),
            rate(&row.fio_fixed),
            rate(&sweep.buffered)
        ),
        format!(
            "  CPU s a GB: the store {:.4}, {} {:.4}, fio with registered large pages {:.4}, through the page cache {:.4}; time the kernel spends in interrupts is in none",
            cpu(&row.ours),
            sweep.fio_version,
            cpu(&row.fio),
            cpu(&row.fio_fixed),
            cpu(&sweep.buffered)
        ),
    ]
}

fn named(way: &str, results: &Results) -> String {
    match way {
        OURS => format!(
            "{OURS}: {}, 256 KiB, timetable",
            results.args.cache.display().iec()
        ),
        way => way.to_owned(),
    }
}

/// MB/s of cache over none.
fn gain(
    runs: &[Run],
    way: &str,
    over: &str,
    files: Files,
    pattern: Pattern,
    threads: usize,
) -> Option<f64> {
    let of = |way| find(runs, way, files, pattern, threads);
    Some(of(way)?.mb_s - of(over)?.mb_s)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    sum / f64::from(count.max(1))
}

/// What stands below the figures.
pub fn page(results: &Results) -> String {
    let args = &results.args;
    let mut out = format!(
        "{}The file has {} MB on {}. Threads go through a part each once; over \
         one file they read for {} ms. Pools and threads' memory were in use before. MB/s of the store are what the threads got: a record that several want at once is read once.\n\n",
        if args.quick {
            "**A quick look, not figures.**\n\n"
        } else {
            ""
        },
        args.megabytes,
        results.disk,
        args.millis,
    );
    sweep_table(results, &mut out);
    out += "\n## Against the paper\n\n";
    table_1(results, &mut out);
    averages(results, &mut out);
    for (pattern, chart) in [
        (Pattern::Read, "read.svg"),
        (Pattern::ReRead, "re-read.svg"),
        (Pattern::Random, "random.svg"),
    ] {
        let _ = write!(
            out,
            "\n## {}: MB/s (CPU s a GB; hits)\n\n![{} by number of threads](ext3ns/{chart})\n",
            pattern.name(),
            pattern.name()
        );
        for files in Files::ALL {
            by_threads(results, pattern, files, &mut out);
        }
    }
    thresholds::tables(results, &mut out);
    by_block(results, &mut out);
    let _ = write!(
        out,
        "\n## Every policy, {ALL_AT} threads with a part each: MB/s (CPU s a GB; hits)\n\n| policy | read | re-read | random |\n|---|---:|---:|---:|\n"
    );
    for runs in results.all.chunks(Pattern::ALL.len()) {
        let Some(first) = runs.first() else { continue };
        let cells: Vec<String> = runs.iter().map(cell).collect();
        let _ = writeln!(out, "| {} | {} |", first.way, cells.join(" | "));
    }
    out
}

fn sweep_table(results: &Results, out: &mut String) {
    let sweep = &results.sweep;
    let _ = write!(
        out,
        "## From end to end, {DEPTH} reads under way\n\n![MB/s by block size](ext3ns/blocks.svg)\n\n\
         | block | the store, MB/s | {}, MB/s | fio with registered large pages, MB/s | CPU s a GB: the store | fio | fio, registered |\n|---|---:|---:|---:|---:|---:|---:|\n",
        sweep.fio_version
    );
    for row in &sweep.rows {
        let _ = writeln!(
            out,
            "| {} KiB | {:.0} | {:.0} | {:.0} | {:.4} | {:.4} | {:.4} |",
            row.kib,
            sweep::median(&row.ours, |pass| pass.mb_s),
            sweep::median(&row.fio, |pass| pass.mb_s),
            sweep::median(&row.fio_fixed, |pass| pass.mb_s),
            sweep::median(&row.ours, |pass| pass.cpu_s_gb),
            sweep::median(&row.fio, |pass| pass.cpu_s_gb),
            sweep::median(&row.fio_fixed, |pass| pass.cpu_s_gb)
        );
    }
    let _ = writeln!(
        out,
        "| page cache, records of 1 MB | {:.0} | | | {:.4} | | |",
        sweep::median(&sweep.buffered, |pass| pass.mb_s),
        sweep::median(&sweep.buffered, |pass| pass.cpu_s_gb)
    );
}

fn table_1(results: &Results, out: &mut String) {
    *out += "Re-read with the cache (LFU) over none, MB/s (the paper's Table 1):\n\n\
        | threads | the paper | here, one file | here, a part each |\n|---:|---:|---:|---:|\n";
    let here = |files, threads| {
        gain(
            &results.runs,
            "lfu",
            "none",
            files,
            Pattern::ReRead,
            threads,
        )
        .map_or(String::new(), |gain| format!("{gain:+.0}"))
    };
    for (threads, paper) in paper::RE_READ {
        if results.args.threads.contains(&threads) {
            let _ = writeln!(
                out,
                "| {threads} | +{paper} | {} | {} |",
                here(Files::One, threads),
                here(Files::Each, threads)
            );
        }
    }
}

/// What the paper says in means.
fn averages(results: &Results, out: &mut String) {
    let (runs, threads) = (&results.runs, &results.args.threads);
    let ons = ons();
    let over = |way: &str, over: &str, files, pattern| {
        let gains = threads
            .iter()
            .filter_map(|threads| gain(runs, way, over, files, pattern, *threads));
        mean(gains)
    };
    let percent = |way: &str, over: &str, files, pattern, of: fn(&Run) -> f64| {
        let shares = threads.iter().filter_map(|threads| {
            let run = |way| find(runs, way, files, pattern, *threads).map(of);
            Some((run(way)? / run(over)? - 1.0) * 100.0)
        });
        mean(shares)
    };
    let rate: fn(&Run) -> f64 = |run| run.mb_s;
    let cost: fn(&Run) -> f64 = |run| run.cpu_s_gb;
    *out += "\nMeans over the numbers of threads:\n\n| | the paper | here, one file | here, a part each |\n|---|---:|---:|---:|\n";
    let mut row = |what: &str, paper: String, here: &dyn Fn(Files) -> String| {
        let _ = writeln!(
            out,
            "| {what} | {paper} | {} | {} |",
            here(Files::One),
            here(Files::Each)
        );
    };
    row(
        "re-read, LFU over none, MB/s",
        format!("+{}", paper::RE_READ_MEAN),
        &|files| format!("{:+.0}", over("lfu", "none", files, Pattern::ReRead)),
    );
    let (low, high, middle) = paper::RANDOM;
    row(
        "random, LFU over none, MB/s",
        format!("{middle:+} ({low:+} to {high:+})"),
        &|files| format!("{:+.0}", over("lfu", "none", files, Pattern::Random)),
    );
    row(
        "read, ONS over LFU, MB/s",
        format!("+{}", paper::ONS.0),
        &|files| format!("{:+.0}", over(&ons, "lfu", files, Pattern::Read)),
    );
    row(
        "re-read, ONS over LFU, MB/s",
        format!("+{}", paper::ONS.1),
        &|files| format!("{:+.0}", over(&ons, "lfu", files, Pattern::ReRead)),
    );
    row(
        "random, ONS over none",
        format!("+{}%", paper::ONS_RANDOM.0),
        &|files| {
            format!(
                "{:+.0}%",
                percent(&ons, "none", files, Pattern::Random, rate)
            )
        },
    );
    row(
        "the same, CPU (here a GB)",
        format!("+{}%", paper::ONS_RANDOM.1),
        &|files| {
            format!(
                "{:+.0}%",
                percent(&ons, "none", files, Pattern::Random, cost)
            )
        },
    );
    row(
        "read, page cache over none",
        format!("about {:.0}%", (paper::PAGE_CACHE - 1.0) * 100.0),
        &|files| {
            format!(
                "{:+.0}%",
                percent("page cache", "none", files, Pattern::Read, rate)
            )
        },
    );
    row("the same, CPU (here a GB)", "more".to_owned(), &|files| {
        format!(
            "{:+.0}%",
            percent("page cache", "none", files, Pattern::Read, cost)
        )
    });
    let _ = writeln!(out, "\n![CPU of random reads](ext3ns/cpu.svg)");
}

fn cell(run: &Run) -> String {
    let hits = run.hits.map(|hits| format!("; {:.0}%", hits * 100.0));
    format!(
        "{:.0} ({:.3}{})",
        run.mb_s,
        run.cpu_s_gb,
        hits.unwrap_or_default()
    )
}

fn by_threads(results: &Results, pattern: Pattern, files: Files, out: &mut String) {
    let threads = &results.args.threads;
    let _ = write!(out, "\n| {} |", files.name());
    for threads in threads {
        let _ = write!(out, " {threads} threads |");
    }
    let _ = writeln!(out, "\n|---|{}", "---:|".repeat(threads.len()));
    for way in ways() {
        let cells: Vec<String> = threads
            .iter()
            .filter_map(|threads| find(&results.runs, way, files, pattern, *threads))
            .map(cell)
            .collect();
        let _ = writeln!(out, "| {} | {} |", named(way, results), cells.join(" | "));
    }
}

/// Threads by the size of a block.
fn by_block(results: &Results, out: &mut String) {
    let _ = write!(
        out,
        "\n## By the size of a block, {ALL_AT} threads: MB/s (CPU s a GB; hits)\n\n\
         Records are as large as blocks, and the cache has {} MiB whatever they are.\n",
        paper::BLOCKS
    );
    for files in Files::ALL {
        for pattern in Pattern::ALL {
            let _ = write!(out, "\n| {}, {} |", pattern.name(), files.name());
            for kib in &results.args.block {
                let _ = write!(out, " {kib} KiB |");
            }
            let _ = writeln!(out, "\n|---|{}", "---:|".repeat(results.args.block.len()));
            for way in block_ways() {
                let is_it =
                    |run: &Run| (run.way == way) && (run.files, run.pattern) == (files, pattern);
                let runs = results.blocks.iter().filter(|one| is_it(&one.run));
                let cells: Vec<String> = runs.map(|one| cell(&one.run)).collect();
                let _ = writeln!(out, "| {way} | {} |", cells.join(" | "));
            }
        }
    }
}

/// File names and drawings.
pub fn charts(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        ("blocks.svg", blocks(results)),
        ("read.svg", rates(results, Pattern::Read)),
        ("re-read.svg", rates(results, Pattern::ReRead)),
        ("random.svg", rates(results, Pattern::Random)),
        ("cpu.svg", costs(results)),
        ("threshold.svg", thresholds::hits(results)),
        ("threshold-rate.svg", thresholds::rates(results)),
    ]
}

fn blocks(results: &Results) -> String {
    let line = |name: &str, colour, mark, of: &dyn Fn(&sweep::Row) -> f64| Series {
        name: name.to_owned(),
        mark,
        colour,
        points: results
            .sweep
            .rows
            .iter()
            .map(|row| (f64::from(row.kib), of(row)))
            .collect(),
    };
    let rate = |passes: &[sweep::Pass]| sweep::median(passes, |pass| pass.mb_s);
    let series = [
        line("the store", 0, Mark::Line, &|row| rate(&row.ours)),
        line(&results.sweep.fio_version, 1, Mark::Dashed, &|row| {
            rate(&row.fio)
        }),
        line("fio, registered large pages", 2, Mark::Dashed, &|row| {
            rate(&row.fio_fixed)
        }),
    ];
    lines(
        "From end to end, eight reads under way",
        &Axis::log("KiB a read", &sweep::SIZES.map(f64::from)),
        &Axis::linear("MB/s", 0.0, most(&series)),
        &series,
    )
}

/// MB/s by the number of threads, a part of the file each.
fn rates(results: &Results, pattern: Pattern) -> String {
    let ons = ons();
    let chosen = [
        ("none", 3, Mark::Dashed),
        ("page cache", 1, Mark::Dashed),
        ("lfu", 2, Mark::Line),
        (ons.as_str(), 0, Mark::Line),
    ];
    let series = chosen.map(|(way, colour, mark)| {
        let point = |threads: &usize| {
            let run = find(&results.runs, way, Files::Each, pattern, *threads)?;
            Some((*threads as f64, run.mb_s / 1e3))
        };
        Series {
            name: match way {
                "lfu" => "cache of 512 blocks, LFU".to_owned(),
                way if way == ons => "cache of 512 blocks, ONS".to_owned(),
                "none" => "no cache".to_owned(),
                way => way.to_owned(),
            },
            mark,
            colour,
            points: results.args.threads.iter().filter_map(point).collect(),
        }
    });
    lines(
        &format!("{} of a part each", pattern.name()),
        &Axis::linear(
            "threads",
            0.0,
            *results.args.threads.iter().max().unwrap_or(&50) as f64,
        ),
        &rate_axis(&series),
        &series,
    )
}

/// GB/s by powers of ten around what is drawn: a hit costs a hundredth of a read.
fn rate_axis(series: &[Series]) -> Axis {
    let values = series.iter().flat_map(|series| &series.points);
    let least = values.map(|point| point.1).fold(f64::INFINITY, f64::min);
    let first = least.max(0.001).log10().floor() as i32;
    let last = most(series).log10().ceil().max(f64::from(first) + 1.0) as i32;
    let ticks: Vec<f64> = (first..=last).map(|power| 10_f64.powi(power)).collect();
    Axis::log("GB/s", &ticks)
}

/// Fig. 7: what a gigabyte of random reads costs.
fn costs(results: &Results) -> String {
    let threads = results.args.threads.iter().copied().max().unwrap_or(50);
    let bar = |(nth, way): (usize, &'static str)| {
        let run = find(&results.runs, way, Files::Each, Pattern::Random, threads)?;
        Some(Bar {
            name: named(way, results),
            value: run.cpu_s_gb * 1e3,
            colour: nth.min(2),
            spread: None,
        })
    };
    let all: Vec<Bar> = ways().enumerate().filter_map(bar).collect();
    bars(
        &format!("CPU of random reads, {threads} threads with a part each"),
        "ms of CPU a GB",
        &all,
    )
}

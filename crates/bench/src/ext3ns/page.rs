//! The page of the experiment and its charts; every number of ours on it is measured.

use super::file::DEPTH;
use super::results::{ALL_AT, OURS, Results, block_ways, find, ons, ways};
use super::threads::{Files, Pattern, Run};
use super::{paper, sweep, thresholds};
use crate::chart::{Axis, Bar, Mark, Series, bars, lines, most};
use crate::template::{Template, row, rows};

const PAGE: Template<18> = Template::new(
    include_str!("page.md"),
    [
        "look",
        "megabytes",
        "disk",
        "millis",
        "depth",
        "fio",
        "sweep",
        "cached-rate",
        "cached-cpu",
        "table-1",
        "means",
        "by-threads",
        "throughput",
        "hits",
        "all-at",
        "cache",
        "by-block",
        "policies",
    ],
);

/// Returns lines for the terminal.
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

/// Returns the MB/s that one way gains over another.
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

/// Returns the part of the page below the figures.
pub fn page(results: &Results) -> String {
    let (args, sweep) = (&results.args, &results.sweep);
    let look = match args.quick {
        true => "**A quick look, not figures.**\n\n",
        false => "",
    };
    let policies = results.all.chunks(Pattern::ALL.len()).filter_map(|runs| {
        let first = runs.first()?.way.to_string();
        Some(row(std::iter::once(first).chain(runs.iter().map(cell))))
    });
    PAGE.fill([
        look.to_owned(),
        args.megabytes.to_string(),
        results.disk.to_string(),
        args.millis.to_string(),
        DEPTH.to_string(),
        sweep.fio_version.to_string(),
        rows(sweep.rows.iter().map(of_block)),
        format!("{:.0}", sweep::median(&sweep.buffered, |pass| pass.mb_s)),
        format!(
            "{:.4}",
            sweep::median(&sweep.buffered, |pass| pass.cpu_s_gb)
        ),
        table_1(results),
        means(results),
        by_threads(results),
        thresholds::throughput(results),
        thresholds::hits_by_threads(results),
        ALL_AT.to_string(),
        paper::BLOCKS.to_string(),
        by_block(results),
        rows(policies),
    ])
}

/// Returns the row of sequential reads with one block size.
fn of_block(of: &sweep::Row) -> String {
    let all = [&of.ours, &of.fio, &of.fio_fixed];
    let rates = all.map(|passes| format!("{:.0}", sweep::median(passes, |pass| pass.mb_s)));
    let costs = all.map(|passes| format!("{:.4}", sweep::median(passes, |pass| pass.cpu_s_gb)));
    let size = format!("{} KiB", of.kib);
    row(std::iter::once(size).chain(rates).chain(costs))
}

fn table_1(results: &Results) -> String {
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
    let all = paper::RE_READ.iter();
    let tried = all.filter(|(threads, _)| results.args.threads.contains(threads));
    rows(tried.map(|(threads, paper)| {
        row([
            threads.to_string(),
            format!("+{paper}"),
            here(Files::One, *threads),
            here(Files::Each, *threads),
        ])
    }))
}

/// Returns the table of what the paper gives as means.
fn means(results: &Results) -> String {
    let (runs, threads) = (&results.runs, &results.args.threads);
    let ons = ons();
    let over = |way: &str, over: &str, files, pattern| {
        let gains = threads
            .iter()
            .filter_map(|threads| gain(runs, way, over, files, pattern, *threads));
        format!("{:+.0}", mean(gains))
    };
    let percent = |way: &str, over: &str, files, pattern, of: fn(&Run) -> f64| {
        let shares = threads.iter().filter_map(|threads| {
            let run = |way| find(runs, way, files, pattern, *threads).map(of);
            Some((run(way)? / run(over)? - 1.0) * 100.0)
        });
        format!("{:+.0}%", mean(shares))
    };
    let rate: fn(&Run) -> f64 = |run| run.mb_s;
    let cost: fn(&Run) -> f64 = |run| run.cpu_s_gb;
    let of = |what: &str, paper: String, here: &dyn Fn(Files) -> String| {
        row([what.to_owned(), paper, here(Files::One), here(Files::Each)])
    };
    let (low, high, middle) = paper::RANDOM;
    rows([
        of(
            "re-read, LFU over none, MB/s",
            format!("+{}", paper::RE_READ_MEAN),
            &|files| over("lfu", "none", files, Pattern::ReRead),
        ),
        of(
            "random, LFU over none, MB/s",
            format!("{middle:+} ({low:+} to {high:+})"),
            &|files| over("lfu", "none", files, Pattern::Random),
        ),
        of(
            "read, ONS over LFU, MB/s",
            format!("+{}", paper::ONS.0),
            &|files| over(&ons, "lfu", files, Pattern::Read),
        ),
        of(
            "re-read, ONS over LFU, MB/s",
            format!("+{}", paper::ONS.1),
            &|files| over(&ons, "lfu", files, Pattern::ReRead),
        ),
        of(
            "random, ONS over none",
            format!("+{}%", paper::ONS_RANDOM.0),
            &|files| percent(&ons, "none", files, Pattern::Random, rate),
        ),
        of(
            "the same, CPU (here a GB)",
            format!("+{}%", paper::ONS_RANDOM.1),
            &|files| percent(&ons, "none", files, Pattern::Random, cost),
        ),
        of(
            "read, page cache over none",
            format!("about {:.0}%", (paper::PAGE_CACHE - 1.0) * 100.0),
            &|files| percent("page cache", "none", files, Pattern::Read, rate),
        ),
        of("the same, CPU (here a GB)", "more".to_owned(), &|files| {
            percent("page cache", "none", files, Pattern::Read, cost)
        }),
    ])
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

/// Returns a table with these columns.
fn table(
    name: &str,
    columns: impl Iterator<Item = String>,
    lines: impl IntoIterator<Item = String>,
) -> String {
    let columns: Vec<String> = columns.collect();
    let rule = "---:|".repeat(columns.len());
    let head = row(std::iter::once(name.to_owned()).chain(columns));
    format!("\n{head}\n|---|{rule}\n{}", rows(lines))
}

/// Returns tables of each pattern by the number of threads.
fn by_threads(results: &Results) -> String {
    let threads = &results.args.threads;
    let of_way = |way, files, pattern| {
        let runs = threads
            .iter()
            .filter_map(move |threads| find(&results.runs, way, files, pattern, *threads));
        row(std::iter::once(named(way, results)).chain(runs.map(cell)))
    };
    let of_pattern = |(pattern, chart): (Pattern, &str)| {
        let tables = Files::ALL.map(|files| {
            let columns = threads.iter().map(|threads| format!("{threads} threads"));
            let lines = ways().map(|way| of_way(way, files, pattern));
            table(files.name(), columns, lines)
        });
        let name = pattern.name();
        format!(
            "\n## {name}: MB/s (CPU s a GB; hits)\n\n![{name} by number of threads](ext3ns/{chart})\n{}",
            rows(tables)
        )
    };
    rows(
        [
            (Pattern::Read, "read.svg"),
            (Pattern::ReRead, "re-read.svg"),
            (Pattern::Random, "random.svg"),
        ]
        .map(of_pattern),
    )
}

/// Returns tables of each pattern by the block size.
fn by_block(results: &Results) -> String {
    let of = |files: Files, pattern: Pattern| {
        let sizes = results.args.block.iter();
        let columns = sizes.map(|kib| format!("{kib} KiB"));
        let lines = block_ways().map(|way| {
            let is_it =
                |run: &Run| (run.way == way) && (run.files, run.pattern) == (files, pattern);
            let runs = results.blocks.iter().filter(|one| is_it(&one.run));
            let cells = runs.map(|one| cell(&one.run));
            row(std::iter::once(way.to_string()).chain(cells))
        });
        let name = format!("{}, {}", pattern.name(), files.name());
        table(&name, columns, lines)
    };
    let tables = Files::ALL
        .into_iter()
        .flat_map(|files| Pattern::ALL.map(|pattern| of(files, pattern)));
    rows(tables)
}

/// Returns the charts with their file names.
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

/// Draws GB/s by the number of threads, each with its part of the file.
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

/// Returns a logarithmic axis of GB/s for the series: a hit costs a hundredth of a read.
fn rate_axis(series: &[Series]) -> Axis {
    let values = series.iter().flat_map(|series| &series.points);
    let least = values.map(|point| point.1).fold(f64::INFINITY, f64::min);
    let first = least.max(0.001).log10().floor() as i32;
    let last = most(series).log10().ceil().max(f64::from(first) + 1.0) as i32;
    let ticks: Vec<f64> = (first..=last).map(|power| 10_f64.powi(power)).collect();
    Axis::log("GB/s", &ticks)
}

/// Draws Fig. 7: the CPU time of a gigabyte of random reads.
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

#[cfg(test)]
#[test]
fn the_page_has_its_slots() {
    assert_eq!(PAGE.faults(), [""; 0]);
}

//! The page of the experiment and its charts: every number on it is what the run measured.

use std::fmt::Write;

use super::ext3ns::{Hits, READERS, THRESHOLDS};
use super::tried::{Line, SIZES, Tried};
use crate::chart::{Axis, Bar, Mark, Series, bars, lines};

/// Lines for the terminal.
pub fn summary(tried: &[Tried]) -> Vec<String> {
    let mut out = Vec::new();
    for tried in tried {
        for policy in ["timetable", "told", "w-tinylfu", "s3-fifo", "lru"] {
            let ratios = SIZES.map(|size| format!("{:.3}", tried.ratio(policy, size)));
            out.push(format!(
                "  {:<9} {policy:<10} {}",
                tried.name,
                ratios.join(" ")
            ));
        }
    }
    out
}

fn table(out: &mut String, tried: &Tried) {
    let _ = writeln!(out, "\n## {}: {}\n", tried.name, tried.about);
    let sizes = SIZES.map(|size| format!("{size}%"));
    let _ = writeln!(
        out,
        "| misses × Belady | {} | ns a request |",
        sizes.join(" | ")
    );
    let _ = writeln!(out, "|---|{}---:|", "---:|".repeat(SIZES.len()));
    let mut names: Vec<&str> = tried
        .lines
        .iter()
        .map(|line| line.policy.as_str())
        .collect();
    names.truncate(tried.lines.len() / SIZES.len());
    for name in names {
        let ratios = SIZES.map(|size| format!("{:.4}", tried.ratio(name, size)));
        let slowest = SIZES
            .iter()
            .filter_map(|size| tried.line(name, *size))
            .map(|line| line.ns_a_request)
            .fold(0.0, f64::max);
        let _ = writeln!(out, "| {name} | {} | {slowest:.0} |", ratios.join(" | "));
    }
    let _ = writeln!(out, "\n![{}](cache/{}.svg)", tried.about, tried.name);
}

fn hits(paper: &[Hits], policy: &str, readers: u64, phase: &str) -> f64 {
    let is = |hits: &&Hits| hits.policy == policy && hits.readers == readers && hits.phase == phase;
    paper
        .iter()
        .find(is)
        .map_or(f64::NAN, |hits| 100.0 * hits.hits)
}

/// The page.
pub fn page(tried: &[Tried], paper: &[Hits]) -> String {
    let mut out = String::from(
        "Misses of a simulated cache of 1 to 25% of the catalogue over 24 hours, after 24 hours that are\n\
         learned from. `told` is Timetable with each film's true arrival rate. `bound` is what no policy can do better\n\
         that does not see who will come (docs/design/cache.md): where it is above a goal, the goal cannot be reached.\n\
         ns a request is for the whole simulation.\n",
    );
    tried.iter().for_each(|tried| table(&mut out, tried));
    out.push_str(
        "\n## The EXT3NS paper's comparison\n\nIts cache of 512 blocks, its pattern (readers of one file of 1 GB in \
         1 MB records), hits in percent, on simulated\ntime. The paper measured ONS over LFU in throughput: read \
         +1.5 MB/s on average, re-read +600 KB/s.\n\n| phase, readers | FIFO | LRU | LFU | ONS (threshold 5) |\n|---|---:|---:|---:|---:|\n",
    );
    for phase in ["read", "reread", "random"] {
        for readers in READERS {
            let row = ["fifo", "lru", "lfu", "ons"]
                .map(|policy| format!("{:.2}", hits(paper, policy, readers, phase)));
            let _ = writeln!(out, "| {phase}, {readers} | {} |", row.join(" | "));
        }
    }
    out.push_str(
        "\nIts Fig. 8 again: hits of the random read by threshold, where the hits must reach it and where they must\n\
         exceed it (the paper: best 5, 6, 7 at 20 threads, 1 and 5 at 30, flat at 10). The file is twice the cache, so that of\n\
         reads at random any policy finds half: differences between thresholds are chance.\n\n\
         ![hit ratio by threshold](cache/thresholds.svg)\n",
    );
    out
}

/// The charts by the names of their files.
pub fn charts(tried: &[Tried], paper: &[Hits]) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for tried in tried {
        let bar = |line: &Line| Bar {
            name: line.policy.clone(),
            value: line.ratio,
            colour: usize::from(line.policy == "timetable"),
            spread: None,
        };
        let at_ten: Vec<Bar> = tried
            .lines
            .iter()
            .filter(|line| line.size == 10)
            .map(bar)
            .collect();
        let title = format!(
            "Misses against Belady at 10% of the catalogue, {}",
            tried.name
        );
        out.push((format!("{}.svg", tried.name), bars(&title, "×", &at_ten)));
    }
    let mut series = Vec::new();
    let (mut low, mut high) = (100.0_f64, 0.0_f64);
    for (colour, readers) in [10, 20, 30].into_iter().enumerate() {
        for (mark, words, end) in [
            (Mark::Line, "reaches", ""),
            (Mark::Dashed, "exceeds", ",exceed=1"),
        ] {
            let point = |threshold: u32| {
                let policy = format!("ons:threshold={threshold}{end}");
                (
                    f64::from(threshold),
                    hits(paper, &policy, readers, "random"),
                )
            };
            let points: Vec<(f64, f64)> = THRESHOLDS.map(point).collect();
            for (_, value) in &points {
                (low, high) = (low.min(*value), high.max(*value));
            }
            series.push(Series {
                name: format!("{readers} readers, {words}"),
                mark,
                colour,
                points,
            });
        }
    }
    let x = Axis::linear("threshold", 1.0, 13.0);
    let y = Axis::linear("hits of the random read, %", low, high);
    let title = "ONS by threshold, 512 blocks, 1024 blocks read";
    out.push(("thresholds.svg".into(), lines(title, &x, &y, &series)));
    out
}

//! The page of the experiment and its charts; every number on it is measured.

use super::ext3ns::{Hits, READERS, THRESHOLDS};
use super::tried::{Line, SIZES, Tried};
use crate::chart::{Axis, Bar, Mark, Series, bars, lines};
use crate::template::{Template, row, rows};

const PAGE: Template<2> = Template::new(include_str!("page.md"), ["tables", "hits"]);

/// Returns lines for the terminal.
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

fn table(tried: &Tried) -> String {
    let sizes = SIZES.map(|size| format!("{size}%"));
    let mut out = format!(
        "\n## {}: {}\n\n| misses × Belady | {} | ns a request |\n|---|{}---:|\n",
        tried.name,
        tried.about,
        sizes.join(" | "),
        "---:|".repeat(SIZES.len())
    );
    let mut names: Vec<&str> = tried
        .lines
        .iter()
        .map(|line| line.policy.as_str())
        .collect();
    names.truncate(tried.lines.len() / SIZES.len());
    let of = |name: &str| {
        let ratios = SIZES.map(|size| format!("{:.4}", tried.ratio(name, size)));
        let slowest = SIZES
            .iter()
            .filter_map(|size| tried.line(name, *size))
            .map(|line| line.ns_a_request)
            .fold(0.0, f64::max);
        let first = std::iter::once(name.to_owned());
        row(first.chain(ratios).chain([format!("{slowest:.0}")]))
    };
    out += &rows(names.into_iter().map(of));
    out + &format!("\n\n![{}](cache/{}.svg)", tried.about, tried.name)
}

fn hits(paper: &[Hits], policy: &str, readers: u64, phase: &str) -> f64 {
    let is = |hits: &&Hits| hits.policy == policy && hits.readers == readers && hits.phase == phase;
    paper
        .iter()
        .find(is)
        .map_or(f64::NAN, |hits| 100.0 * hits.hits)
}

/// Returns the page.
pub fn page(tried: &[Tried], paper: &[Hits]) -> String {
    let of_paper = ["read", "reread", "random"]
        .into_iter()
        .flat_map(|phase| READERS.map(|readers| (phase, readers)))
        .map(|(phase, readers)| {
            let hits = ["fifo", "lru", "lfu", "ons"]
                .map(|policy| format!("{:.2}", hits(paper, policy, readers, phase)));
            row(std::iter::once(format!("{phase}, {readers}")).chain(hits))
        });
    PAGE.fill([rows(tried.iter().map(table)), rows(of_paper)])
}

/// Returns the charts with the names of their files.
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

#[cfg(test)]
#[test]
fn the_page_has_its_slots() {
    assert_eq!(PAGE.faults(), [""; 0]);
}

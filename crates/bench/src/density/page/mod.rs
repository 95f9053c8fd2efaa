//! The page of the comparison; every number on it is measured. Its texts are the files beside this
//! one.

use super::args::Args;
use super::measured::{LATE_MS, Measured};
use super::servers::Peer;
use crate::chart::{Bar, bars};
use crate::template::{Template, row, rows};

const ALL: Template<6> = Template::new(
    include_str!("all.md"),
    ["place", "seconds", "late", "viewers", "servers", "chart"],
);
const SEARCH: Template<1> = Template::new(include_str!("search.md"), ["trials"]);

/// File name of the chart.
pub const CHART: &str = "density-cpu.svg";

/// Returns lines for the terminal.
pub fn summary(all: &[Measured]) -> Vec<String> {
    all.iter()
        .map(|measured| {
            let cost = |trials| Measured::cost(trials).map_or("–".to_owned(), |spread| format!("{:.2}", spread.median));
            format!(
                "  {:<24} {:>6} ms a stream-second with receivers, {:>6} dropped; keeps up with {}{}",
                measured.name,
                cost(&measured.received),
                cost(&measured.dropped),
                kept(measured),
                measured.trouble.as_ref().map_or(String::new(), |trouble| format!(" ({trouble})"))
            )
        })
        .collect()
}

fn kept(measured: &Measured) -> String {
    match measured.most {
        None => "–".to_owned(),
        Some((most, None)) => format!("{most} and more"),
        Some((0, Some(too_many))) => format!("fewer than {too_many}"),
        Some((most, Some(too_many))) => format!("{most} (not {too_many})"),
    }
}

/// Draws the CPU time per stream-second of all servers.
pub fn chart(all: &[Measured], viewers: u32) -> String {
    let mut drawn = Vec::new();
    for measured in all {
        let colour = if measured.peer == Peer::Reelway { 0 } else { 3 };
        for (what, trials) in [
            ("receivers", &measured.received),
            ("dropped", &measured.dropped),
        ] {
            let Some(cost) = Measured::cost(trials) else {
                continue;
            };
            let name = format!("{}, {what}", measured.name);
            drawn.push(Bar {
                name,
                value: cost.median,
                colour,
                spread: Some((cost.low, cost.high)),
            });
        }
    }
    bars(
        &format!("CPU of a viewer, {viewers} viewers of 720p25 at 4 Mb/s with sound"),
        "CPU ms a stream-second, whole machine but the viewers' process",
        &drawn,
    )
}

/// Returns the note after the command.
pub fn note(args: &Args, disturbance: &str) -> String {
    let look = if args.quick {
        "**A quick look, not figures.** "
    } else {
        ""
    };
    format!("{look}{disturbance}")
}

/// Returns the part of the page below its figures.
pub fn page(all: &[Measured], args: &Args, place: &str) -> String {
    let mut out = ALL.fill([
        place.to_owned(),
        format!("{:.0}", args.seconds),
        format!("{LATE_MS:.0}"),
        args.viewers.to_string(),
        rows(all.iter().map(server)),
        CHART.to_owned(),
    ]);
    let mut trials = all.iter().flat_map(searched).peekable();
    if trials.peek().is_some() {
        out += &SEARCH.fill([rows(trials)]);
        for measured in all {
            if let Some(trouble) = &measured.trouble {
                out += &format!("\n{}: {trouble}\n", measured.name);
            }
        }
    }
    out
}

fn server(measured: &Measured) -> String {
    let spread = |trials| {
        Measured::cost(trials).map_or("–".to_owned(), |spread| {
            format!(
                "{:.2} ({:.2} – {:.2})",
                spread.median, spread.low, spread.high
            )
        })
    };
    let begin = [measured.name.to_string(), measured.version.to_string()];
    let Some(last) = measured.received.last() else {
        let trouble = measured.trouble.clone().unwrap_or_default();
        let rest = std::iter::repeat_n(String::new(), 7);
        return row(begin.into_iter().chain([trouble]).chain(rest));
    };
    let memory = last.memory as f64 / 1024.0 / 1024.0 / f64::from(last.begun.playing.max(1));
    row(begin.into_iter().chain([
        spread(&measured.received),
        format!("{:.2}", last.process_cost()),
        spread(&measured.dropped),
        format!("{:.1}", last.seen.late_p99_ms),
        format!("{:.1}", last.seen.late_max_ms),
        format!("{} / {}", last.seen.burst_p50, last.seen.burst_p99),
        format!("{memory:.1} MiB"),
        kept(measured),
    ]))
}

/// Returns the trials of a server's search as rows.
fn searched(measured: &Measured) -> impl Iterator<Item = String> {
    measured.search.iter().map(|trial| {
        row([
            measured.name.to_string(),
            trial.viewers.to_string(),
            format!("{:.2}", trial.cost()),
            format!("{:.1}", trial.seen.late_p999_ms),
            format!("{:.1}", trial.seen.late_max_ms),
            trial.seen.lost.to_string(),
            trial
                .trouble(LATE_MS)
                .unwrap_or_else(|| "keeps up".to_owned()),
        ])
    })
}

#[cfg(test)]
#[test]
fn the_page_has_its_slots() {
    let faults = [ALL.faults(), SEARCH.faults()];
    assert_eq!(faults.concat(), [""; 0]);
}

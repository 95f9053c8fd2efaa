//! The charts: the paper's Figures 9 and 10 again, the cost of a packet, increasing numbers of
//! streams.

use super::paper::{IDLE, OVERLOADED, Table};
use super::results::Results;
use super::task::Way;
use super::toy::{self, Priority};
use super::{film, reel};
use crate::chart::{Axis, Bar, Mark, Series, bars, lines};

/// Returns the charts with their file names.
pub fn charts(results: &Results) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if !results.sessions.is_empty() {
        all.push((
            "figure-9-idle.svg",
            sessions(&IDLE, "idle machine", false, &results.sessions),
        ));
        all.push((
            "figure-10-overloaded.svg",
            sessions(&OVERLOADED, "overloaded machine", true, &results.sessions),
        ));
    }
    if let Some(films) = &results.films {
        all.push(("packet-cost.svg", cost(films)));
        all.push((
            "streams-cpu.svg",
            sweep(
                films,
                "Share of one core that streams of 4 Mb/s take",
                "% of the core",
                |row| row.busy() * 100.0,
            ),
        ));
        all.push((
            "streams-late.svg",
            sweep(
                films,
                "How late packets leave (99.9 of 100)",
                "ms late, p99.9",
                |row| row.sender.late.p999,
            ),
        ));
    }
    all
}

/// Draws the paper's ranges as bands and ours as lines, in seconds for the same number of packets.
fn sessions(table: &Table, condition: &str, overloaded: bool, rows: &[toy::Row]) -> String {
    let title = format!(
        "{} of the paper again: seconds a session, {condition}",
        table.figure
    );
    let band = |name: &str, (low, high): (f64, f64), colour| Series {
        name: name.to_owned(),
        mark: Mark::Band,
        colour,
        // Thick enough to be visible: the sessions differ by milliseconds.
        points: vec![
            (1.0, low - 0.12),
            (10.0, low - 0.12),
            (10.0, high + 0.12),
            (1.0, high + 0.12),
        ],
    };
    let mut series = vec![
        band("paper: read + send", table.conventional, 3),
        band("paper: MSSC", table.mssc, 2),
    ];
    // Shorter sessions are scaled to the length of the paper's.
    let stretch = rows.first().map_or(1.0, |row| {
        999.0 / f64::from(row.packets.saturating_sub(1).max(1))
    });
    use Priority::{Normal, Own, RealTime};
    let shown = [
        ("ours: 10 ms timers", Way::Ticks, Normal, Mark::Dashed, 3),
        ("ours: read + send", Way::Relative, Normal, Mark::Dashed, 1),
        ("Reelway", reel::chosen(8), Own, Mark::Line, 0),
        (
            "Reelway, real-time",
            reel::chosen(8),
            RealTime,
            Mark::Dashed,
            0,
        ),
    ];
    for (name, way, priority, mark, colour) in shown {
        let is = |row: &&toy::Row| {
            row.overloaded == overloaded && row.priority == priority && row.way == way
        };
        let Some(row) = rows.iter().find(is) else {
            continue;
        };
        let points = row
            .seconds
            .iter()
            .enumerate()
            .map(|(session, seconds)| (session as f64 + 1.0, seconds * stretch));
        series.push(Series {
            name: name.to_owned(),
            mark,
            colour,
            points: points.collect(),
        });
    }
    let most = series
        .iter()
        .flat_map(|series| &series.points)
        .map(|point| point.1)
        .fold(42.0, f64::max);
    let mut sessions = Axis::linear("session", 1.0, 10.0);
    (sessions.range, sessions.ticks) = ((1.0, 10.0), (1..=10).map(f64::from).collect());
    lines(
        &title,
        &sessions,
        &Axis::linear("seconds", 28.0, most),
        &series,
    )
}

fn cost(films: &film::Films) -> String {
    let bar = |cost: &film::Cost| Bar {
        name: cost.way.describe(),
        value: cost.ns.1,
        colour: match &cost.way {
            Way::Reelway { burst, .. } if cost.way == reel::chosen(*burst) => 0,
            Way::Reelway { .. } => 2,
            _ => 3,
        },
        spread: Some((cost.ns.0, cost.ns.2)),
    };
    let all: Vec<Bar> = films.costs.iter().map(bar).collect();
    let title = format!("CPU of a packet, {} streams of 4 Mb/s", films.compared);
    bars(
        &title,
        "CPU ns a packet of 1328 bytes, user and system",
        &all,
    )
}

fn sweep(
    films: &film::Films,
    title: &str,
    unit: &str,
    value: impl Fn(&film::Row) -> f64,
) -> String {
    let mut counts: Vec<f64> = films.sweep.iter().map(|row| row.streams.into()).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    let mut ways: Vec<&Way> = films.sweep.iter().map(|row| &row.way).collect();
    ways.dedup();
    let series: Vec<Series> = ways
        .iter()
        .enumerate()
        .map(|(nth, way)| Series {
            name: way.describe(),
            mark: if nth == 0 { Mark::Dashed } else { Mark::Line },
            // Others are grey, ours have colours.
            colour: (nth + 3) % 4,
            points: films
                .sweep
                .iter()
                .filter(|row| row.way == **way)
                .map(|row| (row.streams.into(), value(row)))
                .collect(),
        })
        .collect();
    let most = films.sweep.iter().map(&value).fold(1.0, f64::max);
    lines(
        title,
        &Axis::log("streams", &counts),
        &Axis::linear(unit, 0.0, most),
        &series,
    )
}

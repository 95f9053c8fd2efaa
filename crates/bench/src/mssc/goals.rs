//! The figures of the experiment, each compared with its goal.

use super::paper::IDEAL;
use super::results::Results;
use super::task::{WHOLE, Way};
use super::toy::Priority;
use super::{film, reel, toy};
use crate::report::{Figure, Report};

fn is_default(way: &Way, of_burst: u16) -> bool {
    *way == reel::chosen(of_burst)
}

/// Adds the figures of the parts that were measured.
pub fn judge(report: &mut Report, results: &Results) {
    sessions(report, &results.sessions);
    if let Some(films) = &results.films {
        cost(report, films);
        streams(report, films);
    }
}

fn sessions(report: &mut Report, rows: &[toy::Row]) {
    let ours = |overloaded: bool, priority: Priority| {
        let is = move |row: &&toy::Row| {
            row.overloaded == overloaded && row.priority == priority && is_default(&row.way, 8)
        };
        rows.iter().find(is)
    };
    for (name, row) in [
        ("idle", ours(false, Priority::Own)),
        ("overloaded", ours(true, Priority::RealTime)),
    ] {
        let Some(row) = row else { continue };
        // The ideal duration scales with the number of packets.
        let ideal = IDEAL / 999.0 * f64::from(row.packets.saturating_sub(1));
        let off = |seconds: &f64| (seconds - ideal).abs() * 1e3;
        let worst = row.seconds.iter().map(off).fold(0.0, f64::max);
        report.figures.push(Figure::at_most(
            &format!("sessions_{name}_off_by"),
            worst,
            "ms",
            5.0,
        ));
    }
    if let Some(row) = ours(true, Priority::RealTime) {
        report.figures.push(Figure::at_most(
            "late_p999_overloaded",
            row.late.p999,
            "ms",
            5.0,
        ));
        report.figures.push(Figure::without_goal(
            "late_max_overloaded",
            row.late.max,
            "ms",
        ));
    }
}

fn cost(report: &mut Report, films: &film::Films) {
    for (name, burst, least) in [("8", 8, 4.0), ("16", 16, 6.0), ("whole_frames", WHOLE, 7.0)] {
        let Some(cost) = films.costs.iter().find(|cost| is_default(&cost.way, burst)) else {
            continue;
        };
        let (low, median, high) = cost.times_cheaper;
        let figure = Figure::at_least(
            &format!("times_cheaper_burst_{name}"),
            median,
            "times",
            least,
        );
        report.figures.push(figure.spread(low, high));
    }
    if let Some((_, calls)) = films.calls.iter().find(|(way, _)| is_default(way, 8)) {
        report.figures.push(Figure::at_most(
            "system_calls_a_stream_second",
            *calls,
            "calls",
            10.0,
        ));
    }
}

fn streams(report: &mut Report, films: &film::Films) {
    /// The greatest lateness allowed, ms.
    const LATEST: f64 = 10.0;
    if let Some(row) = &films.near_70 {
        report.figures.push(Figure::at_most(
            "late_p999_at_70_percent",
            row.sender.late.p999,
            "ms",
            1.0,
        ));
        report.figures.push(Figure::without_goal(
            "late_max_at_70_percent",
            row.sender.late.max,
            "ms",
        ));
    }
    let ours: Vec<_> = films
        .sweep
        .iter()
        .filter(|row| is_default(&row.way, 8))
        .collect();
    let most = ours
        .iter()
        .filter(|row| row.keeps_up(LATEST))
        .map(|row| row.streams)
        .max();
    report.figures.push(Figure::at_least(
        "streams_a_core",
        most.unwrap_or(0).into(),
        "streams",
        3000.0,
    ));
    if !films.tries.is_empty() {
        /// Lateness that 999 of 1,000 packets must not exceed, ms.
        const LATE: f64 = 5.0;
        let in_time = |row: &&film::Row| row.sender.late.p999 <= LATE && row.sender.refused == 0;
        let tries = films.tries.iter().filter(in_time).count();
        report.figures.push(Figure::at_least(
            "tries_of_3000_streams_in_time",
            tries as f64,
            "of 5",
            5.0,
        ));
    }
    if let (Some(few), Some(many)) = (ours.first(), ours.last()) {
        let more = many.sender.descriptors as f64 - few.sender.descriptors as f64;
        report.figures.push(Figure::at_most(
            "more_descriptors_with_streams",
            more,
            "fds",
            0.0,
        ));
    }
    let received = films.received.iter().filter(|row| is_default(&row.way, 8));
    let received: Vec<_> = received.filter_map(|row| row.received).collect();
    if let Some(burst) = received.iter().map(|received| received.burst_p99).max() {
        report.figures.push(Figure::at_most(
            "burst_p99_on_the_wire",
            burst as f64,
            "packets",
            8.0,
        ));
        let lost = received.iter().map(|received| received.lost).sum::<u64>();
        report.figures.push(Figure::at_most(
            "packets_lost_to_receivers",
            lost as f64,
            "packets",
            0.0,
        ));
    }
}

//! Squid, Varnish and nginx as the caches, alone and behind a director: when each is overloaded,
//! and what a megabyte costs it.

use super::lab::{LINK, POWER, Run, Setup, clients};
use super::text::{GUEST, table};
use crate::report::{Figure, Report};

const SERVERS: [&str; 4] = ["reelway", "squid", "varnish", "nginx"];

fn setup(server: &str, caches: u32) -> Setup {
    let method = if caches == 1 { "none" } else { "direct" };
    clients(60, 420, 60)
        .with("SERVER", server)
        .with("METHOD", method)
        .with("SCHEDULER", "wlc")
        .with("CACHES", caches)
}

pub fn setups() -> Vec<Setup> {
    let alone = SERVERS.map(|server| setup(server, 1));
    let behind = SERVERS.map(|server| setup(server, 3));
    alone.into_iter().chain(behind).collect()
}

/// Returns the instructions of all caches per byte that viewers received.
fn instructions(run: &Run) -> f64 {
    let all: f64 = run.caches().map(|cache| run.done(cache).instructions).sum();
    all * 1e6 / run.story.bytes.max(1) as f64
}

/// Returns the number of clients when the first viewer whose film was faulty arrived.
fn enough(run: &Run) -> String {
    let wrong = run
        .story
        .each
        .iter()
        .filter(|viewer| viewer.verdict != "well");
    match wrong.map(|viewer| viewer.came_s).min_by(f64::total_cmp) {
        Some(at) => (8 + 6 * (at / 60.0) as u32).min(38).to_string(),
        None => "never".to_owned(),
    }
}

pub fn report(runs: &[Run]) -> Report {
    let mut report = Report::new("lvscache-servers");
    report.title = "Caches behind a director: Squid, Varnish and nginx".into();
    let alone = |server: &str| {
        runs.iter()
            .find(|run| run.setup == setup(server, 1))
            .map(instructions)
    };
    if let Some(ours) = alone("reelway") {
        for server in &SERVERS[1..] {
            let Some(theirs) = alone(server) else {
                continue;
            };
            let id = format!("instructions_against_{server}");
            let unit = "of its instructions a byte";
            let figure = Figure::without_goal(&id, ours / theirs, unit);
            report.figures.push(figure);
        }
    }
    let busiest = |run: &Run| {
        let peaks = run
            .caches()
            .map(|cache| run.peak(cache, 20.0, |sample| sample.instructions));
        100.0 * peaks.fold(0.0, f64::max) / POWER
    };
    let link = |run: &Run| {
        let peaks = run
            .caches()
            .map(|cache| run.peak(cache, 20.0, |sample| sample.sent));
        100.0 * peaks.fold(0.0, f64::max) * 8.0 / LINK
    };
    let rows = runs.iter().map(|run| {
        vec![
            format!("{} × {}", run.setup.get("CACHES"), run.setup.get("SERVER")),
            run.story.each.len().to_string(),
            run.unwell().to_string(),
            enough(run),
            format!("{:.1}", busiest(run)),
            format!("{:.0}", link(run)),
            format!("{:.1}", instructions(run)),
            format!("{:.2}", run.done("origin").sent / 1e6),
        ]
    });
    let table = table(
        &[
            "caches",
            "films watched",
            "not well",
            "clients at the first of them",
            "busiest cache, % of its processor",
            "busiest cache, % of its link",
            "instructions a byte",
            "origin sent, MB",
        ],
        rows,
    );
    report.page = format!(
        "The paper's clients, with steps of a minute instead of ten and a film of a minute, before one cache alone and before three behind a \
         director (direct routing, wlc). Each cache has 12 MiB for films. A film of 70 kbit/s comes in small segments: most instructions are the \
         kernel's, for packets and connections, and the same for all. What a megabyte of large segments costs each server is another experiment \
         (`reelway bench http`). {GUEST}\n\n{table}"
    );
    report
}

//! The page of the experiment and its charts: every number on it is what the run measured.

use std::fmt::Write;

use super::error::Percentiles;
use super::programs::Program;
use super::results::Results;
use crate::chart::{Axis, Bar, Mark, Series, bars, lines};
use crate::stats::Spread;

/// What the paper measured, µs a call of `gettimeofday` (Pentium 4, 1.3 GHz, Linux 2.4.18): the
/// system call and the virtual one, the means of four runs of a million calls.
const PAPER: [(&str, f64, f64); 2] = [
    ("system call", 1.626, 1.629),
    ("virtual system call", 0.328, 0.329),
];

/// Lines for the terminal.
pub fn summary(results: &Results) -> Vec<String> {
    let mut out = vec![format!("  time source: {}", results.source)];
    for row in table(results) {
        out.push(format!(
            "  {:<44} {:>8.2} ns a call",
            row.name, row.cost.median
        ));
    }
    let counter = results.unordered.ratio("clock_gettime/counter");
    out.push(format!(
        "  unordered clock_gettime / the bare counter: {:.3} (aim: 1.2)",
        counter.median
    ));
    let error = |name: &str, error: &Percentiles| {
        format!(
            "  {name}: p50 {} ns, p99 {} ns, p99.9 {} ns, maximum {} ns of {} samples; {:.3}% discarded",
            error.p50,
            error.p99,
            error.p999,
            error.max,
            error.samples,
            error.discarded * 100.0
        )
    };
    out.push(error(
        "error of now(), busy machine",
        &results.error.monotonic,
    ));
    out.push(error("error of real(), busy machine", &results.error.real));
    for slewed in &results.slewed {
        out.push(format!("  slewed by ±500 ppm, in the lab: {}", slewed.line));
    }
    for clock in results.drift.clocks.keys() {
        let (most, ppm) = results.drift.of(clock);
        out.push(format!(
            "  drift of {clock}: {most:.0} ns off at most, {ppm:+.3} ppm at the end"
        ));
    }
    for program in &results.programs {
        out.push(format!("  {}: {}", program.name, comparison(program)));
    }
    out
}

fn comparison(program: &Program) -> String {
    let ratio = |way| program.ratio(way);
    format!(
        "{:.3} of its figure without when ordered, {:.3} unordered; {:.2} million clock calls a second",
        ratio(1).median,
        ratio(2).median,
        program.calls_a_second() / 1e6
    )
}

/// A row of the table.
struct Row {
    name: &'static str,
    cost: Spread,
    /// Divided by the vDSO in the same run.
    ratio: Option<Spread>,
}

fn table(results: &Results) -> Vec<Row> {
    let (ordered, unordered, library) = (&results.ordered, &results.unordered, &results.library);
    let row = |name, cost, ratio| Row { name, cost, ratio };
    vec![
        row(
            "system call gettimeofday",
            ordered.mean("syscall-gettimeofday"),
            None,
        ),
        row(
            "system call clock_gettime",
            ordered.mean("syscall-clock_gettime"),
            None,
        ),
        row("vDSO gettimeofday", ordered.mean("vdso-gettimeofday"), None),
        row(
            "vDSO clock_gettime",
            ordered.mean("vdso-clock_gettime"),
            None,
        ),
        row(
            "preload gettimeofday, ordered",
            ordered.mean("ours-gettimeofday"),
            Some(ordered.ratio("gettimeofday/vdso")),
        ),
        row(
            "preload clock_gettime, ordered",
            ordered.mean("ours-clock_gettime"),
            Some(ordered.ratio("clock_gettime/vdso")),
        ),
        row(
            "preload gettimeofday, unordered",
            unordered.mean("ours-gettimeofday"),
            Some(unordered.ratio("gettimeofday/vdso")),
        ),
        row(
            "preload clock_gettime, unordered",
            unordered.mean("ours-clock_gettime"),
            Some(unordered.ratio("clock_gettime/vdso")),
        ),
        row(
            "library now()",
            library.mean("now"),
            Some(library.ratio("now")),
        ),
        row(
            "library now_unordered()",
            library.mean("now_unordered"),
            Some(library.ratio("now_unordered")),
        ),
        row(
            "library coarse()",
            library.mean("coarse"),
            Some(library.ratio("coarse")),
        ),
        row(
            "quanta",
            library.mean("quanta"),
            Some(library.ratio("quanta")),
        ),
        row(
            "minstant",
            library.mean("minstant"),
            Some(library.ratio("minstant")),
        ),
        row(
            "fastant",
            library.mean("fastant"),
            Some(library.ratio("fastant")),
        ),
        row(
            "the bare counter",
            library.mean("counter"),
            Some(library.ratio("counter")),
        ),
    ]
}

/// Tables for the page of results.
pub fn page(results: &Results) -> String {
    let mut out = String::from(
        "## What a reading costs\n\n\
         The paper's table again. In the paper (Pentium 4, Linux 2.4.18): system call 1.626–1.629 µs, virtual \
         system call 0.328–0.329 µs, five times less. Here: means of a million calls, four runs (median, and \
         smallest to largest); ratios are medians over turns of 2,500 calls that alternate.\n\n\
         | | ns a call | | / vDSO |\n|---|---|---|---|\n",
    );
    for Row { name, cost, ratio } in table(results) {
        let ratio = ratio.map_or(String::new(), |ratio| format!("{:.3}", ratio.median));
        let _ = writeln!(
            out,
            "| {name} | {:.2} | {:.2} – {:.2} | {ratio} |",
            cost.median, cost.low, cost.high
        );
    }
    out.push_str(
        "\n![A reading as a share of the system call, in the paper and here](vtime/cost.svg)\n\n\
         ## How right it is\n\n",
    );
    let steps = &results.steps;
    let _ = writeln!(
        out,
        "{} ordered readings by {} threads on all processors against the latest that any of them had seen: {} \
         stepped back, by {} ns at worst. {} unordered readings against the thread's own last: {} stepped \
         back, by {} ns at worst.\n",
        steps.ordered.readings,
        steps.threads,
        steps.ordered.back,
        steps.ordered.deepest,
        steps.unordered.readings,
        steps.unordered.back,
        steps.unordered.deepest
    );
    out.push_str(
        "Distance from the kernel's clock, read before and after; samples whose two readings lie more than 2 µs \
         apart were interrupted and are discarded.\n\n\
         | | p50 | p99 | p99.9 | maximum | samples | discarded |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, error) in [
        ("`now()`, every processor busy", &results.error.monotonic),
        ("`real()`, every processor busy", &results.error.real),
    ] {
        let _ = writeln!(
            out,
            "| {name} | {} ns | {} ns | {} ns | {} ns | {} | {:.3}% |",
            error.p50,
            error.p99,
            error.p999,
            error.max,
            error.samples,
            error.discarded * 100.0
        );
    }
    for slewed in &results.slewed {
        let _ = writeln!(
            out,
            "\nIn the lab, slewed by ±500 ppm ten times a second: {}",
            slewed.line
        );
    }
    out.push_str("\n## Drift\n\n| clock | off at most | at the end |\n|---|---|---|\n");
    for clock in results.drift.clocks.keys() {
        let (most, ppm) = results.drift.of(clock);
        let _ = writeln!(out, "| {clock} | {most:.0} ns | {ppm:+.3} ppm |");
    }
    for library in &results.drift.fallen_back {
        let _ = writeln!(
            out,
            "\n{library} has fallen back to a coarse clock without saying so."
        );
    }
    out.push_str("\n![How far clocks drift from the kernel's](vtime/drift.svg)\n");
    if !results.programs.is_empty() {
        out.push_str(
            "\n## In real programs\n\n\
             Rounds with and without the preload library take turns; the ratio is of pairs of a round.\n\n\
             | | without | ordered | unordered | ordered / without | unordered / without | clock calls a second |\n\
             |---|---|---|---|---|---|---|\n",
        );
    }
    for program in &results.programs {
        let _ = write!(out, "| {} ({}) ", program.name, program.unit);
        for way in 0..3 {
            let _ = write!(out, "| {:.0} ", program.figure(way).median);
        }
        for way in 1..3 {
            let ratio = program.ratio(way);
            let _ = write!(
                out,
                "| {:.3} ({:.3} – {:.3}) ",
                ratio.median, ratio.low, ratio.high
            );
        }
        let _ = writeln!(out, "| {:.2} million |", program.calls_a_second() / 1e6);
    }
    if !results.lab.is_empty() {
        out.push_str(
            "\n## Where the kernel's clock has no vDSO\n\n\
             A Debian kernel in the lab that counts instructions, the counter trusted by hand \
             (`REELWAY_CLOCK=force`).\n\n\
             | clock source | function | the kernel's | ours | |\n|---|---|---|---|---|\n",
        );
    }
    for source in &results.lab {
        for (function, kernel, ours) in &source.costs {
            let _ = writeln!(
                out,
                "| {} | {function} | {kernel:.0} instructions | {ours:.0} | {:.1} times fewer |",
                source.name,
                kernel / ours
            );
        }
    }
    out
}

/// File names and drawings.
pub fn charts(results: &Results) -> Vec<(&'static str, String)> {
    vec![("cost.svg", cost(results)), ("drift.svg", drift(results))]
}

/// A reading as a share of the system call: the paper's beside ours.
fn cost(results: &Results) -> String {
    let mut all = Vec::new();
    let whole = (PAPER[0].1 + PAPER[0].2) / 2.0;
    for (name, low, high) in PAPER {
        all.push(Bar {
            name: format!("paper: {name}"),
            value: (low + high) / 2.0 / whole * 100.0,
            colour: 3,
            spread: None,
        });
    }
    let whole = results.ordered.mean("syscall-gettimeofday").median;
    let readings = [
        (
            "here: system call",
            &results.ordered,
            "syscall-gettimeofday",
            1,
        ),
        ("here: vDSO", &results.ordered, "vdso-gettimeofday", 1),
        (
            "Reelway preload, ordered",
            &results.ordered,
            "ours-gettimeofday",
            0,
        ),
        (
            "Reelway preload, unordered",
            &results.unordered,
            "ours-gettimeofday",
            0,
        ),
        ("Reelway now()", &results.library, "now", 0),
        (
            "Reelway now_unordered()",
            &results.library,
            "now_unordered",
            0,
        ),
        ("Reelway coarse()", &results.library, "coarse", 0),
        ("quanta", &results.library, "quanta", 2),
        ("minstant", &results.library, "minstant", 2),
        ("fastant", &results.library, "fastant", 2),
    ];
    all.extend(readings.map(|(name, costs, reading, colour)| {
        let cost = costs.mean(reading);
        Bar {
            name: name.to_owned(),
            value: cost.median / whole * 100.0,
            colour,
            spread: Some((cost.low / whole * 100.0, cost.high / whole * 100.0)),
        }
    }));
    bars(
        "A reading of the time, the paper's machine and this one",
        "% of a gettimeofday system call",
        &all,
    )
}

fn drift(results: &Results) -> String {
    let mut series = Vec::new();
    // Ours last, so that it is drawn over the others.
    for (colour, (name, key)) in [
        (1, ("quanta", "quanta")),
        (2, ("minstant", "minstant")),
        (3, ("fastant", "fastant")),
        (0, ("Reelway", "now")),
    ] {
        let points = results.drift.clocks.get(key).cloned().unwrap_or_default();
        let points: Vec<(f64, f64)> = points
            .iter()
            .step_by((points.len() / 20).max(1))
            .map(|(seconds, nanos)| (seconds / 60.0, nanos / 1e3))
            .collect();
        series.push(Series {
            name: name.into(),
            mark: Mark::Line,
            colour,
            points,
        });
    }
    let ends = || series.iter().flat_map(|series| &series.points);
    let low = ends().map(|point| point.1).fold(0.0, f64::min);
    let high = ends().map(|point| point.1).fold(1.0, f64::max);
    let minutes = ends().map(|point| point.0).fold(0.1, f64::max);
    lines(
        "Clocks ahead of the kernel's",
        &Axis::linear("minutes", 0.0, minutes),
        &Axis::linear("µs", low, high),
        &series,
    )
}

//! The page of the experiment and its charts; every number on it is measured. Its texts are the
//! files beside this one.

use super::error::Percentiles;
use super::programs::Program;
use super::results::Results;
use crate::chart::{Axis, Bar, Mark, Series, bars, lines};
use crate::stats::Spread;
use crate::template::{Template, row, rows};

const CLOCK: Template<12> = Template::new(
    include_str!("clock.md"),
    [
        "costs",
        "ordered",
        "threads",
        "ordered-back",
        "ordered-deepest",
        "unordered",
        "unordered-back",
        "unordered-deepest",
        "errors",
        "slewed",
        "drift",
        "fallen-back",
    ],
);
const PROGRAMS: Template<1> = Template::new(include_str!("programs.md"), ["programs"]);
const LAB: Template<1> = Template::new(include_str!("lab.md"), ["sources"]);

/// The paper's results, µs per call of `gettimeofday` (Pentium 4, 1.3 GHz, Linux 2.4.18): the
/// system call and the virtual one, least and greatest mean of four runs of a million calls.
const PAPER: [(&str, f64, f64); 2] = [
    ("system call", 1.626, 1.629),
    ("virtual system call", 0.328, 0.329),
];

/// Returns lines for the terminal.
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
    /// Cost divided by that of the vDSO in the same run.
    ratio: Option<Spread>,
}

fn table(results: &Results) -> Vec<Row> {
    let (ordered, unordered, library) = (&results.ordered, &results.unordered, &results.library);
    let of = |name, cost, ratio| Row { name, cost, ratio };
    vec![
        of(
            "system call gettimeofday",
            ordered.mean("syscall-gettimeofday"),
            None,
        ),
        of(
            "system call clock_gettime",
            ordered.mean("syscall-clock_gettime"),
            None,
        ),
        of("vDSO gettimeofday", ordered.mean("vdso-gettimeofday"), None),
        of(
            "vDSO clock_gettime",
            ordered.mean("vdso-clock_gettime"),
            None,
        ),
        of(
            "preload gettimeofday, ordered",
            ordered.mean("ours-gettimeofday"),
            Some(ordered.ratio("gettimeofday/vdso")),
        ),
        of(
            "preload clock_gettime, ordered",
            ordered.mean("ours-clock_gettime"),
            Some(ordered.ratio("clock_gettime/vdso")),
        ),
        of(
            "preload gettimeofday, unordered",
            unordered.mean("ours-gettimeofday"),
            Some(unordered.ratio("gettimeofday/vdso")),
        ),
        of(
            "preload clock_gettime, unordered",
            unordered.mean("ours-clock_gettime"),
            Some(unordered.ratio("clock_gettime/vdso")),
        ),
        of(
            "library now()",
            library.mean("now"),
            Some(library.ratio("now")),
        ),
        of(
            "library now_unordered()",
            library.mean("now_unordered"),
            Some(library.ratio("now_unordered")),
        ),
        of(
            "library coarse()",
            library.mean("coarse"),
            Some(library.ratio("coarse")),
        ),
        of(
            "quanta",
            library.mean("quanta"),
            Some(library.ratio("quanta")),
        ),
        of(
            "minstant",
            library.mean("minstant"),
            Some(library.ratio("minstant")),
        ),
        of(
            "fastant",
            library.mean("fastant"),
            Some(library.ratio("fastant")),
        ),
        of(
            "the bare counter",
            library.mean("counter"),
            Some(library.ratio("counter")),
        ),
    ]
}

/// Returns the part of the page below its figures.
pub fn page(results: &Results) -> String {
    let costs = table(results).into_iter().map(|of| {
        let ratio = of.ratio.map(|ratio| format!("{:.3}", ratio.median));
        row([
            of.name.to_owned(),
            format!("{:.2}", of.cost.median),
            format!("{:.2} – {:.2}", of.cost.low, of.cost.high),
            ratio.unwrap_or_default(),
        ])
    });
    let errors = [
        ("`now()`, every processor busy", &results.error.monotonic),
        ("`real()`, every processor busy", &results.error.real),
    ];
    let slewed = results.slewed.iter().map(|slewed| {
        format!(
            "\nIn the lab, slewed by ±500 ppm ten times a second: {}\n",
            slewed.line
        )
    });
    let drift = results.drift.clocks.keys().map(|clock| {
        let (most, ppm) = results.drift.of(clock);
        row([
            clock.to_string(),
            format!("{most:.0} ns"),
            format!("{ppm:+.3} ppm"),
        ])
    });
    let fallen_back = results.drift.fallen_back.iter();
    let fallen_back = fallen_back.map(|library| {
        format!("\n{library} has fallen back to a coarse clock without saying so.\n")
    });
    let steps = &results.steps;
    let mut out = CLOCK.fill([
        rows(costs),
        steps.ordered.readings.to_string(),
        steps.threads.to_string(),
        steps.ordered.back.to_string(),
        steps.ordered.deepest.to_string(),
        steps.unordered.readings.to_string(),
        steps.unordered.back.to_string(),
        steps.unordered.deepest.to_string(),
        rows(errors.map(|(name, error)| of_error(name, error))),
        slewed.collect(),
        rows(drift),
        fallen_back.collect(),
    ]);
    if !results.programs.is_empty() {
        out += &PROGRAMS.fill([rows(results.programs.iter().map(of_program))]);
    }
    if !results.lab.is_empty() {
        let sources = results.lab.iter().flat_map(|source| {
            source.costs.iter().map(|(function, kernel, ours)| {
                row([
                    source.name.to_string(),
                    function.to_string(),
                    format!("{kernel:.0} instructions"),
                    format!("{ours:.0}"),
                    format!("{:.1} times fewer", kernel / ours),
                ])
            })
        });
        out += &LAB.fill([rows(sources)]);
    }
    out
}

fn of_error(name: &str, error: &Percentiles) -> String {
    row([
        name.to_owned(),
        format!("{} ns", error.p50),
        format!("{} ns", error.p99),
        format!("{} ns", error.p999),
        format!("{} ns", error.max),
        error.samples.to_string(),
        format!("{:.3}%", error.discarded * 100.0),
    ])
}

fn of_program(program: &Program) -> String {
    let figures = (0..3).map(|way| format!("{:.0}", program.figure(way).median));
    let ratios = (1..3).map(|way| {
        let ratio = program.ratio(way);
        format!("{:.3} ({:.3} – {:.3})", ratio.median, ratio.low, ratio.high)
    });
    let calls = format!("{:.2} million", program.calls_a_second() / 1e6);
    let name = format!("{} ({})", program.name, program.unit);
    row(std::iter::once(name)
        .chain(figures)
        .chain(ratios)
        .chain([calls]))
}

/// Returns the charts with their file names.
pub fn charts(results: &Results) -> Vec<(&'static str, String)> {
    vec![("cost.svg", cost(results)), ("drift.svg", drift(results))]
}

/// Draws the cost of a reading as a share of the system call: the paper's and ours.
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
    // Ours is last, so that it is drawn over the others.
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

#[cfg(test)]
#[test]
fn the_page_has_its_slots() {
    let faults = [CLOCK.faults(), PROGRAMS.faults(), LAB.faults()];
    assert_eq!(faults.concat(), [""; 0]);
}

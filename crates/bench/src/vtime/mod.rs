//! `reelway bench vtime`: the vtime paper's table again, and the accuracy of a user-space clock.
//!
//! | file | content |
//! |---|---|
//! | `tools.rs` | the measured programs, which are built if they are missing |
//! | `cost.rs`, `cost.c` | the cost of a reading: system call, vDSO, ours, other libraries |
//! | `steps.rs` | readings that step back, counted over threads and processors |
//! | `error.rs` | deviation from the kernel's clock, on a busy machine |
//! | `drift.rs` | the same over minutes, compared with other libraries |
//! | `programs.rs` | PostgreSQL and Redis with and without the preload library |
//! | `lab.rs` | clock sources without a vDSO, and a slewed clock, in the lab |
//! | `args.rs`, `results.rs` | the arguments; all results |
//! | `page/` | the page, its charts and its texts |

mod args;
mod cost;
mod drift;
mod error;
mod lab;
mod page;
mod programs;
mod results;
mod steps;
mod tools;

use self::args::Args;
use self::results::Results;
use crate::arguments::arguments;
use crate::bed::Folder;
use crate::report::{Figure, Report};

/// Runs the experiment with its own arguments.
///
/// # Errors
/// A tool is missing and cannot be built, or a program failed.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let mut args: Args = arguments("vtime", args);
    if args.quick {
        args.calls = args.calls.min(100_000);
        args.readings = args.readings.min(20_000_000);
        args.error_seconds = args.error_seconds.min(2.0);
        args.drift_minutes = args.drift_minutes.min(0.1);
        args.program_rounds = args.program_rounds.min(1);
    }
    let folder = Folder::make("vtime")?;
    let tools = tools::Tools::find(folder.path())?;
    let say = |what: &str| eprintln!("vtime: {what}");

    let source = reelway_clock::start().to_string();
    say(&source);
    say("what a reading costs");
    let ordered = cost::in_c(&tools, &args, "auto")?;
    let unordered = cost::in_c(&tools, &args, "none")?;
    let library = cost::of_libraries(&tools, &args)?;
    let mut programs = Vec::new();
    if args.program_rounds > 0 {
        say("PostgreSQL and Redis");
        programs = programs::measure(&tools, folder.path(), args.program_rounds)?;
    }
    // All costs are measured. The rest is about accuracy, which a busy machine does not affect, so
    // the drift is measured in the background.
    say("from here on the machine may be busy: drift, in the background");
    let drift = drift::Following::start(&tools, args.drift_minutes)?;
    say("readings that step back");
    let steps = steps::count(args.readings);
    say("distance from the kernel's clock, on a busy machine");
    let error = error::measure(args.error_seconds);
    let (mut in_lab, mut slewed) = (Vec::new(), Vec::new());
    if args.lab != "none" {
        say("in the lab");
        (in_lab, slewed) = lab::measure(&args.lab)?;
    }
    say("the rest of the drift");
    let drift = drift.end()?;
    let results = Results {
        source,
        ordered,
        unordered,
        library,
        steps,
        error,
        drift,
        programs,
        lab: in_lab,
        slewed,
    };

    let mut report = Report::new("vtime");
    report.figures = figures(&results);
    if let serde_json::Value::Object(map) = serde_json::to_value(&results)? {
        report.details = map;
    }
    report.text = page::summary(&results);
    report.page = page::page(&results);
    report.charts = page::charts(&results)
        .into_iter()
        .map(|(name, chart)| (format!("vtime/{name}"), chart))
        .collect();
    Ok(report)
}

/// Returns the measured figures, each compared with its goal.
fn figures(results: &Results) -> Vec<Figure> {
    let mut figures = Vec::new();
    let with =
        |figure: Figure, spread: crate::stats::Spread| figure.spread(spread.low, spread.high);
    for function in ["clock_gettime", "gettimeofday"] {
        let ratio = results.ordered.ratio(&format!("{function}/syscall"));
        let times = crate::stats::Spread {
            low: 1.0 / ratio.high,
            median: 1.0 / ratio.median,
            high: 1.0 / ratio.low,
        };
        let id = format!("ordered {function}, times faster than the system call");
        figures.push(with(Figure::at_least(&id, times.median, "×", 5.0), times));
        let ratio = results.ordered.ratio(&format!("{function}/vdso"));
        let id = format!("ordered {function} / vDSO");
        figures.push(with(Figure::at_most(&id, ratio.median, "×", 0.95), ratio));
    }
    let ratio = results.unordered.ratio("clock_gettime/vdso");
    let id = "unordered clock_gettime / vDSO";
    figures.push(with(Figure::at_most(id, ratio.median, "×", 0.65), ratio));
    let ratio = results.library.ratio("now_unordered");
    figures.push(with(
        Figure::at_most("now_unordered() / vDSO", ratio.median, "×", 0.65),
        ratio,
    ));
    let cost = results.library.mean("coarse");
    figures.push(with(
        Figure::at_most("coarse()", cost.median, "ns", 3.0),
        cost,
    ));

    let back = &results.steps;
    figures.push(Figure::at_most(
        "backward steps, ordered, all threads",
        back.ordered.back as f64,
        "",
        0.0,
    ));
    figures.push(Figure::at_most(
        "backward steps, unordered, within a thread",
        back.unordered.back as f64,
        "",
        0.0,
    ));
    let mut errors = |name: &str, p999: u64, max: u64| {
        for (of, nanos, most) in [("p99.9", p999, 1.0), ("maximum", max, 5.0)] {
            let id = format!("{name}, {of}");
            figures.push(Figure::at_most(&id, nanos as f64 / 1e3, "µs", most));
        }
    };
    let error = &results.error;
    errors("monotonic error", error.monotonic.p999, error.monotonic.max);
    errors("real error", error.real.p999, error.real.max);
    for slewed in &results.slewed {
        let name = format!("{} error, slewed by ±500 ppm", slewed.clock);
        errors(&name, slewed.p999, slewed.max);
    }
    for source in &results.lab {
        for (function, kernel, ours) in &source.costs {
            let id = format!(
                "{} under {}, times fewer instructions",
                function, source.name
            );
            figures.push(Figure::at_least(&id, kernel / ours, "×", 5.0));
        }
    }
    figures
}

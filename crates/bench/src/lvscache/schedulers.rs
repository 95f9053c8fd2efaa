//! Every forwarding method with every scheduler: the paper's 24 combinations, of which it measured
//! six, and the schedulers that the kernel has gained since.

use super::lab::{POWER, Run, Setup, clients};
use super::text::{GUEST, table};
use crate::report::{Figure, Report};

/// The paper's forwarding methods.
const METHODS: [&str; 3] = ["nat", "ipip", "direct"];
const SCHEDULERS: [&str; 8] = ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "dh", "sh"];
/// Schedulers that the paper measured.
const MEASURED: [&str; 2] = ["lblc", "lblcr"];
/// The kernel's newer schedulers, measured with direct routing.
const NEWER: [&str; 3] = ["mh", "sed", "nq"];
/// The paper's clients over 140 seconds instead of 90 minutes, with a film of 20 seconds.
fn short(method: &str, scheduler: &str) -> Setup {
    clients(20, 140, 20)
        .with("METHOD", method)
        .with("SCHEDULER", scheduler)
}

pub fn setups() -> Vec<Setup> {
    let all = METHODS
        .iter()
        .flat_map(|method| SCHEDULERS.map(|scheduler| short(method, scheduler)));
    let newer = NEWER.map(|scheduler| short("direct", scheduler));
    all.chain(newer).collect()
}

pub fn report(runs: &[Run]) -> Report {
    let mut report = Report::new("lvscache-schedulers");
    report.title = "Caches behind a director: every method and scheduler".into();
    let busy = |run: &Run, machine: &str| {
        let done = run.done(machine);
        100.0 * done.instructions / done.at.max(1.0) / POWER
    };
    let rows = runs.iter().map(|run| {
        let (method, scheduler) = (run.setup.get("METHOD"), run.setup.get("SCHEDULER"));
        let mark = if MEASURED.contains(&scheduler) {
            " *"
        } else {
            ""
        };
        vec![
            format!("{method} {scheduler}{mark}"),
            run.story.each.len().to_string(),
            run.unwell().to_string(),
            format!("{:.2}", run.unevenness()),
            format!("{:.1}", busy(run, "director")),
            format!(
                "{:.1}",
                100.0 * run.done("director").sent / run.story.bytes.max(1) as f64
            ),
            format!("{:.2}", run.done("origin").sent / 1e6),
        ]
    });
    let combinations = table(
        &[
            "method, scheduler",
            "films watched",
            "not well",
            "largest cache / mean",
            "director, %",
            "director sends, % of the films",
            "origin sent, MB",
        ],
        rows,
    );
    let unwell: u64 = runs.iter().map(Run::unwell).sum();
    report.figures.push(Figure::without_goal(
        "combinations",
        runs.len() as f64,
        "of method and scheduler",
    ));
    report.figures.push(Figure::without_goal(
        "not_well",
        unwell as f64,
        "films in all of them that stood still or broke off",
    ));
    report.page = format!(
        "The paper's clients (8, and 6 more at each step, until there are 38 with three streams each) with the paper's 24 combinations of forwarding \
         method and scheduler, and the kernel's newer schedulers by direct routing, without persistence. Steps take 20 seconds instead of ten minutes, and the film 20 seconds instead \
         of five minutes. {GUEST} The director's processor is the mean over the run. The paper measured those with an asterisk. \
         With one film, `dh` has one address to go by, and sends all viewers to one cache; `lblc` and `lblcr` do so, too, until that cache is \
         overloaded; `sh` divides viewers by their addresses, as they happen to fall.\n\n{combinations}",
    );
    report
}

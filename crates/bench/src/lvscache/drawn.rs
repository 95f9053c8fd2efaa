//! The paper's Figures 2 to 5: one cache alone; three behind a director with LBLC, by direct
//! routing and by NAT.

use super::lab::{POWER, Run, Sample, Setup, clients};
use super::text::{GUEST, table};
use crate::chart::{Axis, Mark, Series, lines as chart, most};
use crate::report::{Figure, Report};

/// Interval over which rates are averaged, seconds.
const STEP: f64 = 60.0;

pub fn setups() -> Vec<Setup> {
    let paper = || clients(600, 5400, 300);
    vec![
        paper().with("METHOD", "none").with("CACHES", 1),
        paper().with("METHOD", "direct").with("SCHEDULER", "lblc"),
        paper().with("METHOD", "nat").with("SCHEDULER", "lblc"),
    ]
}

/// Converts millions of instructions per second to percent of the machine's capacity.
fn busy(rate: f64) -> f64 {
    100.0 * rate / POWER
}

/// Converts bytes per second to Mbit/s.
fn mbit(rate: f64) -> f64 {
    rate * 8e-6
}

fn series(
    run: &Run,
    machine: &str,
    name: &str,
    colour: usize,
    of: fn(&Sample) -> f64,
    unit: fn(f64) -> f64,
) -> Series {
    let course = run.course(machine, STEP, of).into_iter();
    Series {
        name: name.to_owned(),
        mark: Mark::Line,
        colour,
        points: course.map(|(at, rate)| (at / 60.0, unit(rate))).collect(),
    }
}

/// Draws the processor use of machines over the minutes.
fn busy_chart(title: &str, run: &Run, machines: &[(&str, &str)]) -> String {
    let all: Vec<Series> = machines
        .iter()
        .enumerate()
        .map(|(colour, (machine, name))| {
            series(
                run,
                machine,
                name,
                colour,
                |sample| sample.instructions,
                busy,
            )
        })
        .collect();
    let top = most(&all).max(1.0);
    chart(
        title,
        &Axis::linear("minutes", 0.0, 90.0),
        &Axis::linear("% of the processor", 0.0, top),
        &all,
    )
}

/// Draws the bit rates that machines receive and send over the minutes.
fn bytes_chart(title: &str, run: &Run, machines: &[(&str, &str)]) -> String {
    let mut all = Vec::new();
    for (machine, name) in machines {
        let colour = all.len();
        all.push(series(
            run,
            machine,
            &format!("{name}, in"),
            colour % 4,
            |sample| sample.received,
            mbit,
        ));
        all.push(series(
            run,
            machine,
            &format!("{name}, out"),
            (colour + 1) % 4,
            |sample| sample.sent,
            mbit,
        ));
    }
    let top = most(&all).max(1.0);
    chart(
        title,
        &Axis::linear("minutes", 0.0, 90.0),
        &Axis::linear("Mbit/s", 0.0, top),
        &all,
    )
}

pub fn report(runs: &[Run]) -> Report {
    let [alone, direct, nat] = runs else {
        unreachable!("one run for each setup");
    };
    let mut report = Report::new("lvscache");
    report.title = "Caches behind a director: the paper's figures again".into();
    let caches = [
        ("cache1", "cache 1"),
        ("cache2", "cache 2"),
        ("cache3", "cache 3"),
        ("director", "director"),
    ];
    report.charts = vec![
        (
            "lvscache/alone-cpu.svg".into(),
            busy_chart(
                "One cache alone (the paper's Figure 2)",
                alone,
                &[("cache1", "cache"), ("origin", "origin")],
            ),
        ),
        (
            "lvscache/alone-bytes.svg".into(),
            bytes_chart(
                "One cache alone: its network (Figure 2)",
                alone,
                &[("cache1", "cache"), ("origin", "origin")],
            ),
        ),
        (
            "lvscache/direct-cpu.svg".into(),
            busy_chart("Direct routing, LBLC (Figure 3)", direct, &caches),
        ),
        (
            "lvscache/direct-bytes.svg".into(),
            bytes_chart(
                "Direct routing, LBLC: director and origin (Figure 5)",
                direct,
                &[("director", "director"), ("origin", "origin")],
            ),
        ),
        (
            "lvscache/nat-cpu.svg".into(),
            busy_chart("NAT, LBLC (Figure 4)", nat, &caches),
        ),
        (
            "lvscache/nat-bytes.svg".into(),
            bytes_chart(
                "NAT, LBLC: director and origin (Figure 4)",
                nat,
                &[("director", "director"), ("origin", "origin")],
            ),
        ),
    ];
    let peak =
        |run: &Run, machine: &str| busy(run.peak(machine, STEP, |sample| sample.instructions));
    let sent = |run: &Run, machine: &str| mbit(run.peak(machine, STEP, |sample| sample.sent));
    for (id, run) in [("alone", alone), ("direct", direct), ("nat", nat)] {
        let mut figure = |what: &str, value: f64, unit: &str| {
            report
                .figures
                .push(Figure::without_goal(&format!("{id}_{what}"), value, unit));
        };
        figure("films", run.story.each.len() as f64, "films watched");
        figure(
            "not_well",
            run.unwell() as f64,
            "of them stood still or broke off",
        );
        let busiest = run
            .caches()
            .map(|cache| peak(run, cache))
            .fold(0.0, f64::max);
        figure(
            "busiest_cache",
            busiest,
            "% of its processor, in the busiest minute",
        );
        if id != "alone" {
            figure(
                "director",
                peak(run, "director"),
                "% of its processor, in the busiest minute",
            );
            figure("director_sends", sent(run, "director"), "Mbit/s");
        }
    }
    let rows = [
        ("one cache alone", alone),
        ("three, direct routing", direct),
        ("three, NAT", nat),
    ]
    .map(|(name, run)| {
        let caches: Vec<String> = run
            .caches()
            .map(|cache| format!("{:.1}", peak(run, cache)))
            .collect();
        let has_director = run.machines.contains_key("director");
        let director = |value: f64| {
            if has_director {
                format!("{value:.1}")
            } else {
                "–".into()
            }
        };
        vec![
            name.to_owned(),
            run.story.each.len().to_string(),
            run.unwell().to_string(),
            caches.join(", "),
            director(peak(run, "director")),
            director(sent(run, "director")),
            format!("{:.2}", run.done("origin").sent / 1e6),
        ]
    });
    let table = table(
        &[
            "caches",
            "films watched",
            "not well",
            "processor of each, %",
            "director's, %",
            "director sends, Mbit/s",
            "origin sent, MB",
        ],
        rows,
    );
    report.page = format!(
        "The paper's measurement over its 90 minutes: 8 clients at first and 6 more every ten minutes, until there are 38; each plays \
         three streams of one film of five minutes (HLS), again and again; caches are empty at first. {GUEST} Rates of the busiest \
         minute.\n\n{table}\n\
         In the paper one cache alone was steady up to 26 clients, and its network use collapsed with 32; three caches were steady with \
         all 38 by direct routing, and by NAT the director's processor was half used when its network use collapsed.\n\n{}",
        report
            .charts
            .iter()
            .map(|(path, _)| format!("![{path}]({path})\n"))
            .collect::<String>()
    );
    report
}

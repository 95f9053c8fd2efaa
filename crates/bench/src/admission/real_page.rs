//! Results with the real server: figures, tables, charts.

use super::crowd;
use super::model::policies;
use super::real::{Part, Queue, Real, Run, SECONDS};
use super::world::{Change, Shortage};
use crate::chart::{self, Bar};
use crate::report::{Figure, Report};
use crate::stats::{Spread, at};

/// Adds all results. Parts that were not measured are left out.
pub fn add(report: &mut Report, real: &Real) {
    let runs = &real.runs;
    if runs.is_empty() && real.changes.is_empty() && real.crowds.is_empty() {
        let words = "  no real server was measured: network namespaces need root";
        report.text.push(words.into());
        return;
    }
    let of = |part| -> Vec<&Run> { runs.iter().filter(|run| run.part == part).collect() };
    report.page += "## A real server on a link of 100 Mbit/s\n\nReelway, and viewers over RTSP/UDP in another network \
                    namespace; between them a token bucket filter (TBF) of 100 Mbit/s with a queue of 200 ms. 100 \
                    newcomers arrive within 2 s and begin anywhere in the films. A frame's lateness is its delay \
                    against its time in the film, counted from the stream's first packet on, as a player does; more \
                    than the 2 s that a player buffers is harm. In a storm, p99.9 is against each stream's earliest \
                    packets.\n\n";
    compared(report, &of(Part::Compared));
    storm(report, &of(Part::Storm));
    node(report, &of(Part::Node));
    world(report, &real.changes);
    crowd::add(report, &real.crowds);
}

/// Whether this policy guarantees that no viewer is harmed.
fn is_exact(policy: &str) -> bool {
    policy == "exact" || policy.starts_with("smoothed")
}

fn is_harmless(run: &&Run) -> bool {
    is_exact(&run.policy)
}

fn spread(runs: &[&Run], of: impl Fn(&Run) -> f64) -> Spread {
    Spread::of(runs.iter().map(|run| of(run)).collect())
}

fn harmed(runs: &[&Run]) -> u64 {
    runs.iter().map(|run| run.seen.harmed).sum()
}

fn worst(runs: &[&Run]) -> f64 {
    let latest = runs.iter().map(|run| run.seen.behind_max_ms);
    latest.fold(0.0, f64::max)
}

fn compared(report: &mut Report, runs: &[&Run]) {
    if runs.is_empty() {
        return;
    }
    let exact: Vec<&Run> = runs.iter().copied().filter(is_harmless).collect();
    report.figures.extend([
        Figure::at_most(
            "real link, all runs: viewers harmed, exact and sent ahead",
            harmed(&exact) as f64,
            "",
            0.0,
        ),
        Figure::at_most(
            "real link, all runs: latest frame, exact and sent ahead (a player bears 2 s)",
            worst(&exact),
            "ms",
            2000.0,
        ),
    ]);
    let of = |policy: &str| -> Vec<&Run> {
        runs.iter()
            .copied()
            .filter(|run| run.policy == policy)
            .collect()
    };
    let ahead = of("smoothed:10");
    if !ahead.is_empty() {
        let share = spread(&ahead, |run| 100.0 * run.share);
        let id = "real link: share of it, scenes, sent 10 s ahead";
        let figure = Figure::at_least(id, share.median, "%", 85.0);
        report.figures.push(figure.spread(share.low, share.high));
    }
    let count = of("exact").len();
    report.page += &format!(
        "### All policies\n\nFour films of 1.5 Mbit/s and of scenes, as above, begun at other places in each of {count} runs \
         and judged for {SECONDS} s.\n\n| policy | admitted | link used | harmed | packets lost | latest frame |\n\
         |---|---|---|---|---|---|\n"
    );
    for policy in policies() {
        let name = policy.to_string();
        let runs = of(&name);
        if runs.is_empty() {
            continue;
        }
        let let_in = spread(&runs, |run| f64::from(run.begun.playing));
        let share = spread(&runs, |run| 100.0 * run.share);
        let lost: u64 = runs.iter().map(|run| run.seen.lost).sum();
        report.page += &format!(
            "| {name} | {:.0} ({:.0} – {:.0}) | {:.1} % ({:.1} – {:.1}) | {} | {lost} | {:.1} ms |\n",
            let_in.median,
            let_in.low,
            let_in.high,
            share.median,
            share.low,
            share.high,
            harmed(&runs),
            worst(&runs),
        );
    }
    report.page += "\n![Viewers admitted](admission/real.svg)\n\nViewers and shares: the median, the smallest and \
                    the largest; harmed (viewers who missed packets of the picture, or got some too late) and lost: of all runs \
                    together; the share includes Ethernet's headers, but not the gaps between its frames.\n\n";
}

/// Returns the charts with the names of their files.
pub fn charts(real: &Real) -> Vec<(String, String)> {
    let mut bars = Vec::new();
    for policy in policies() {
        let name = policy.to_string();
        let compared = real.runs.iter().filter(|run| run.part == Part::Compared);
        let runs: Vec<&Run> = compared.filter(|run| run.policy == name).collect();
        if runs.is_empty() {
            continue;
        }
        let let_in = spread(&runs, |run| f64::from(run.begun.playing));
        let harms = harmed(&runs) > 0;
        bars.push(Bar {
            name: if harms {
                format!("{name} (harms)")
            } else {
                name
            },
            value: let_in.median,
            colour: usize::from(harms),
            spread: Some((let_in.low, let_in.high)),
        });
    }
    let title = "Viewers admitted: a real link of 100 Mbit/s";
    let mut charts = vec![("real".to_owned(), chart::bars(title, "viewers", &bars))];
    charts.retain(|_| !bars.is_empty());
    let of_worlds = real.changes.iter();
    charts.extend(of_worlds.map(|change| (change.slug().to_owned(), change.chart())));
    charts.extend(real.crowds.iter().map(crowd::Crowd::chart));
    charts
}

fn storm(report: &mut Report, runs: &[&Run]) {
    let find = |queue, storm: bool| {
        let found = runs
            .iter()
            .find(|run| run.queue == queue && run.storm.is_some() == storm);
        found.copied()
    };
    let mut rows = String::new();
    for (queue, words) in [(Queue::Plain, "one queue"), (Queue::Heeding, "by marks")] {
        let (Some(calm), Some(run)) = (find(queue, false), find(queue, true)) else {
            continue;
        };
        let Some((far, near)) = &run.storm else {
            continue;
        };
        let moved = run.seen.late_p999_ms - calm.seen.late_p999_ms;
        let figure = |what: &str, times: &[f64]| {
            Figure::at_most(
                &format!("storm, {words}: {what}, p99"),
                at(times, 0.99),
                "ms",
                10.0,
            )
        };
        report.figures.push(Figure::at_most(
            &format!("storm, {words}: p99.9 lateness of those who watch moves by"),
            moved.max(0.0),
            "ms",
            1.0,
        ));
        report
            .figures
            .push(figure("from SETUP to its refusal", &far.answer_ms));
        if queue == Queue::Heeding {
            report
                .figures
                .push(figure("from the connection to the refusal", &far.whole_ms));
        } else {
            report.figures.push(figure(
                "from SETUP to its refusal, not over the link",
                &near.answer_ms,
            ));
        }
        let refused = far.answer_ms.len() + near.answer_ms.len();
        report.figures.push(Figure::at_most(
            &format!("storm, {words}: viewers harmed"),
            run.seen.harmed as f64,
            "",
            0.0,
        ));
        for (at_, answered) in [("at the far end", far), ("at the server's end", near)] {
            rows += &format!(
                "| {words} | {at_} | {:.2} ms | {:.2} ms | {:.2} ms | {:.2} ms |\n",
                at(&answered.answer_ms, 0.5),
                at(&answered.answer_ms, 0.99),
                at(&answered.whole_ms, 0.5),
                at(&answered.whole_ms, 0.99),
            );
            if let Some(trouble) = &answered.trouble {
                rows += &format!("\n{} were not answered: {trouble}\n\n", answered.failed);
            }
        }
        report.text.push(format!(
            "  storm, {words}: {} watched, {refused} were refused, {} packets lost; p99.9 lateness {:.1} ms, without the storm {:.1} ms",
            run.begun.playing, run.seen.lost, run.seen.late_p999_ms, calm.seen.late_p999_ms
        ));
    }
    if rows.is_empty() {
        return;
    }
    report.page += &format!(
        "### A storm of newcomers\n\nWith the link as full as exact booking fills it, 620 newcomers come at 200 a second at \
         the link's far end, and then as many at the server's own end of it, whose answers do not pass the link. \
         *One queue*: answers wait behind all viewers' media. *By marks*: the queue before the link follows the \
         marks: answers, media, the rest.\n\n\
         | queue before the link | newcomers | SETUP to refusal, half of them | p99 | connection to refusal, half of \
         them | p99 |\n\
         |---|---|---|---|---|---|\n{rows}\n"
    );
    let words = runs.iter().find_map(|run| run.begun.refused.first());
    if let Some(words) = words {
        report.page += &format!("The answer to a refused newcomer: `{words}`.\n\n");
    }
}

fn node(report: &mut Report, runs: &[&Run]) {
    let exact: Vec<&Run> = runs.iter().copied().filter(is_harmless).collect();
    let Some(most) = exact.iter().max_by_key(|run| run.begun.playing) else {
        return;
    };
    report.figures.push(Figure::at_least(
        "the paper's node for real: clients, none harmed (the paper: 38.5 to 59)",
        f64::from(most.begun.playing),
        "",
        59.0,
    ));
    report.figures.push(Figure::at_most(
        "the paper's node for real: viewers harmed",
        harmed(&exact) as f64,
        "",
        0.0,
    ));
    report.page += "### The VODCA paper's node\n\nTwo films of its GOPs (20 minutes, 1.5 Mbit/s), a link of 100 Mbit/s, and 256 MB \
                    of memory for the server (a control group; page cache included), of which its pool has 96 MiB. 400 newcomers \
                    arrive within 8 s (100 with the paper's rule, which admits all of them).\n\n\
                    | policy | admitted | link used | harmed | latest frame | memory, most \
                    |\n|---|---|---|---|---|---|\n";
    for run in runs {
        let memory = run.memory.map_or("–".to_owned(), |bytes| {
            format!("{:.0} MB", bytes as f64 / 1e6)
        });
        report.page += &format!(
            "| {} | {} | {:.1} % | {} | {:.1} ms | {memory} |\n",
            run.policy,
            run.begun.playing,
            100.0 * run.share,
            run.seen.harmed,
            run.seen.behind_max_ms
        );
    }
    report.page += "\nThe paper served 230 to 232 clients of one film from six such nodes (38.5 a node), and 354 of two films (59); its \
                    rule admits 187 to 201 to a node by memory, and its link carries 66.\n\n";
}

fn world(report: &mut Report, changes: &[Change]) {
    if changes.is_empty() {
        return;
    }
    let seconds =
        |after: Option<f64>| after.map_or("–".to_owned(), |after| format!("{after:.0} s"));
    report.page += "### When the world changes\n\nViewers who report what never came, as players do. The link \
                    carries half of its configured rate for 35 s (TBF); in another run the disks give 4 MB/s instead of 20 (`blkio`, or \
                    `io.max`), with a pool \
                    of 64 MiB.\n\n| what | viewers before | newcomers are refused after | the newest leave after | \
                    viewers at the end | capacity rises again after | full capacity after \
                    |\n|---|---|---|---|---|---|---|\n";
    for change in changes {
        report.page += &format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            match change.what {
                Shortage::Link => "the link, halved",
                Shortage::Disk => "the disks, a fifth",
            },
            change.viewers_before(),
            seconds(change.refused_after()),
            seconds(change.left_after()),
            change.viewers_then(),
            seconds(change.room_after()),
            seconds(change.whole_after()),
        );
    }
    for change in changes {
        report.page += &format!("\n![Over time](admission/{}.svg)\n", change.slug());
    }
    report.page += "\n";
}

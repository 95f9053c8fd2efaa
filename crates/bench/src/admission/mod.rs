//! `reelway bench admission`: as many viewers as possible without harm, and not one more. It
//! compares the policies on the same arrivals, more than a link of 100 Mbit/s carries, and measures
//! the VODCA paper's figure, the most clients of a node.
//!
//! | file | content |
//! |---|---|
//! | `films.rs` | films and arrivals, from a seed |
//! | `model.rs` | the server's own judge and a link on simulated time: fast, and deterministic |
//! | `real.rs`, `real_page.rs` | a real server, viewers and a link of 100 Mbit/s; its page |
//! | `stage.rs`, `task.rs` | the setting of these runs; the tasks of their processes |
//! | `storm.rs` | newcomers, each timed |
//! | `crowd.rs` | forty viewers who press play within a second |
//! | `world.rs`, `watch.rs` | a link that is halved, disks that become slow; their observer |

mod crowd;
mod films;
mod model;
mod real;
mod real_page;
mod stage;
mod storm;
mod task;
mod watch;
mod world;

use anyhow::Context;
use clap::Parser;
use reelway_admission::Policy;
use reelway_determinism::Random;
use serde_json::json;

use self::films::{AHEAD, Film, FilmKind};
use self::model::{Outcome, policies};
use self::task::Task;
use crate::chart::{self, Axis, Bar, Mark, Series};
use crate::report::{Figure, Report};
use crate::stats::Spread;

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench admission",
    about = "Admission to a link of 100 Mbit/s: seven policies on the same arrivals"
)]
struct Args {
    /// Runs of each policy
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seconds in which viewers arrive in a run
    #[arg(long, default_value_t = 3 * 3600, value_parser = clap::value_parser!(u32).range(3600..=36_000))]
    seconds: u32,
    /// Run only the simulation, without starting a server
    #[arg(long)]
    model: bool,
    /// Measure only these parts with a real server [default: all]; the others come from --taken
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "model")]
    parts: Option<Vec<real::Part>>,
    /// Measure only these policies in the part `compared` [default: all]
    #[arg(long, value_delimiter = ',', conflicts_with = "model")]
    policies: Option<Vec<Policy>>,
    /// Earlier runs with a real server, from a file that --json wrote
    #[arg(long, value_name = "FILE")]
    taken: Option<std::path::PathBuf>,
    /// What this process does (the command starts itself with it)
    #[arg(long, hide = true)]
    task: Option<String>,
}

/// Films in a catalogue.
const FILMS: usize = 20;
/// Newcomers per second: with films of half an hour at 1.5 Mbit/s, about twice what the link
/// carries.
const ARRIVALS: f64 = 0.075;

/// The outcomes of all policies on one kind of film, run by run.
struct Compared {
    kind: FilmKind,
    runs: Vec<(Policy, Vec<Outcome>)>,
    /// Viewers admitted by the exact policies, and by the naive booker.
    naive: (usize, usize),
    bounds: Vec<f64>,
    /// Smallest and largest ratio of a film's peak second to its mean.
    peaks: (f64, f64),
}

fn compare(kind: FilmKind, args: &Args) -> Compared {
    let seconds = args.seconds as usize;
    let mut compared = Compared {
        kind,
        runs: policies()
            .into_iter()
            .map(|policy| (policy, Vec::new()))
            .collect(),
        naive: (0, 0),
        bounds: Vec::new(),
        peaks: (f64::INFINITY, 0.0),
    };
    for run in 0..args.runs {
        let mut random = Random::new(u64::from(run) + 1);
        let films = films::make(kind, FILMS, &mut random);
        let arrivals = films::arrivals(FILMS, ARRIVALS, f64::from(args.seconds), &mut random);
        for film in &films {
            let ratio = f64::from(film.curve.peak()) / f64::from(film.curve.mean());
            compared.peaks = (compared.peaks.0.min(ratio), compared.peaks.1.max(ratio));
        }
        for (policy, outcomes) in &mut compared.runs {
            let outcome = model::run(*policy, &films, &arrivals, seconds);
            if matches!(policy, Policy::Exact | Policy::Smoothed(_)) {
                let smoothed = *policy != Policy::Exact;
                compared.naive.0 += outcome.admitted;
                compared.naive.1 += model::naive(smoothed, &films, &arrivals, seconds);
            }
            outcomes.push(outcome);
        }
        compared
            .bounds
            .push(model::bound(&films, &arrivals, seconds));
    }
    compared
}

impl Compared {
    fn of(&self, policy: Policy) -> &[Outcome] {
        let found = self.runs.iter().find(|(of, _)| *of == policy);
        found.map_or(&[], |(_, outcomes)| outcomes)
    }
}

fn spread(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> Spread {
    Spread::of(outcomes.iter().map(of).collect())
}

fn sum(outcomes: &[Outcome], of: impl Fn(&Outcome) -> usize) -> usize {
    outcomes.iter().map(of).sum()
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let name = "reelway bench admission".to_owned();
    let args = Args::parse_from(std::iter::once(name).chain(args.iter().cloned()));
    if let Some(task) = &args.task {
        match serde_json::from_str(task).context("--task")? {
            Task::Storm(task) => storm::work(&task)?,
            Task::Watch(task) => watch::work(&task)?,
        }
        std::process::exit(0);
    }
    let kinds = [FilmKind::Constant, FilmKind::Scenes, FilmKind::Vodca];
    let all: Vec<Compared> = kinds.map(|kind| compare(kind, &args)).into();
    let mut report = Report::new("admission");
    figures(&mut report, &all);
    report.page += &pages(&all);
    let mut drawn = charts(&all);
    if !args.model {
        let real = real_runs(&args)?;
        real_page::add(&mut report, &real);
        drawn.extend(real_page::charts(&real));
        report
            .details
            .insert("real".into(), serde_json::to_value(&real)?);
    }
    report.charts = drawn
        .into_iter()
        .map(|(name, chart)| (format!("admission/{name}.svg"), chart))
        .collect();
    let details = all.iter().map(|compared| {
        let runs = compared.runs.iter().map(|(policy, outcomes)| {
            json!({"policy": policy.to_string(), "runs": outcomes})
        });
        json!({"films": compared.kind.name(), "bounds": compared.bounds, "policies": runs.collect::<Vec<_>>()})
    });
    report.details.insert("compared".into(), details.collect());
    Ok(report)
}

/// Returns the runs with a real server, new and earlier ones.
fn real_runs(args: &Args) -> anyhow::Result<real::Real> {
    use clap::ValueEnum;
    let parts = args
        .parts
        .clone()
        .unwrap_or_else(|| real::Part::value_variants().to_vec());
    let mut real: real::Real = match &args.taken {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let mut before: serde_json::Value = serde_json::from_str(&text)?;
            serde_json::from_value(before["real"].take())
                .with_context(|| path.display().to_string())?
        }
        None => real::Real::default(),
    };
    let of = args.policies.clone().unwrap_or_else(policies);
    real.add(&parts, &of, args.runs)?;
    Ok(real)
}

fn figures(report: &mut Report, all: &[Compared]) {
    let smoothed = Policy::Smoothed(AHEAD as u32);
    let [constant, scenes, vodca] = all else {
        return;
    };
    let (admitted, naive) = all.iter().fold((0, 0), |sum, compared| {
        (sum.0 + compared.naive.0, sum.1 + compared.naive.1)
    });
    let share = 100.0 * admitted as f64 / naive.max(1) as f64;
    let mut figures = vec![Figure::at_least(
        "admitted, of a naive exact booker's",
        share,
        "%",
        97.0,
    )];
    for (id, compared, policy, must) in [
        (
            "link carried, near constant rate",
            constant,
            Policy::Exact,
            95.0,
        ),
        (
            "link carried, scenes, sent 10 s ahead",
            scenes,
            smoothed,
            85.0,
        ),
    ] {
        let of = spread(compared.of(policy), |outcome| 100.0 * outcome.share);
        figures.push(Figure::at_least(id, of.median, "%", must).spread(of.low, of.high));
        let bound = 100.0 * Spread::of(compared.bounds.clone()).median;
        report.text.push(format!(
            "  {id}: no admission could have carried more than {bound:.1} %"
        ));
    }
    let peak = sum(scenes.of(Policy::Peak), |outcome| outcome.admitted);
    let gain =
        |policy| sum(scenes.of(policy), |outcome| outcome.admitted) as f64 / peak.max(1) as f64;
    figures.push(Figure::at_least(
        "viewers against peak rate, scenes, sent 10 s ahead",
        gain(smoothed),
        "×",
        2.5,
    ));
    report.text.push(format!(
        "  viewers against peak rate, scenes: exact {:.2} ×, mean rate {:.2} × (with harm)",
        gain(Policy::Exact),
        gain(Policy::Mean)
    ));
    let harmed: usize = all
        .iter()
        .flat_map(|compared| [compared.of(Policy::Exact), compared.of(smoothed)])
        .map(|outcomes| sum(outcomes, |outcome| outcome.harmed))
        .sum();
    figures.push(Figure::at_most(
        "harmed viewers, exact and sent ahead",
        harmed as f64,
        "",
        0.0,
    ));
    let mut random = Random::new(1);
    let films: Vec<Film> = films::make(FilmKind::Scenes, 1, &mut random);
    let decisions = model::decisions(10_000, &films);
    figures.push(Figure::at_least(
        "decisions a second, 10,000 booked",
        decisions,
        "/s",
        100_000.0,
    ));
    let of = spread(vodca.of(smoothed), |outcome| outcome.most as f64);
    // Groups of six nodes: 230 to 232 clients of one film, 354.1 of two in two groups of three.
    figures.push(
        Figure::at_least(
            "the paper's films: most clients on one node (the paper: 38.5 to 59)",
            of.median,
            "",
            59.0,
        )
        .spread(of.low, of.high),
    );
    let rule = model::MEMORY / (2 * 252_900);
    report.text.push(format!(
        "  the paper's rule admits {rule} to such a node by memory (at 1.3 to 1.5 MB a stream, as it measured, 187 to 201); \
         its link carries 66"
    ));
    report.figures = figures;
}

/// Returns a section with a table for each kind of film.
fn pages(all: &[Compared]) -> String {
    let mut page = String::new();
    for compared in all {
        let (low, high) = compared.peaks;
        page += &format!(
            "## {}\n\nFilms of 20 to 40 minutes, 1.5 Mbit/s on the wire; their fullest second needs {low:.1} to {high:.1} times \
             the mean.\n\n![Share of the link](admission/{}.svg)\n\n\
             | policy | link carried | viewers admitted | at once, most | harmed | wrongly refused |\n|---|---|---|---|---|---|\n",
            capital(compared.kind.name()),
            compared.kind.slug()
        );
        for (policy, outcomes) in &compared.runs {
            let share = spread(outcomes, |outcome| 100.0 * outcome.share);
            let admitted = spread(outcomes, |outcome| outcome.admitted as f64);
            let most = spread(outcomes, |outcome| outcome.most as f64);
            page += &format!(
                "| {policy} | {:.1} % ({:.1} – {:.1}) | {:.0} ({:.0} – {:.0}) | {:.0} | {} | {} |\n",
                share.median,
                share.low,
                share.high,
                admitted.median,
                admitted.low,
                admitted.high,
                most.median,
                sum(outcomes, |outcome| outcome.harmed),
                sum(outcomes, |outcome| outcome.wrong),
            );
        }
        if compared.kind == FilmKind::Scenes {
            page += "\n![Viewers admitted](admission/admitted.svg)\n";
        }
        page += &format!(
            "\nNo admission policy could have carried more than {:.1} % with these arrivals. Shares and viewers: the \
             median of {} runs \
             with the smallest and the largest; harmed and wrongly refused: of all runs together.\n\n",
            100.0 * Spread::of(compared.bounds.clone()).median,
            compared.bounds.len()
        );
    }
    page
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn charts(all: &[Compared]) -> Vec<(String, String)> {
    let mut charts = Vec::new();
    for compared in all {
        let shown = [
            Policy::Peak,
            Policy::Exact,
            Policy::Smoothed(AHEAD as u32),
            Policy::Everybody,
        ];
        let series = shown.iter().enumerate().filter_map(|(colour, policy)| {
            let first = compared.of(*policy).first()?;
            let minutes = first.minutes.iter().enumerate();
            Some(Series {
                name: policy.to_string(),
                mark: if *policy == Policy::Everybody {
                    Mark::Dashed
                } else {
                    Mark::Line
                },
                colour,
                points: minutes
                    .map(|(minute, share)| (minute as f64, 100.0 * share))
                    .collect(),
            })
        });
        let series: Vec<Series> = series.collect();
        let last = series
            .iter()
            .map(|series| series.points.len())
            .max()
            .unwrap_or(1);
        let x = Axis::linear("minutes", 0.0, last as f64);
        let y = Axis::linear("% of the link asked for", 0.0, 220.0);
        let title = format!("Load of a 100 Mbit/s link: {}", compared.kind.name());
        charts.push((
            compared.kind.slug().to_owned(),
            chart::lines(&title, &x, &y, &series),
        ));
    }
    let Some(scenes) = all.get(1) else {
        return charts;
    };
    let bars: Vec<Bar> = scenes
        .runs
        .iter()
        .map(|(policy, outcomes)| {
            let admitted = spread(outcomes, |outcome| outcome.admitted as f64);
            let harmed = sum(outcomes, |outcome| outcome.harmed);
            Bar {
                name: if harmed == 0 {
                    policy.to_string()
                } else {
                    format!("{policy} (harms)")
                },
                value: admitted.median,
                colour: if harmed == 0 { 0 } else { 1 },
                spread: Some((admitted.low, admitted.high)),
            }
        })
        .collect();
    charts.push((
        "admitted".into(),
        chart::bars("Viewers admitted: scenes", "viewers", &bars),
    ));
    charts
}

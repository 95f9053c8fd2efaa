//! Reports of experiments: one structure for people and for machines.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::stamp;

/// A measured figure, and its goal if it has one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Short name, stable across versions.
    pub id: String,
    /// The measured value (the median of several runs).
    pub value: f64,
    /// Unit of the value.
    pub unit: String,
    /// The goal as text, such as "≤ 20"; empty if it has none.
    pub must: String,
    /// Whether the goal was met; `None` without a goal.
    pub met: Option<bool>,
    /// Smallest and largest of the runs.
    pub spread: Option<(f64, f64)>,
}

impl Figure {
    /// Creates a figure that must not be greater than `most`.
    pub fn at_most(id: &str, value: f64, unit: &str, most: f64) -> Figure {
        Figure {
            must: format!("≤ {most}"),
            met: Some(value <= most),
            ..Figure::without_goal(id, value, unit)
        }
    }

    /// Creates a figure that must not be less than `least`.
    pub fn at_least(id: &str, value: f64, unit: &str, least: f64) -> Figure {
        Figure {
            must: format!("≥ {least}"),
            met: Some(value >= least),
            ..Figure::without_goal(id, value, unit)
        }
    }

    /// Creates a figure without a goal, such as the maximum beside a percentile that has one.
    pub fn without_goal(id: &str, value: f64, unit: &str) -> Figure {
        Figure {
            id: id.into(),
            value,
            unit: unit.into(),
            must: String::new(),
            met: None,
            spread: None,
        }
    }

    /// Adds the smallest and largest value of the runs.
    pub fn spread(mut self, low: f64, high: f64) -> Figure {
        self.spread = Some((low, high));
        self
    }

    /// Whether it is further from the goal than `other`, whose goal is of the same kind.
    fn is_worse_than(&self, other: &Figure) -> bool {
        match self.must.chars().next() {
            Some('≤') => self.value > other.value,
            Some('≥') => self.value < other.value,
            _ => false,
        }
    }

    /// Returns the figure with the goal of another run.
    fn held_against(&self, other: &Figure) -> Figure {
        let met = match self.must == other.must {
            true => self.met,
            false => other.goal().map(|(is_most, goal)| match is_most {
                true => self.value <= goal,
                false => self.value >= goal,
            }),
        };
        Figure {
            must: other.must.clone(),
            met,
            ..self.clone()
        }
    }

    /// Returns whether its goal is an upper bound, and the goal.
    fn goal(&self) -> Option<(bool, f64)> {
        let (sign, goal) = self.must.split_once(' ')?;
        Some((sign == "≤", goal.parse().ok()?))
    }

    /// Whether it has a goal and missed it.
    pub fn is_missed(&self) -> bool {
        self.met == Some(false)
    }

    /// Returns "met", "**missed**", or an empty string if it has no goal.
    pub(crate) fn mark(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "**missed**",
            None => "",
        }
    }
}

/// Where, when and how figures were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// Name of the page: the experiment, or a part of it with its own page.
    pub bench: String,
    /// Processor, cores, memory, kernel.
    pub machine: String,
    /// When the report was made, RFC 3339 in UTC.
    pub when: String,
    /// The command that measures it, with its scheduling priority.
    pub command: String,
    /// The commit that was measured; `None` if it is not known.
    pub commit: Option<String>,
    /// Duration of the experiment in seconds; `None` if it was not recorded.
    pub seconds: Option<f64>,
}

impl Stamp {
    /// "`command` on machine, date, commit."
    fn line(&self) -> String {
        format!(
            "`{}` on {}, {}, {}.",
            self.command,
            self.machine,
            self.when,
            self.commit()
        )
    }

    /// Returns the commit as text.
    pub(crate) fn commit(&self) -> String {
        match &self.commit {
            Some(commit) => format!("commit {commit}"),
            None => "commit not recorded".to_owned(),
        }
    }

    /// Returns the day of the measurement.
    pub(crate) fn day(&self) -> &str {
        self.when.split('T').next().unwrap_or_default()
    }

    /// Returns the machine's processor, by which machines are distinguished.
    pub(crate) fn processor(&self) -> String {
        let name = self.machine.split(',').next().unwrap_or_default();
        name.replace("(R)", "").replace(" Processor", "")
    }
}

/// The results of an experiment that are kept beside its page, in DIR/NAME.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Where, when and how.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// The figures.
    pub figures: Vec<Figure>,
    /// The last runs on other machines, the newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<Kept>,
}

impl Kept {
    /// Returns the first part of its page, below the title and the note: the figures beside their
    /// goals.
    pub fn head(&self) -> String {
        table(&self.figures)
    }

    /// Returns all runs, each on another machine; this one first.
    pub fn runs(&self) -> impl Iterator<Item = &Kept> {
        std::iter::once(self).chain(&self.elsewhere)
    }

    /// Returns what is kept after another run: the last run on each machine.
    pub(crate) fn followed_by(self, mut newest: Kept) -> Kept {
        let Kept { elsewhere, .. } = &self;
        let others = elsewhere.clone();
        let before = std::iter::once(Kept {
            elsewhere: Vec::new(),
            ..self
        });
        let is_of_another = |kept: &Kept| kept.stamp.processor() != newest.stamp.processor();
        newest.elsewhere = before.chain(others).filter(is_of_another).collect();
        newest
    }

    /// Returns a figure that may be claimed: from the machine where it is worst, with that
    /// machine's run, compared with the newest goal. A figure without a goal is the newest.
    pub(crate) fn claimed(&self, id: &str) -> Option<(&Kept, Figure)> {
        let newest = self.figures.iter().find(|figure| figure.id == id)?;
        let runs = self.runs().filter_map(|run| {
            let figure = run.figures.iter().find(|figure| figure.id == id)?;
            Some((run, figure.held_against(newest)))
        });
        runs.reduce(|worst, other| match other.1.is_worse_than(&worst.1) {
            true => other,
            false => worst,
        })
    }
}

/// The outcome of one experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Where, when and how.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// One figure for each goal, and related figures.
    pub figures: Vec<Figure>,
    /// Everything else that was measured, by experiment.
    #[serde(flatten)]
    pub details: Map<String, Value>,
    /// Lines of text for people, below the figures.
    #[serde(skip)]
    pub text: Vec<String>,
    /// Title of the page; if empty, the name of the experiment.
    #[serde(skip)]
    pub title: String,
    /// Notes on the measurement, after the command on the page.
    #[serde(skip)]
    pub note: String,
    /// Tables for the page, as Markdown.
    #[serde(skip)]
    pub page: String,
    /// The last runs on other machines, kept beside the page.
    #[serde(skip)]
    pub elsewhere: Vec<Kept>,
    /// Charts on the page: their paths relative to it, and the SVG.
    #[serde(skip)]
    pub charts: Vec<(String, String)>,
}

impl Report {
    /// Creates an empty report of the experiment `bench`, with this machine and the current time.
    pub fn new(bench: &str) -> Report {
        Report {
            stamp: Stamp {
                bench: bench.into(),
                machine: stamp::machine(),
                when: reelway_clock::real().to_string(),
                command: stamp::command(),
                commit: None,
                seconds: None,
            },
            figures: Vec::new(),
            details: Map::new(),
            text: Vec::new(),
            title: String::new(),
            note: String::new(),
            page: String::new(),
            elsewhere: Vec::new(),
            charts: Vec::new(),
        }
    }

    /// Returns the results that are kept beside its page.
    pub fn kept(&self) -> Kept {
        Kept {
            stamp: self.stamp.clone(),
            figures: self.figures.clone(),
            elsewhere: self.elsewhere.clone(),
        }
    }

    /// Returns the page of this experiment.
    pub fn markdown(&self) -> String {
        let title = match self.title.as_str() {
            "" => &self.stamp.bench,
            title => title,
        };
        let mut page = format!(
            "# {title}\n\n<!-- Written by the command below: edits are lost at its next run. -->\n\n{}\n\n{}",
            [self.stamp.line(), self.note.clone()].join(" ").trim(),
            table(&self.figures)
        );
        if !self.text.is_empty() {
            page += "\n";
        }
        for line in &self.text {
            page += &format!("    {}\n", line.trim());
        }
        if !self.page.is_empty() {
            page += &format!("\n{}", self.page);
        }
        for other in &self.elsewhere {
            page += &format!(
                "\n## On another machine\n\n{}\n\n{}",
                other.stamp.line(),
                other.head()
            );
        }
        page
    }

    /// Whether every goal was met.
    pub fn all_met(&self) -> bool {
        !self.figures.iter().any(Figure::is_missed)
    }
}

/// Returns figures beside their goals as a Markdown table; an empty string without figures.
pub(crate) fn table(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let mut table = "| figure | value | goal | |\n|---|---:|---|---|\n".to_owned();
    for figure in figures {
        let spread = figure
            .spread
            .map(|(low, high)| format!(" ({low:.3} – {high:.3})"));
        table += &format!(
            "| {} | {:.3} {}{} | {} | {} |\n",
            figure.id.replace('_', " "),
            figure.value,
            figure.unit,
            spread.unwrap_or_default(),
            figure.must,
            figure.mark()
        );
    }
    table
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.stamp.bench, self.stamp.machine)?;
        let width = self
            .figures
            .iter()
            .map(|figure| figure.id.chars().count())
            .max()
            .unwrap_or(0);
        for figure in &self.figures {
            write!(
                f,
                "  {:<width$}  {:>12.3} {:<8}",
                figure.id, figure.value, figure.unit
            )?;
            if let Some(met) = figure.met {
                let mark = if met { "met " } else { "MISSED" };
                write!(f, " goal {:<10} {mark}", figure.must)?;
            }
            if let Some((low, high)) = figure.spread {
                write!(f, "  ({low:.3} – {high:.3})")?;
            }
            writeln!(f)?;
        }
        for line in &self.text {
            writeln!(f, "{line}")?;
        }
        // If there is no text that summarises the page's tables, they are shown themselves.
        let rows = self
            .page
            .lines()
            .filter(|line| self.text.is_empty() && line.starts_with('|'));
        for row in rows.filter(|row| !row.starts_with("|---")) {
            writeln!(f, "  {}", row.trim_matches(['|', ' ']))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a run on a machine with this processor, on this day.
    fn run(processor: &str, when: &str, figure: Figure) -> Kept {
        let mut report = Report::new("page");
        report.stamp.machine = format!("{processor}, 2 cores");
        report.stamp.when = when.to_owned();
        report.figures = vec![figure];
        report.kept()
    }

    #[test]
    fn the_last_run_on_each_machine_is_kept_and_the_worst_is_claimed() {
        let at_most = |value| Figure::at_most("cost", value, "µs", 5.0);
        let first = run("AMD EPYC", "2026-11-01", at_most(6.0));
        let second = run("Intel(R) Xeon(R) Processor", "2026-11-02", at_most(4.0));
        let third = run("AMD EPYC", "2026-11-03", at_most(3.0));
        let two = first.followed_by(second);
        assert_eq!(two.runs().count(), 2);
        let (worst, figure) = two.claimed("cost").unwrap();
        assert_eq!(
            (worst.stamp.processor(), figure.value),
            ("AMD EPYC".into(), 6.0)
        );
        let kept = two.followed_by(third);
        let days: Vec<&str> = kept.runs().map(|run| run.stamp.day()).collect();
        assert_eq!(days, ["2026-11-03", "2026-11-02"]);
        let (worst, figure) = kept.claimed("cost").unwrap();
        assert_eq!(
            (worst.stamp.processor(), figure.value),
            ("Intel Xeon".into(), 4.0)
        );
    }

    #[test]
    fn of_what_shall_be_large_the_least_is_claimed_and_without_a_goal_the_newest() {
        let at_least = |value| Figure::at_least("streams", value, "", 5.0);
        let before = run("a", "2026-11-01", at_least(3.0));
        let kept = before.followed_by(run("b", "2026-11-02", at_least(4.0)));
        assert_eq!(kept.claimed("streams").unwrap().1.value, 3.0);
        let free = |value| Figure::without_goal("streams", value, "");
        let before = run("a", "2026-11-01", free(3.0));
        let kept = before.followed_by(run("b", "2026-11-02", free(4.0)));
        assert_eq!(kept.claimed("streams").unwrap().1.value, 4.0);
        assert!(kept.claimed("others").is_none());
    }

    #[test]
    fn a_run_that_was_held_against_another_goal_is_held_against_the_newest() {
        for (goal, is_met) in [(10.0, true), (8.0, false)] {
            let before = run("a", "2026-11-01", Figure::at_most("cost", 9.0, "", 9.5));
            let now = run("b", "2026-11-02", Figure::at_most("cost", 4.0, "", goal));
            let kept = before.followed_by(now);
            let figure = kept.claimed("cost").unwrap().1;
            assert_eq!((figure.value, figure.met), (9.0, Some(is_met)));
            assert_eq!(figure.must, format!("≤ {goal}"));
        }
    }
}

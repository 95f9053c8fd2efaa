//! What an experiment reports: the same shape for people and for machines.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

/// A measured figure held against its goal.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Short name, stable over versions.
    pub id: String,
    /// What was measured (a median where there were several runs).
    pub value: f64,
    /// Unit of value.
    pub unit: String,
    /// The goal in words, such as "≤ 20".
    pub must: String,
    /// Whether it was reached.
    pub met: bool,
    /// Smallest and largest of the runs.
    pub spread: Option<(f64, f64)>,
}

impl Figure {
    /// A figure that must not be greater than `most`.
    pub fn at_most(id: &str, value: f64, unit: &str, most: f64) -> Figure {
        let must = format!("≤ {most}");
        Figure {
            id: id.into(),
            value,
            unit: unit.into(),
            must,
            met: value <= most,
            spread: None,
        }
    }

    /// A figure that must not be less than `least`.
    pub fn at_least(id: &str, value: f64, unit: &str, least: f64) -> Figure {
        let must = format!("≥ {least}");
        Figure {
            id: id.into(),
            value,
            unit: unit.into(),
            must,
            met: value >= least,
            spread: None,
        }
    }

    /// With the smallest and largest value seen.
    pub fn spread(mut self, low: f64, high: f64) -> Figure {
        self.spread = Some((low, high));
        self
    }
}

/// The outcome of one experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the experiment.
    pub bench: String,
    /// Processor, cores, memory, kernel.
    pub machine: String,
    /// When it ended, RFC 3339 in UTC.
    pub when: String,
    /// The command that gives it.
    pub command: String,
    /// One figure for each goal.
    pub figures: Vec<Figure>,
    /// Everything else that was measured, by experiment.
    #[serde(flatten)]
    pub details: Map<String, Value>,
    /// Lines for people, below the figures.
    #[serde(skip)]
    pub text: Vec<String>,
    /// Tables and pictures for the page of results, as Markdown.
    #[serde(skip)]
    pub page: String,
}

impl Report {
    /// An empty report of the experiment `bench`, of this machine and moment.
    pub fn new(bench: &str) -> Report {
        Report {
            bench: bench.into(),
            machine: machine(),
            when: reelway_clock::real().to_string(),
            command: std::iter::once("reelway".to_owned())
                .chain(std::env::args().skip(1))
                .collect::<Vec<_>>()
                .join(" "),
            figures: Vec::new(),
            details: Map::new(),
            text: Vec::new(),
            page: String::new(),
        }
    }

    /// The page that docs/benchmarks keeps of this experiment.
    pub fn markdown(&self) -> String {
        let mut page = format!(
            "# {}\n\n`{}` on {}, {}.\n\n{}\n",
            self.bench,
            self.command,
            self.machine,
            self.when,
            self.table()
        );
        for line in &self.text {
            page += &format!("    {}\n", line.trim());
        }
        page + "\n" + &self.page
    }

    /// Its figures beside what they must be, as Markdown; nothing where there are none.
    pub fn table(&self) -> String {
        if self.figures.is_empty() {
            return String::new();
        }
        let mut table = "| figure | value | must | |\n|---|---:|---|---|\n".to_owned();
        for figure in &self.figures {
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
                if figure.met { "met" } else { "**missed**" }
            );
        }
        table
    }

    /// Whether every goal was reached.
    pub fn all_met(&self) -> bool {
        self.figures.iter().all(|figure| figure.met)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {}", self.bench, self.machine)?;
        let width = self
            .figures
            .iter()
            .map(|figure| figure.id.chars().count())
            .max()
            .unwrap_or(0);
        for figure in &self.figures {
            let mark = if figure.met { "met " } else { "MISSED" };
            write!(
                f,
                "  {:<width$}  {:>12.3} {:<8} must {:<10} {mark}",
                figure.id, figure.value, figure.unit, figure.must
            )?;
            if let Some((low, high)) = figure.spread {
                write!(f, "  ({low:.3} – {high:.3})")?;
            }
            writeln!(f)?;
        }
        for line in &self.text {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

/// Processor, cores, memory and kernel, as the system shows them.
fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    let processor = field(&read("/proc/cpuinfo"), "model name")
        .unwrap_or_else(|| std::env::consts::ARCH.into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&read("/proc/meminfo"), "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{processor}, {cores} cores, {} GiB, Linux {}",
        memory.unwrap_or(0) >> 20,
        kernel.trim()
    )
}

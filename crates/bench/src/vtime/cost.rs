//! The cost of a reading: means of a million calls, four times, and ratios of ways measured in
//! turns.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Serialize;

use super::args::Args;
use super::tools::Tools;
use crate::stats::Spread;

/// Costs of ways and ratios of pairs, one value per run.
#[derive(Debug, Default, Serialize)]
pub struct Costs {
    /// Nanoseconds per call, the mean over a run.
    pub means: BTreeMap<String, Vec<f64>>,
    /// Our cost divided by theirs, the median over a run's turns.
    pub ratios: BTreeMap<String, Vec<f64>>,
}

impl Costs {
    /// Returns the nanoseconds per call over the runs.
    pub fn mean(&self, way: &str) -> Spread {
        Spread::of(self.means.get(way).cloned().unwrap_or_default())
    }

    /// Returns the ratio of a pair over the runs.
    pub fn ratio(&self, pair: &str) -> Spread {
        Spread::of(self.ratios.get(pair).cloned().unwrap_or_default())
    }

    /// Parses lines of `mean RUN NAME VALUE` and `ratio RUN NAME VALUE`.
    fn parse(text: &str) -> Costs {
        let mut costs = Costs::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [kind, _, name, value] = words[..] else {
                continue;
            };
            let (Ok(value), name) = (value.parse(), name.to_owned()) else {
                continue;
            };
            match kind {
                "mean" => costs.means.entry(name).or_default().push(value),
                "ratio" => costs.ratios.entry(name).or_default().push(value),
                _ => {}
            }
        }
        costs
    }
}

/// Runs a program that must succeed; returns its output.
pub fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {error}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Measures calls in a C program with the preload library.
pub fn in_c(tools: &Tools, args: &Args, order: &str) -> anyhow::Result<Costs> {
    let mut command = Command::new(&tools.cost);
    command
        .args([args.calls.to_string(), args.runs.to_string()])
        .env("LD_PRELOAD", &tools.library)
        .env("REELWAY_CLOCK_ORDER", order);
    Ok(Costs::parse(&said(&mut command)?))
}

/// Measures calls of our library and of others.
pub fn of_libraries(tools: &Tools, args: &Args) -> anyhow::Result<Costs> {
    let mut command = Command::new(&tools.peers);
    command.args(["cost", &args.calls.to_string(), &args.runs.to_string()]);
    Ok(Costs::parse(&said(&mut command)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_runs_come_together() {
        let costs = Costs::parse(
            "mean 0 now 20.5\nratio 0 now 0.9\nmean 1 now 21.5\nnoise\nratio 1 now 0.8\nratio 2 now 0.7\n",
        );
        assert_eq!(costs.means["now"], [20.5, 21.5]);
        assert_eq!(
            costs.ratio("now"),
            Spread {
                low: 0.7,
                median: 0.8,
                high: 0.9
            }
        );
        assert!(costs.mean("unknown").median.is_nan());
    }
}

//! What a reading costs: means of a million calls, four times, and ratios of ways that took turns.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Serialize;

use super::args::Args;
use super::tools::Tools;
use crate::stats::Spread;

/// Costs of ways and ratios of pairs, a value a run.
#[derive(Debug, Default, Serialize)]
pub struct Costs {
    /// Nanoseconds a call, the mean of all calls of a run.
    pub means: BTreeMap<String, Vec<f64>>,
    /// The median over a run's turns of ours divided by theirs.
    pub ratios: BTreeMap<String, Vec<f64>>,
}

impl Costs {
    /// Nanoseconds a call over the runs.
    pub fn mean(&self, way: &str) -> Spread {
        Spread::of(self.means.get(way).cloned().unwrap_or_default())
    }

    /// The ratio of a pair over the runs.
    pub fn ratio(&self, pair: &str) -> Spread {
        Spread::of(self.ratios.get(pair).cloned().unwrap_or_default())
    }

    /// Reads lines of `mean RUN NAME VALUE` and `ratio RUN NAME VALUE`.
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

/// Runs a program to its good end; what it says.
pub fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {error}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A C program under the preload library.
pub fn in_c(tools: &Tools, args: &Args, order: &str) -> anyhow::Result<Costs> {
    let mut command = Command::new(&tools.cost);
    command
        .args([args.calls.to_string(), args.runs.to_string()])
        .env("LD_PRELOAD", &tools.library)
        .env("REELWAY_CLOCK_ORDER", order);
    Ok(Costs::parse(&said(&mut command)?))
}

/// Library calls: ours and others'.
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

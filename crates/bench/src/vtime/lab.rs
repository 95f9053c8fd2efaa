//! Measurements that need another kernel: clock sources without a vDSO, in instructions, and
//! slewing.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use crate::bed::{Child, Folder};

/// A clock source for which the vDSO must enter the kernel.
#[derive(Debug, Serialize)]
pub struct Source {
    /// Name of the clock source.
    pub name: String,
    /// Function, and instructions per call: the kernel's and ours.
    pub costs: Vec<(String, f64, f64)>,
}

/// Absolute deviations from the kernel's clock while that is slewed, nanoseconds.
#[derive(Debug, Serialize)]
pub struct Slewed {
    /// Name of the clock.
    pub clock: String,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
    /// The line that the test printed.
    pub line: String,
}

/// Runs the lab's tests of the clock with its command.
pub fn measure(command: &str) -> anyhow::Result<(Vec<Source>, Vec<Slewed>)> {
    if !Path::new(command).is_file() {
        bail!("{command} is not there: start this in the repository, or give --lab none");
    }
    let folder = Folder::make("vtime-lab")?;
    let read = |test: &str, name: &str| -> anyhow::Result<String> {
        let mut lab = Command::new(command);
        lab.arg(test)
            .env("LAB_RESULTS", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if !Child::spawn(&mut lab)?.end()?.success() {
            // A missed goal fails the test, too, but its figures are still written.
            eprintln!("vtime: {command} {test} has failed");
        }
        let path = folder.path().join(test).join(name);
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let mut sources = Vec::new();
    for (name, test) in [("hpet", "clock-hpet"), ("acpi_pm", "clock-acpi-pm")] {
        let costs = costs(&read(test, "costs")?);
        ensure!(!costs.is_empty(), "{command} {test} tells no costs");
        sources.push(Source {
            name: name.into(),
            costs,
        });
    }
    let slewed = slewed(&read("clock-slew", "output")?);
    ensure!(!slewed.is_empty(), "{command} clock-slew tells no errors");
    Ok((sources, slewed))
}

/// Parses pairs of `kernel-FUNCTION N` and `ours-FUNCTION N`.
fn costs(text: &str) -> Vec<(String, f64, f64)> {
    let find = |name: &str| -> Option<f64> {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    ["clock_gettime", "gettimeofday"]
        .into_iter()
        .filter_map(|function| {
            let kernel = find(&format!("kernel-{function} "))?;
            Some((
                function.to_owned(),
                kernel,
                find(&format!("ours-{function} "))?,
            ))
        })
        .collect()
}

/// Parses the lines after "500 ppm:": `CLOCK: error p50 …, p99 …, p99.9 N, maximum N ns; …`.
fn slewed(text: &str) -> Vec<Slewed> {
    let text = text.split_once("500 ppm:").map_or("", |(_, after)| after);
    text.lines()
        .filter_map(|line| {
            let (clock, rest) = line.split_once(": error ")?;
            let number = |name: &str| -> Option<u64> {
                let (_, after) = rest.split_once(name)?;
                after
                    .split(|c: char| !c.is_ascii_digit())
                    .next()?
                    .parse()
                    .ok()
            };
            Some(Slewed {
                clock: clock.to_owned(),
                p999: number("p99.9 ")?,
                max: number("maximum ")?,
                line: line.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_lines_are_understood() {
        let found =
            costs("kernel-clock_gettime 524.6\nours-clock_gettime 58.9\nkernel-gettimeofday 1\n");
        assert_eq!(found, [("clock_gettime".to_owned(), 524.6, 58.9)]);
        let found = slewed(
            "monotonic: error p50 1, p99 2, p99.9 3, maximum 4 ns; a\n500 ppm:\n\
             real: error p50 11, p99 354, p99.9 485, maximum 1476 ns; 8000000 readings\n",
        );
        assert_eq!((found.len(), found[0].p999, found[0].max), (1, 485, 1476));
        assert_eq!(found[0].clock, "real");
    }
}

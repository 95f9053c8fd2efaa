//! How far clocks drift from the kernel's over minutes.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use reelway_sys::children::end_with_parent;
use serde::Serialize;

use super::tools::Tools;

/// Results of the drift measurement.
#[derive(Debug, Default, Serialize)]
pub struct Drift {
    /// By clock: seconds since the start, and nanoseconds ahead of the kernel's clock.
    pub clocks: BTreeMap<String, Vec<(f64, f64)>>,
    /// Other libraries that have silently fallen back to a coarse clock.
    pub fallen_back: Vec<String>,
}

impl Drift {
    /// Returns a clock's largest deviation in nanoseconds, and its drift at the end in parts per
    /// million.
    pub fn of(&self, clock: &str) -> (f64, f64) {
        let points = self
            .clocks
            .get(clock)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let most = points.iter().map(|point| point.1.abs()).fold(0.0, f64::max);
        let ppm = points
            .last()
            .map_or(0.0, |(seconds, nanos)| nanos / seconds / 1e3);
        (most, ppm)
    }

    fn parse(text: &str) -> Drift {
        let mut drift = Drift::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["drift", seconds, clock, nanos] => {
                    if let (Ok(seconds), Ok(nanos)) = (seconds.parse(), nanos.parse()) {
                        drift
                            .clocks
                            .entry(clock.to_owned())
                            .or_default()
                            .push((seconds, nanos));
                    }
                }
                ["tsc", library, "false"] => drift.fallen_back.push(library.to_owned()),
                _ => {}
            }
        }
        drift
    }
}

/// The running program that follows the clocks.
pub struct Following(Child);

impl Following {
    /// Starts to follow our clock and the others' for `minutes`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(tools: &Tools, minutes: f64) -> anyhow::Result<Following> {
        let seconds = (minutes * 60.0).ceil().max(1.0);
        let mut command = Command::new(&tools.peers);
        command
            .args(["drift", &format!("{seconds:.0}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let child = end_with_parent(&mut command).spawn();
        let child = child.with_context(|| format!("{command:?}"))?;
        Ok(Following(child))
    }

    /// Waits for it to end; returns the result.
    ///
    /// # Errors
    /// The program failed.
    pub fn end(mut self) -> anyhow::Result<Drift> {
        let mut said = String::new();
        let out = self.0.stdout.take().context("it has no output")?;
        std::io::BufReader::new(out).read_to_string(&mut said)?;
        let status = self.0.wait()?;
        if !status.success() {
            bail!("the program that follows the clocks ended with {status}");
        }
        Ok(Drift::parse(&said))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Errors mean that it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_is_told_in_nanoseconds_and_parts_in_a_million() {
        let drift = Drift::parse(
            "tsc minstant false\ndrift 1 now -20\ndrift 100 now 5\ndrift 100 quanta 8300000\n",
        );
        assert_eq!(drift.of("now").0, 20.0);
        assert_eq!(drift.of("quanta"), (8_300_000.0, 83.0));
        assert_eq!(drift.fallen_back, ["minstant"]);
        assert_eq!(drift.of("unknown"), (0.0, 0.0));
    }
}

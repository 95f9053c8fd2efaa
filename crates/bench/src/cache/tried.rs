//! The misses of each policy on each workload.

use serde::Serialize;

/// Sizes of the cache, in percent of the catalogue.
pub const SIZES: [u64; 5] = [1, 2, 5, 10, 25];

/// The misses of a policy at one cache size.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub policy: String,
    /// Size of the cache in percent of the catalogue.
    pub size: u64,
    pub requests: u64,
    pub misses: u64,
    /// Misses divided by those of Belady's optimum.
    pub ratio: f64,
    /// Time per request in ns, including the simulator's own.
    pub ns_a_request: f64,
}

/// A workload and its results.
#[derive(Debug, Serialize)]
pub struct Tried {
    pub name: &'static str,
    pub about: &'static str,
    pub lines: Vec<Line>,
}

impl Tried {
    pub fn line(&self, policy: &str, size: u64) -> Option<&Line> {
        let is = |line: &&Line| line.policy == policy && line.size == size;
        self.lines.iter().find(is)
    }

    pub fn ratio(&self, policy: &str, size: u64) -> f64 {
        self.line(policy, size).map_or(f64::NAN, |line| line.ratio)
    }

    /// Returns the greatest ratio of the policy `timetable` at these sizes.
    pub fn worst(&self, sizes: &[u64]) -> f64 {
        let ratios = sizes.iter().map(|size| self.ratio("timetable", *size));
        ratios.fold(0.0, f64::max)
    }

    /// Returns the share of the gap between the best other policy and the optimum that the policy
    /// `timetable` closes, at its worst size.
    pub fn closed(&self) -> f64 {
        let closed = SIZES.iter().map(|size| {
            let others = self.lines.iter().filter(|line| {
                line.size == *size
                    && !matches!(
                        line.policy.as_str(),
                        "timetable" | "told" | "bound" | "belady"
                    )
            });
            let best = others.map(|line| line.ratio).fold(f64::INFINITY, f64::min);
            (best - self.ratio("timetable", *size)) / (best - 1.0)
        });
        closed.fold(1.0, f64::min)
    }
}

//! What each policy missed of each workload.

use serde::Serialize;

/// Sizes of the cache, in percent of the catalogue.
pub const SIZES: [u64; 5] = [1, 2, 5, 10, 25];

/// What a policy missed.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    pub policy: String,
    /// Percent of the catalogue.
    pub size: u64,
    pub requests: u64,
    pub misses: u64,
    /// Against Belady's optimum.
    pub ratio: f64,
    /// Time a request took, the simulator's own included.
    pub ns_a_request: f64,
}

/// A workload and what came of it.
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

    /// Timetable's greatest ratio at these sizes.
    pub fn worst(&self, sizes: &[u64]) -> f64 {
        let ratios = sizes.iter().map(|size| self.ratio("timetable", *size));
        ratios.fold(0.0, f64::max)
    }

    /// How much of the way from the best other policy to the optimum Timetable goes, at its worst size.
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

//! The result of a measuring viewer.

use reelway_yardstick::Outcome;

/// The result of a measuring viewer, with its times.
pub struct Measured {
    pub outcome: Outcome,
    /// Arrival time, in ns since 1970.
    pub came_ns: u64,
    /// Arrival time, in s since the beginning of the run.
    pub came_s: f64,
    pub left_s: f64,
}

//! What a measuring viewer saw.

use reelway_yardstick::Outcome;

/// What a measuring viewer saw, and when they were there.
pub struct Measured {
    pub outcome: Outcome,
    /// ns since 1970.
    pub came_ns: u64,
    /// s from the beginning of the run.
    pub came_s: f64,
    pub left_s: f64,
}

//! One second of a run of viewers, or of one viewer.

use serde::Serialize;

/// One second of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// s from the beginning.
    pub at_s: f64,
    /// Viewers who have come until now.
    pub came: usize,
    /// Who are there.
    pub playing: usize,
    /// Who were turned away until now.
    pub refused: usize,
    /// Who were harmed until now.
    pub harmed: usize,
    /// Packets (or segments) since the sample before.
    pub packets: u64,
    /// Payload bytes since.
    pub bytes: u64,
    /// Packets lost since.
    pub lost: i64,
    /// Lateness of the access units judged since: half were not later, ms.
    pub late_p50_ms: f64,
    /// 99 of 100.
    pub late_p99_ms: f64,
    /// 999 of 1000.
    pub late_p999_ms: f64,
    /// All.
    pub late_max_ms: f64,
    /// Packets that the yardstick's own sockets had no room for until now.
    pub dropped: u64,
    /// Share of a core that this process took.
    pub cpu: f64,
}

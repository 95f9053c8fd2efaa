//! The results of a run of virtual viewers.

use serde::Serialize;

use super::sample::Sample;
use crate::histogram::Histogram;
use crate::outcome::Outcome;
use crate::verdict::{Fault, Finding};

/// Maximum number of complete stories; beyond it only those of harmed viewers are kept.
pub(super) const MOST_STORIES: usize = 20_000;

/// The results of one viewer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ViewerStory {
    /// Number of the viewer, counted from 1 in order of arrival.
    pub viewer: usize,
    /// The requested URL.
    pub url: String,
    /// `RTSP over UDP`, `HLS`, …
    pub protocol: String,
    /// Time of arrival, in seconds from the start of the run.
    pub came_s: f64,
    /// Time of leaving, in seconds from the start of the run.
    pub left_s: f64,
    /// `well`, or the worst fault.
    pub verdict: String,
    /// All findings, the worst first.
    pub findings: Vec<Finding>,
    /// Time from the request to play to the first media, in milliseconds.
    pub start_ms: Option<f64>,
    /// Number of packets or segments.
    pub packets: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// 99th percentile of the access units' lateness in milliseconds.
    pub late_p99_ms: f64,
    /// Maximum lateness in milliseconds.
    pub late_max_ms: f64,
    /// Number of stalls.
    pub stalls: u32,
    /// Total duration of the stalls in milliseconds.
    pub stalled_ms: f64,
    /// Maximum number of packets of a stream within a millisecond.
    pub burst: u32,
    /// Actions of the viewer and their answers: seconds from the start of the run, description.
    pub events: Vec<(f64, String)>,
}

impl ViewerStory {
    /// Creates the story of a viewer with this outcome; `number` counts from 0.
    pub fn of(outcome: &Outcome, number: usize, came_s: f64, left_s: f64) -> ViewerStory {
        let millis = |time: std::time::Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        ViewerStory {
            viewer: number + 1,
            url: outcome.url.clone(),
            protocol: outcome.protocol.clone(),
            came_s,
            left_s,
            verdict: outcome.verdict.word(),
            findings: outcome.verdict.findings.clone(),
            start_ms: outcome.start_ms,
            packets: outcome.packets,
            bytes: outcome.bytes,
            lost: outcome.lost,
            late_p99_ms: millis(outcome.late.percentile(0.99)),
            late_max_ms: millis(outcome.late.max()),
            stalls: outcome.playback.stalls,
            stalled_ms: millis(outcome.playback.stalled()),
            burst: outcome.burst,
            events: Vec::new(),
        }
    }

    /// Whether the viewer was refused before anything arrived.
    pub fn is_refused(&self) -> bool {
        self.packets == 0 && self.verdict != "well"
    }

    /// Whether the viewer was admitted, and would have noticed a fault.
    pub fn is_harmed(&self) -> bool {
        self.packets > 0 && self.verdict != "well"
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadStory {
    /// Number of viewers who arrived.
    pub viewers: usize,
    /// Number of viewers who were admitted.
    pub admitted: usize,
    /// Number of viewers who were refused.
    pub refused: usize,
    /// Number of viewers who were admitted and harmed.
    pub harmed: usize,
    /// Number of packets (or segments).
    pub packets: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Packets that the yardstick's own sockets had no room for, which is not the server's fault.
    pub dropped: u64,
    /// Lateness of all access units.
    #[serde(skip)]
    pub late: Histogram,
    /// Error of this machine's own arrival timestamps, as far as it can be measured: 99th
    /// percentile in milliseconds.
    pub timing_error_p99_ms: f64,
    /// CPU time of this process in seconds.
    pub cpu_s: f64,
    /// Total watching time of all viewers in seconds.
    pub watched_s: f64,
    /// A sample for every second; in a long run each covers two, four, … seconds.
    pub samples: Vec<Sample>,
    /// The viewers' stories; in a long run the first ones, and those of harmed viewers.
    pub each: Vec<ViewerStory>,
}

impl LoadStory {
    /// Returns `well`, or the worst fault of any viewer.
    pub fn word(&self) -> String {
        let worst = self
            .each
            .iter()
            .flat_map(|story| &story.findings)
            .filter(|finding| finding.seen)
            .min_by_key(|finding| finding.fault);
        worst.map_or_else(|| "well".to_owned(), |finding| finding.fault.to_string())
    }

    /// Returns the faults, worst first, with the number of viewers that had each.
    pub fn faults(&self) -> Vec<(Fault, usize)> {
        let mut counts = std::collections::BTreeMap::new();
        for story in &self.each {
            let mut faults: Vec<Fault> = story
                .findings
                .iter()
                .filter(|finding| finding.seen)
                .map(|finding| finding.fault)
                .collect();
            faults.dedup();
            for fault in faults {
                *counts.entry(fault).or_insert(0) += 1;
            }
        }
        counts.into_iter().collect()
    }

    /// Adds a viewer's story.
    pub(super) fn add(&mut self, story: ViewerStory) {
        self.refused += usize::from(story.is_refused());
        self.harmed += usize::from(story.is_harmed());
        self.admitted += usize::from(!story.is_refused());
        self.watched_s += story.left_s - story.came_s;
        let is_well = story.verdict == "well";
        if self.each.len() < MOST_STORIES || (!is_well && self.each.len() < 2 * MOST_STORIES) {
            self.each.push(story);
        }
    }
}

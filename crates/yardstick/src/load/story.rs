//! What a run of virtual viewers tells.

use serde::Serialize;

use super::sample::Sample;
use crate::histogram::Histogram;
use crate::outcome::Outcome;
use crate::verdict::{Fault, Finding};

/// Stories that are kept in full; of the others those of harmed viewers.
pub(super) const MOST_STORIES: usize = 20_000;

/// What became of one viewer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ViewerStory {
    /// Counted from 1 in order of coming.
    pub viewer: usize,
    /// What the viewer asked for.
    pub url: String,
    /// `RTSP over UDP`, `HLS`, …
    pub protocol: String,
    /// When the viewer arrived, s from the beginning of the run.
    pub came_s: f64,
    /// When the viewer left.
    pub left_s: f64,
    /// `well`, or the worst fault.
    pub verdict: String,
    /// All that is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// From asking to play to the first media, ms.
    pub start_ms: Option<f64>,
    /// Packets or segments.
    pub packets: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Of 100 access units 99 were not later, ms.
    pub late_p99_ms: f64,
    /// The latest, ms.
    pub late_max_ms: f64,
    /// Times the picture stood still.
    pub stalls: u32,
    /// For how long in all, ms.
    pub stalled_ms: f64,
    /// Most packets of a stream within a millisecond.
    pub burst: u32,
    /// What the viewer did and the answers: seconds from the beginning of the run, words.
    pub events: Vec<(f64, String)>,
}

impl ViewerStory {
    /// Of a viewer whose outcome is known, number `number` from 0.
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

    /// Whether the viewer was admitted, and a person would have seen a fault.
    pub fn is_harmed(&self) -> bool {
        self.packets > 0 && self.verdict != "well"
    }
}

/// What a run tells.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoadStory {
    /// Viewers who came.
    pub viewers: usize,
    /// Who were let in.
    pub admitted: usize,
    /// Who were turned away.
    pub refused: usize,
    /// Who were let in and harmed.
    pub harmed: usize,
    /// Packets (or segments).
    pub packets: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that the yardstick's own sockets had no room for: not the server's fault.
    pub dropped: u64,
    /// Lateness of all access units.
    #[serde(skip)]
    pub late: Histogram,
    /// How wrong this machine's own times of arrival were, as far as it can tell: 99 of 100 probes
    /// less, ms.
    pub timing_error_p99_ms: f64,
    /// CPU seconds of this process.
    pub cpu_s: f64,
    /// Seconds that all viewers together watched.
    pub watched_s: f64,
    /// Every second of it (every second, fourth, … of a long run).
    pub samples: Vec<Sample>,
    /// Each viewer's story: of long runs the first, and those of harmed viewers.
    pub each: Vec<ViewerStory>,
}

impl LoadStory {
    /// `well`, or the worst of any viewer.
    pub fn word(&self) -> String {
        let worst = self
            .each
            .iter()
            .flat_map(|story| &story.findings)
            .filter(|finding| finding.seen)
            .min_by_key(|finding| finding.fault);
        worst.map_or_else(|| "well".to_owned(), |finding| finding.fault.to_string())
    }

    /// Faults and how many viewers had each, the worst first.
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

    /// Notes what became of a viewer.
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

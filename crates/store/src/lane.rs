//! Queues with a capacity: a lane for each disk, and for each remote place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Latency classes: class `n` holds reads of 2^n to 2^(n+1) microseconds, up to an hour.
const CLASSES: usize = 32;

/// Minimum and maximum of the lead, the time by which requests precede deadlines. Planners and
/// schedulers take time, too, and blocks held in advance take memory from others.
const LEAD: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// The lead while there are no measurements.
const LEAD_UNKNOWN: Duration = Duration::from_millis(500);
/// Number of reads that must be measured before they count.
const ENOUGH: u32 = 8;
/// After this number of reads, all earlier ones count half.
const RECENT: u32 = 256;
/// The lead is the latency within which this percentage of the reads completed, times the safety
/// factor below.
const SHARE: u32 = 99;
const SAFETY: u32 = 3;

/// A queue with a capacity, for a disk or an origin. Reads of all its sources are started in the
/// order of their deadlines, at most its depth of them at once. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lane(pub(crate) Arc<LaneState>);

/// The kind of a lane's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// A disk with films.
    Disk,
    /// The tier below memory.
    Tier,
    /// An origin.
    Afar,
    /// Views, which are made from the blocks of films (see [`crate::View`]).
    View,
}

#[derive(Debug)]
pub(crate) struct LaneState {
    pub name: String,
    pub kind: LaneKind,
    /// Its index among the pool's queues.
    pub number: usize,
    pub depth: usize,
    reads: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    times: [AtomicU64; CLASSES],
    longest_us: AtomicU64,
    /// Times from request to completion of recent reads, counted by powers of two of microseconds.
    recent: [AtomicU32; CLASSES],
    lead_us: AtomicU64,
}

impl Lane {
    /// Returns how long before its deadline a block should be requested: three times the time that
    /// nearly all recent reads took from request to completion.
    pub fn lead(&self) -> Duration {
        Duration::from_micros(self.0.lead_us.load(Ordering::Relaxed))
    }
}

/// Statistics of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStats {
    /// The name of the disk or origin.
    pub name: String,
    /// The kind of place.
    pub kind: LaneKind,
    /// Maximum number of reads under way at once.
    pub depth: usize,
    /// Reads under way now.
    pub under_way: usize,
    /// Reads that are waiting for their turn.
    pub queued: usize,
    /// Completed reads, including failed ones.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Reads that failed.
    pub errors: u64,
    /// Latencies of reads, counted by powers of two of microseconds.
    times: [u64; CLASSES],
    /// The longest latency of a read.
    pub longest: Duration,
}

impl LaneStats {
    /// Returns the latency that this share (0 to 1) of the reads did not exceed, rounded up to a
    /// power of two and at most the longest latency. Zero if nothing has been read.
    pub fn latency(&self, share: f64) -> Duration {
        quantile(&self.times, share).min(self.longest)
    }
}

fn quantile(times: &[u64; CLASSES], share: f64) -> Duration {
    let all: u64 = times.iter().sum();
    let wanted = (all as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
    let mut seen = 0;
    for (class, count) in times.iter().enumerate() {
        seen += count;
        if seen >= wanted.max(1) {
            return Duration::from_micros(2 << class);
        }
    }
    Duration::ZERO
}

impl LaneState {
    pub fn new(name: &str, kind: LaneKind, number: usize, depth: usize) -> LaneState {
        LaneState {
            name: name.to_owned(),
            kind,
            number,
            depth: depth.max(1),
            reads: AtomicU64::default(),
            bytes: AtomicU64::default(),
            errors: AtomicU64::default(),
            times: Default::default(),
            longest_us: AtomicU64::default(),
            recent: Default::default(),
            lead_us: AtomicU64::new(LEAD_UNKNOWN.as_micros() as u64),
        }
    }

    /// Records the time from request to completion of a read, including the wait for its turn.
    ///
    /// Concurrent updates may lose some counts, which does not matter.
    pub fn note_wait(&self, time: Duration) {
        let class = (time.as_micros().max(1).ilog2() as usize).min(CLASSES - 1);
        self.recent[class].fetch_add(1, Ordering::Relaxed);
        let counts: [u32; CLASSES] =
            std::array::from_fn(|class| self.recent[class].load(Ordering::Relaxed));
        let all: u32 = counts.iter().sum();
        if all >= RECENT {
            for (place, count) in self.recent.iter().zip(counts) {
                place.store(count / 2, Ordering::Relaxed);
            }
        }
        if all < ENOUGH {
            return;
        }
        let wanted = (all * SHARE).div_ceil(100);
        let mut seen = 0;
        let class = counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        let most = Duration::from_micros(2 << class.unwrap_or(0));
        let lead = (most * SAFETY).clamp(LEAD.0, LEAD.1);
        self.lead_us
            .store(lead.as_micros() as u64, Ordering::Relaxed);
    }

    /// Records a read that took `time`; `bytes` if it succeeded.
    pub fn note(&self, time: Duration, bytes: Option<usize>) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.reads.fetch_add(1, Ordering::Relaxed);
        match bytes {
            Some(bytes) => self.bytes.fetch_add(bytes as u64, Ordering::Relaxed),
            None => self.errors.fetch_add(1, Ordering::Relaxed),
        };
        let class = (us.max(1).ilog2() as usize).min(CLASSES - 1);
        self.times[class].fetch_add(1, Ordering::Relaxed);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    pub fn stats(&self, under_way: usize, queued: usize) -> LaneStats {
        LaneStats {
            name: self.name.clone(),
            kind: self.kind,
            depth: self.depth,
            under_way,
            queued,
            reads: self.reads.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            times: std::array::from_fn(|class| self.times[class].load(Ordering::Relaxed)),
            longest: Duration::from_micros(self.longest_us.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_asked_for_as_early_as_the_disk_needs_of_late_within_bounds() {
        let lane = Lane(Arc::new(LaneState::new("disk", LaneKind::Disk, 0, 4)));
        let reads = |count, millis| {
            for _ in 0..count {
                lane.0.note_wait(Duration::from_millis(millis));
            }
            lane.lead()
        };
        assert_eq!(reads(7, 1), LEAD_UNKNOWN, "too few to know");
        assert_eq!(reads(200, 1), LEAD.0, "a fast disk");
        let busy = reads(200, 100);
        assert!((300..800).contains(&busy.as_millis()), "{busy:?}");
        assert_eq!(reads(50, 5000), LEAD.1, "an origin far away");
        assert_eq!(reads(5000, 1), LEAD.0, "and it recovers");
    }

    #[test]
    fn latencies_are_told_to_a_power_of_two_and_never_beyond_the_longest() {
        let lane = LaneState::new("disk", LaneKind::Disk, 0, 4);
        assert_eq!(lane.stats(0, 0).latency(0.99), Duration::ZERO);
        for _ in 0..99 {
            lane.note(Duration::from_micros(700), Some(10));
        }
        lane.note(Duration::from_millis(40), None);
        let stats = lane.stats(1, 2);
        assert_eq!((stats.reads, stats.bytes, stats.errors), (100, 990, 1));
        assert_eq!(stats.latency(0.5), Duration::from_micros(1024));
        assert_eq!(stats.latency(0.99), Duration::from_micros(1024));
        assert_eq!(stats.latency(1.0), Duration::from_millis(40));
    }
}

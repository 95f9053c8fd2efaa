//! Queues with a capacity: a lane for each disk, and for each place afar.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Classes of how long reads took: class `n` holds those of 2^n to 2^(n+1) microseconds, up to an hour.
const CLASSES: usize = 32;

/// How long before a block is needed it is asked for, at least and at most: planners and schedulers take their time too,
/// and what is held ahead is memory of others.
const LEAD: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// The same while nothing was measured.
const LEAD_UNKNOWN: Duration = Duration::from_millis(500);
/// So many reads are measured before they count.
const ENOUGH: u32 = 8;
/// After so many reads all earlier ones count half.
const RECENT: u32 = 256;
/// Of the reads so many hundredths took at most what the lead is made of, times this for safety.
const SHARE: u32 = 99;
const SAFETY: u32 = 3;

/// A queue with a capacity: a disk, an origin. Reads of all its sources are started in the order of
/// their deadlines, and at most its depth of them are under way. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lane(pub(crate) Arc<LaneState>);

/// What a lane leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// A disk that films lie on.
    Disk,
    /// The tier below memory.
    Tier,
    /// An origin.
    Afar,
    /// What is made of films' blocks (see [`crate::View`]).
    View,
}

#[derive(Debug)]
pub(crate) struct LaneState {
    pub name: String,
    pub kind: LaneKind,
    /// Its place among the pool's queues.
    pub number: usize,
    pub depth: usize,
    reads: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    times: [AtomicU64; CLASSES],
    longest_us: AtomicU64,
    /// From asking to having, of late: counts by powers of two of microseconds.
    recent: [AtomicU32; CLASSES],
    lead_us: AtomicU64,
}

impl Lane {
    /// How long before it is needed a block should be asked for: what nearly all reads took of late from being asked for
    /// to being there, times three.
    pub fn lead(&self) -> Duration {
        Duration::from_micros(self.0.lead_us.load(Ordering::Relaxed))
    }
}

/// What a lane has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStats {
    /// What it leads to: a disk's name, an origin's.
    pub name: String,
    /// Which kind of thing that is.
    pub kind: LaneKind,
    /// Most reads under way at once.
    pub depth: usize,
    /// Reads under way now.
    pub under_way: usize,
    /// Reads that wait for their turn.
    pub queued: usize,
    /// Reads done, failed ones among them.
    pub reads: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Reads that failed.
    pub errors: u64,
    /// How long reads took: counts by powers of two of microseconds.
    times: [u64; CLASSES],
    /// The longest a read took.
    pub longest: Duration,
}

impl LaneStats {
    /// How long a read took at most in this share (0 to 1) of the cases: to a power of two, and never
    /// more than the longest. Zero while nothing was read.
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

    /// Notes that a block was there so long after it was asked for, the wait for its turn included.
    ///
    /// Counts of several threads may be lost among each other; they are of no weight.
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

    /// Notes a read that took `time`; `bytes` where it went well.
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

//! Queues with a capacity: a lane for each disk, and for each place afar.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Classes of how long reads took: class `n` holds those of 2^n to 2^(n+1) microseconds, up to an hour.
const CLASSES: usize = 32;

/// A queue with a capacity: a disk, an origin. Reads of all its sources are started in the order of
/// their deadlines, and at most its depth of them are under way. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lane(pub(crate) Arc<LaneState>);

#[derive(Debug)]
pub(crate) struct LaneState {
    pub name: String,
    /// Its place among the pool's queues.
    pub number: usize,
    pub depth: usize,
    reads: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    times: [AtomicU64; CLASSES],
    longest_us: AtomicU64,
}

/// What a lane has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStats {
    /// What it leads to: a disk's name, an origin's.
    pub name: String,
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
    pub fn new(name: &str, number: usize, depth: usize) -> LaneState {
        LaneState {
            name: name.to_owned(),
            number,
            depth: depth.max(1),
            reads: AtomicU64::default(),
            bytes: AtomicU64::default(),
            errors: AtomicU64::default(),
            times: Default::default(),
            longest_us: AtomicU64::default(),
        }
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
    fn latencies_are_told_to_a_power_of_two_and_never_beyond_the_longest() {
        let lane = LaneState::new("disk", 0, 4);
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

//! Counters of a sender thread.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::histogram::Histogram;

/// Counters that one thread writes and others read.
#[derive(Default)]
pub(crate) struct Counters {
    pub playing: AtomicUsize,
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    pub runs: AtomicU64,
    pub calls: AtomicU64,
    pub turns: AtomicU64,
    pub retried: AtomicU64,
    pub refused: AtomicU64,
    pub shifts: AtomicU64,
    pub dropped: AtomicU64,
    pub resent: AtomicU64,
    pub cpu: AtomicU64,
    pub late: Histogram,
}

impl Counters {
    /// Counts packets that left this late, ns, with this many bytes of RTP.
    pub fn sent(&self, packets: u32, bytes: u64, late: u64) {
        self.late.note(late, packets);
        add(&self.packets, u64::from(packets));
        add(&self.bytes, bytes);
    }
}

/// Adds to a counter that only this thread writes.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(more);
    counter.store(sum, Ordering::Relaxed);
}

/// Sets a counter that only this thread writes.
pub(crate) fn set(counter: &AtomicU64, value: u64) {
    counter.store(value, Ordering::Relaxed);
}

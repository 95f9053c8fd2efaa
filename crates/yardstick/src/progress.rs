//! How far a measuring viewer is, for who waits for the verdict.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// How far a viewer is, while he watches.
#[derive(Debug, Default)]
pub struct Progress {
    media: AtomicI64,
    came: AtomicU64,
    wrong: AtomicU64,
}

impl Progress {
    /// The film's time that has come, ns; packets (or segments) that came; what is wrong of them until now: packets
    /// that are missing, segments that came too late.
    pub(crate) fn is_at(&self, media: i64, came: u64, wrong: u64) {
        self.media.store(media, Ordering::Relaxed);
        self.came.store(came, Ordering::Relaxed);
        self.wrong.store(wrong, Ordering::Relaxed);
    }

    /// The film's time that has come, ns.
    pub fn media(&self) -> i64 {
        self.media.load(Ordering::Relaxed)
    }

    /// Packets (or segments) that came.
    pub fn came(&self) -> u64 {
        self.came.load(Ordering::Relaxed)
    }

    /// Packets missing (or segments late) until now.
    pub fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }
}

//! The state of a followed clock as shared words: so that it can lie in a page that a fork clears,
//! and so that all zeros is a fresh clock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ring::{Ring, SLOT};

/// Number of words of a followed clock.
pub const TRACK_WORDS: usize = 128;
/// Number of pieces kept: the current one, the one before it, and two more that a reader may still
/// copy.
pub const SLOTS: usize = 4;
/// The index of the first slot.
const FIRST_SLOT: usize = TRACK_WORDS - SLOTS * SLOT;

/// The words' indices. Those that every reader loads are in the first cache line, which is written
/// once per piece; the writer's own are in the lines after it.
#[derive(Clone, Copy)]
pub enum Word {
    /// Number of the newest piece.
    Head = 0,
    /// A [`Phase`].
    Phase = 1,
    /// Without a piece: the lower bound of readings in nanoseconds, because readers had this time
    /// before the counter fell.
    Floor = 2,
    /// In phase `Waiting`: the kernel's time at which the counter is tried again, in nanoseconds.
    RetryAt = 3,
    /// How far a reader after the end of the last piece stays behind the kernel's clock, in
    /// nanoseconds.
    Margin = 4,

    /// 1 while a thread draws.
    Lock = 8,
    /// Nanoseconds per count, 32.32.
    Rate = 9,
    /// The smallest width of a look, in counts; it grows slowly, so that a lucky one does not
    /// exclude all others.
    Tightest = 10,
    /// The last look: count, kernel's time in nanoseconds, width in counts.
    LastCount = 11,
    LastNanos = 12,
    LastWidth = 13,
    /// The kernel's time of the last jump or step, in nanoseconds.
    JumpedAt = 14,
    /// For how long the counter is not used after the next fall, in nanoseconds.
    Penalty = 15,

    /// The two older looks from which the rate is measured.
    OldCount = 16,
    OldNanos = 17,
    OldWidth = 18,
    MidCount = 19,
    MidNanos = 20,
    MidWidth = 21,
    /// In phase `Warming`: 1 if the counter has fallen before and must prove itself.
    MustProve = 22,

    // Statistics.
    Looks = 24,
    Coasts = 25,
    Falls = 26,
    Steps = 27,
}

/// The state of a followed clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Nothing is known: the next reader takes the first look.
    Fresh = 0,
    /// There is a first look; readers get the kernel's clock until the rate is known.
    Warming = 1,
    /// Pieces are drawn.
    Tracking = 2,
    /// The counter is not trusted until `RetryAt`.
    Waiting = 3,
}

/// Statistics of a followed clock since the start of the process (or its fork).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Looks at the kernel's clock, each of which provides about half a millisecond of it.
    pub looks: u64,
    /// Looks that were too uncertain to be used (the thread was interrupted in the middle).
    pub coasts: u64,
    /// How often the counter was out of step with the kernel's clock.
    pub falls: u64,
    /// How often the kernel's clock was set and followed.
    pub steps: u64,
}

/// The words of one followed clock.
#[derive(Clone, Copy)]
pub struct Memory<'a>(pub &'a [AtomicU64; TRACK_WORDS]);

impl<'a> Memory<'a> {
    #[inline(always)]
    pub fn ring(self) -> Ring<'a, AtomicU64, SLOTS> {
        let (slots, _) = self.0[FIRST_SLOT..].as_chunks::<SLOT>();
        let Some((slots, _)) = slots.split_first_chunk::<SLOTS>() else {
            unreachable!()
        };
        Ring {
            head: &self.0[Word::Head as usize],
            slots,
        }
    }

    pub fn get(self, word: Word) -> u64 {
        self.0[word as usize].load(Ordering::Relaxed)
    }

    /// Sets a word. Readers that do not hold the lock see it if they see the piece that is
    /// published after it.
    pub fn set(self, word: Word, value: u64) {
        self.0[word as usize].store(value, Ordering::Relaxed);
    }

    pub fn add(self, word: Word) {
        self.0[word as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub fn phase(self) -> Phase {
        match self.0[Word::Phase as usize].load(Ordering::Acquire) {
            1 => Phase::Warming,
            2 => Phase::Tracking,
            3 => Phase::Waiting,
            _ => Phase::Fresh,
        }
    }

    pub fn set_phase(self, phase: Phase) {
        self.0[Word::Phase as usize].store(phase as u64, Ordering::Release);
    }

    pub fn try_lock(self) -> bool {
        let lock = &self.0[Word::Lock as usize];
        lock.load(Ordering::Relaxed) == 0
            && lock
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    pub fn unlock(self) {
        self.0[Word::Lock as usize].store(0, Ordering::Release);
    }

    pub fn statistics(self) -> Statistics {
        Statistics {
            looks: self.get(Word::Looks),
            coasts: self.get(Word::Coasts),
            falls: self.get(Word::Falls),
            steps: self.get(Word::Steps),
        }
    }
}

/// How far a floor may be ahead of the kernel's clock and still hold a reader, in nanoseconds:
/// beyond that, the kernel's clock itself has gone back (the process entered another time
/// namespace).
pub const HOLD: u64 = 10_000_000;

/// Returns `nanos`, or `floor` if that is a little higher.
pub fn hold(nanos: u64, floor: u64) -> u64 {
    if floor > nanos && floor - nanos < HOLD {
        floor
    } else {
        nanos
    }
}

/// Converts 32.32 nanoseconds to whole ones, rounded up.
pub fn ceil(exact: u128) -> u64 {
    u64::try_from((exact + u128::from(u32::MAX)) >> 32).unwrap_or(u64::MAX)
}

/// Converts `counts` at `rate` (32.32 nanoseconds per count) to nanoseconds.
pub fn nanos_of(counts: u64, rate: u64) -> u64 {
    u64::try_from((u128::from(counts) * u128::from(rate)) >> 32).unwrap_or(u64::MAX)
}

/// Converts `nanos` to counts at `rate`.
pub fn counts_of(nanos: u64, rate: u64) -> u64 {
    u64::try_from((u128::from(nanos) << 32) / u128::from(rate.max(1))).unwrap_or(u64::MAX)
}

/// Counts per second at `rate`; zero if it is not known.
pub fn hertz(rate: u64) -> u64 {
    if rate == 0 {
        0
    } else {
        counts_of(1_000_000_000, rate)
    }
}

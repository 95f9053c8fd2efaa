//! Following a kernel clock with the counter.
//!
//! The clock is one continuous function of the counter, composed of straight pieces of about half a
//! millisecond (`piece.rs`) that are published a little ahead of time (`ring.rs`). A reader that
//! comes shortly before the last piece ends reads the kernel's clock once, determines how far it
//! has moved away from the line, and draws the next piece so that its end meets the kernel's clock.
//! There is no thread: a program that does not read the time spends nothing on it.
//!
//! This gives the clock's guarantees:
//! - It never steps back, across all threads: each count has one time, pieces join without a step,
//!   and no piece decreases.
//! - It never blocks: the lock is only ever tried. A reader that cannot get it continues with the
//!   current piece; after its end, it reads the kernel's clock, minus a margin, so that it stays
//!   behind the next piece. So it is safe in signal handlers, and a writer may be stopped anywhere.
//! - When the counter jumps (suspend, migration of a virtual machine, a change of frequency), the
//!   piece ends within a millisecond and the next look at the kernel's clock shows it: readers get
//!   the kernel's clock until the counter has proved itself again.
//! - When the kernel's real time is stepped, the clock follows at the next look.

mod draw;
mod sample;
mod words;

use crate::piece::{CLOSED, NOTHING, Piece};
use crate::ring::{Nanos, Ring, SecondMicros, SecondNanos};
pub use words::{Memory, Statistics, TRACK_WORDS};
use words::{Phase, SLOTS, Word};

use std::sync::atomic::AtomicU64;

use reelway_sys::tsc::Halves;

/// The source of counts and of the kernel's time: the processor, or a simulation.
pub trait Source {
    /// The counter, read after all earlier instructions are done.
    fn counter_ordered(&self) -> u64;
    /// The kernel clock that is followed, in nanoseconds.
    fn kernel(&self) -> u64;
    /// Receives changes that matter to users. Called with no lock held, perhaps in a signal
    /// handler.
    fn hear(&self, _event: Event) {}
}

/// A change that matters to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The counter is used from now on; it runs at about this many counts per second.
    Started(u64),
    /// The counter and the kernel's clock have moved apart by this many nanoseconds within one
    /// look: the kernel's clock is used from now on.
    Fell(i64),
    /// The counter has proved itself again and is used.
    CameBack,
    /// The kernel's clock was stepped by this many nanoseconds, and this clock with it.
    Stepped(i64),
    /// The counter is unusable: too slow, or not counting.
    Unfit,
}

/// How the kernel's clock may behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It never steps; if it seems to, the counter is at fault.
    Steady,
    /// It may be set (`CLOCK_REALTIME`).
    Settable,
}

/// A kernel clock that is followed. The words are its entire state; all zeros is a fresh one.
#[derive(Clone, Copy)]
pub struct TrackedClock<'a> {
    words: Memory<'a>,
    manner: Manner,
}

impl<'a> TrackedClock<'a> {
    /// The clock whose state is in these words.
    #[inline(always)]
    pub const fn new(words: &'a [AtomicU64; TRACK_WORDS], manner: Manner) -> TrackedClock<'a> {
        TrackedClock {
            words: Memory(words),
            manner,
        }
    }

    #[inline(always)]
    fn ring(&self) -> Ring<'a, AtomicU64, SLOTS> {
        self.words.ring()
    }

    /// The time in nanoseconds, at the count that `counter` returns. `None`: take the slow path.
    #[inline(always)]
    pub fn nanos(&self, counter: impl FnOnce() -> Halves) -> Option<u64> {
        let (sum, base) = self.ring().read::<Nanos>(counter)?;
        Some(base + (sum >> 32))
    }

    /// The time in seconds and nanoseconds. `None`: take the slow path.
    #[inline(always)]
    pub fn second_nanos(&self, counter: impl FnOnce() -> Halves) -> Option<(u64, u64)> {
        let (sum, second) = self.ring().read::<SecondNanos>(counter)?;
        Some(carry(second, sum >> 32, 1_000_000_000))
    }

    /// The time in seconds and microseconds. `None`: take the slow path.
    #[inline(always)]
    pub fn second_micros(&self, counter: impl FnOnce() -> Halves) -> Option<(u64, u64)> {
        let (sum, second) = self.ring().read::<SecondMicros>(counter)?;
        Some(carry(second, sum >> 43, 1_000_000))
    }

    /// The time and how far it may be from the kernel's, both in nanoseconds.
    #[cold]
    pub fn nanos_with_error<S: Source>(&self, source: &S) -> (u64, u64) {
        // The slow path first: it draws a new piece if one is due.
        let nanos = self.slow(source);
        let ring = self.ring();
        let count = source.counter_ordered();
        match ring.piece(ring.head()) {
            Some(piece) if piece.covers(count) => (piece.nanos(count), piece.error_at(count)),
            // The kernel's clock, perhaps minus the margin.
            _ => (nanos, self.words.get(Word::Margin) + 1),
        }
    }

    /// The count at which the clock shows `nanos`, by the current piece; `None` if there is none,
    /// or the time is more than a minute away from it.
    pub fn count_at(&self, nanos: u64) -> Option<u64> {
        let ring = self.ring();
        let piece = ring.piece(ring.head()).filter(|piece| piece.hard != 0)?;
        let away = (i128::from(nanos) << 32) - piece.base as i128;
        (away.unsigned_abs() < 60_000_000_000 << 32).then(|| {
            piece
                .start
                .wrapping_add(away.div_euclid(i128::from(piece.mult)) as u64)
        })
    }

    /// The time at `count`, by the current piece, in nanoseconds; `None` if there is none, or the
    /// count is more than a minute away from it.
    pub fn time_at(&self, count: u64) -> Option<u64> {
        let ring = self.ring();
        let number = ring.head();
        let piece = ring.piece(number).filter(|piece| piece.hard != 0)?;
        let before = ring.piece(number - 1).filter(|before| before.covers(count));
        if let Some(before) = before {
            return Some(before.nanos(count));
        }
        let away = i128::from(count.wrapping_sub(piece.start) as i64) * i128::from(piece.mult);
        (away.unsigned_abs() < 60_000_000_000 << 32)
            .then(|| u64::try_from((piece.base as i128 + away) >> 32).unwrap_or(0))
    }

    /// The kernel's time `nanos`, or the last time that a reader may have seen, if that is a little
    /// later: for a process that switches from the counter to the kernel's clock.
    pub fn hold(&self, nanos: u64) -> u64 {
        let ring = self.ring();
        let shown = ring
            .piece(ring.head())
            .map_or(0, |piece| words::ceil(piece.end()));
        words::hold(nanos, shown.max(self.words.get(Word::Floor)))
    }

    /// Counts per second, as measured; zero if not known yet.
    pub fn hertz(&self) -> u64 {
        words::hertz(self.words.get(Word::Rate))
    }

    /// Whether readers get the time from the counter.
    pub fn is_tracking(&self) -> bool {
        self.words.phase() == Phase::Tracking
    }

    /// Statistics since the start.
    pub fn statistics(&self) -> Statistics {
        self.words.statistics()
    }

    /// Makes the next reader look at the kernel's clock: this process has just set it. Does nothing
    /// if a look is in progress.
    pub fn look_again(&self) {
        if self.words.try_lock() {
            if self.words.phase() == Phase::Tracking {
                self.ring().publish(&CLOSED);
            }
            self.words.unlock();
        }
    }

    /// The slow path: there is no piece yet, the current one is about to end or has ended, or it
    /// has not begun (it was published a little ahead of time).
    #[cold]
    #[inline(never)]
    pub fn slow<S: Source>(&self, source: &S) -> u64 {
        let ring = self.ring();
        let mut tries = 0;
        loop {
            let number = ring.head();
            let piece = match ring.piece(number) {
                Some(piece) => piece,
                None if number == 0 => NOTHING,
                // This thread slept through several pieces: there is a newer one.
                None => continue,
            };
            let count = source.counter_ordered();
            if piece.covers(count) {
                if count.wrapping_sub(piece.start) >= piece.soft && self.words.try_lock() {
                    let event = (ring.head() == number)
                        .then(|| self.look(source, &piece, true))
                        .flatten();
                    self.finish(source, event);
                }
                return piece.nanos(count);
            }
            if let Some(nanos) = self.before(&piece, number, count) {
                return nanos;
            }
            let waiting = self.words.phase() == Phase::Waiting;
            if !waiting && self.words.try_lock() {
                let event = (ring.head() == number)
                    .then(|| self.look(source, &piece, false))
                    .flatten();
                self.finish(source, event);
                if ring.head() != number {
                    continue;
                }
                // No piece resulted: use the kernel's clock, as all readers do now.
            } else if piece.hard != 0 && tries < 50 {
                // Another thread is drawing and needs a fraction of a microsecond.
                tries += 1;
                std::hint::spin_loop();
                continue;
            }
            if let Some(nanos) = self.kernel(source, number, &piece) {
                return nanos;
            }
        }
    }

    /// The time at a count before `piece` begins: by the piece before it, or, in the gap between
    /// the two, its start time. `None` if the count is after the piece's end, or so long before it
    /// that the counter must have gone back: the piece was published at most a little ahead of
    /// time.
    fn before(&self, piece: &Piece, number: u64, count: u64) -> Option<u64> {
        let missing = piece.start.wrapping_sub(count);
        if piece.hard == 0 || missing > 2 * (piece.hard - piece.soft) {
            return None;
        }
        match self.ring().piece(number - 1) {
            Some(last) if last.covers(count) => Some(last.nanos(count)),
            // No count in the gap has been used: a reader here was here when the piece was drawn.
            _ => Some(piece.nanos(piece.start)),
        }
    }

    /// The kernel's clock for a reader after the end of `piece`, which is the newest. `None` if
    /// another one has been published in the meantime.
    fn kernel<S: Source>(&self, source: &S, number: u64, piece: &Piece) -> Option<u64> {
        let mut now = source.kernel();
        let margin = self.words.get(Word::Margin);
        let nanos = if piece.hard != 0 {
            // The next piece may lie behind the kernel's clock by its error: a reader of the
            // kernel's clock must stay behind both, and not before readings from the last piece.
            words::hold(now.saturating_sub(margin), words::ceil(piece.end()))
        } else if *piece == CLOSED {
            // The same, and not before the kernel's clock as readers got it until now.
            let arrived = now;
            while now < arrived.saturating_add(margin) && self.ring().head() == number {
                now = source.kernel();
            }
            words::hold(now.saturating_sub(margin), self.words.get(Word::Floor))
        } else {
            words::hold(now, self.words.get(Word::Floor))
        };
        if self.words.phase() == Phase::Waiting
            && now >= self.words.get(Word::RetryAt)
            && self.words.try_lock()
        {
            if self.words.phase() == Phase::Waiting {
                self.words.set_phase(Phase::Fresh);
            }
            self.words.unlock();
        }
        // Only a time that was read before a piece was published certainly lies before all of it.
        (self.ring().head() == number).then_some(nanos)
    }

    /// Ends the writer's work.
    fn finish<S: Source>(&self, source: &S, event: Option<Event>) {
        self.words.unlock();
        if let Some(event) = event {
            source.hear(event);
        }
    }
}

/// Carries whole seconds over. A branch, not a conditional move: it is almost always predicted, and
/// then adds nothing to the latency of the result.
#[inline(always)]
fn carry(second: u64, part: u64, unit: u64) -> (u64, u64) {
    #[cold]
    fn over(second: u64, part: u64, unit: u64) -> (u64, u64) {
        (second + part / unit, part % unit)
    }
    if part < unit {
        (second, part)
    } else {
        over(second, part, unit)
    }
}

#[cfg(test)]
mod tests;

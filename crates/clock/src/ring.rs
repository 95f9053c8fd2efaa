//! Pieces of the clock in shared memory: one writer, and any number of readers, which never wait.
//!
//! A sequence lock in latch form. The newest piece lies in slot `head % SLOTS`; a new one is
//! written into the oldest slot, and then `head` is incremented. A reader loads `head`, copies the
//! slot's words, and loads `head` again: only if it has advanced by `SLOTS - 1` or more in between
//! (the reader slept for milliseconds) may the words be torn, and it starts again. A writer that is
//! stopped in the middle, even for ever, keeps no reader from the existing pieces.
//!
//! A slow reader with an old piece is right, because a published piece never changes. Each count
//! has one time, in every copy.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use reelway_sys::tsc::Halves;

use crate::piece::{Piece, Words};

/// A shared word: a standard library atomic, or one of the model checker.
pub trait Word {
    /// An atomic load.
    fn load(&self, order: Ordering) -> u64;
    /// An atomic store.
    fn store(&self, value: u64, order: Ordering);
    /// A fence for the same kind of atomics.
    fn fence(order: Ordering);
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Words per slot: two cache lines, the first with the words for fast reads.
pub const SLOT: usize = 16;

/// Indices within a slot.
mod at {
    pub const START: usize = 0;
    pub const SOFT: usize = 1;
    pub const MULT: usize = 2;
    pub const ADD: usize = 3;
    pub const SECOND: usize = 4;
    pub const BASE: usize = 5;
    pub const MULT_MICROS: usize = 6;
    pub const ADD_MICROS: usize = 7;
    pub const HARD: usize = 8;
    pub const ERROR: usize = 9;
    pub const SAMPLED: usize = 10;
}

/// The format of a fast read's result.
pub trait Form {
    /// The indices of the factor, the addend and the final summand in the slot.
    const WORDS: [usize; 3];
}

/// Nanoseconds since the clock's zero: last word + (sum >> 32).
pub struct Nanos;
impl Form for Nanos {
    const WORDS: [usize; 3] = [at::MULT, at::ADD, at::BASE];
}

/// Seconds (the last word) and nanoseconds (sum >> 32), which may be a second or more.
pub struct SecondNanos;
impl Form for SecondNanos {
    const WORDS: [usize; 3] = [at::MULT, at::ADD, at::SECOND];
}

/// Seconds (the last word) and microseconds (sum >> 43), which may be a second or more.
pub struct SecondMicros;
impl Form for SecondMicros {
    const WORDS: [usize; 3] = [at::MULT_MICROS, at::ADD_MICROS, at::SECOND];
}

/// The ring: `head`, and `SLOTS` slots (a power of two) of [`SLOT`] words.
pub struct Ring<'a, W, const SLOTS: usize> {
    pub head: &'a W,
    pub slots: &'a [[W; SLOT]; SLOTS],
}

impl<'a, W: Word, const SLOTS: usize> Ring<'a, W, SLOTS> {
    /// The number of the newest piece; zero if there is none.
    #[inline(always)]
    pub fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> &'a [W; SLOT] {
        &self.slots[number as usize % SLOTS]
    }

    /// Whether words copied from slot `number` are consistent. To be called after they are loaded.
    #[inline(always)]
    fn whole(&self, number: u64) -> bool {
        // Pairs with the writer's release fence: if a loaded word is of a later piece, so is this
        // head.
        W::fence(Ordering::Acquire);
        self.head.load(Ordering::Relaxed).wrapping_sub(number) < (SLOTS - 1) as u64
    }

    /// The fast read: the newest piece at the count that `counter` returns. `None` if there is no
    /// piece, or it is about to end, or has not begun: then the slow path is taken.
    ///
    /// `counter` is called when all loads have been issued, and nothing is loaded after it.
    #[inline(always)]
    pub fn read<F: Form>(&self, counter: impl FnOnce() -> Halves) -> Option<(u64, u64)> {
        let number = self.head();
        let slot = self.slot(number);
        let start = slot[at::START].load(Ordering::Relaxed);
        let soft = slot[at::SOFT].load(Ordering::Relaxed);
        let mult = slot[F::WORDS[0]].load(Ordering::Relaxed);
        let add = slot[F::WORDS[1]].load(Ordering::Relaxed);
        let last = slot[F::WORDS[2]].load(Ordering::Relaxed);
        if !self.whole(number) {
            return None;
        }
        let count = counter();
        // 32 bits are enough for the product and shorten the latency from the counter to the
        // result; whether the count is near enough for that is checked in parallel.
        let near = u64::from(count.low.wrapping_sub(start as u32));
        let sum = near.wrapping_mul(mult).wrapping_add(add);
        (count.whole().wrapping_sub(start) < soft).then_some((sum, last))
    }

    /// Piece `number`: the one at `head`, or an earlier one. `None` if it has been overwritten.
    pub fn piece(&self, number: u64) -> Option<Piece> {
        if number == 0 {
            return None;
        }
        let slot = self.slot(number);
        let load = |at: usize| slot[at].load(Ordering::Relaxed);
        let words = [
            at::START,
            at::SOFT,
            at::MULT,
            at::ADD,
            at::BASE,
            at::HARD,
            at::ERROR,
            at::SAMPLED,
        ]
        .map(load);
        let [start, soft, mult, add, base, hard, error, sampled] = words;
        self.whole(number).then_some(Piece {
            start,
            hard,
            soft,
            mult,
            base: (u128::from(base) << 32) + u128::from(add),
            error,
            sampled,
        })
    }

    /// Publishes the next piece. Only called by the writer that holds the lock.
    pub fn publish(&self, piece: &Piece) {
        let next = self.head.load(Ordering::Relaxed) + 1;
        // Orders the store of the current `head` (by the last call) before these words.
        W::fence(Ordering::Release);
        let slot = self.slot(next);
        let words: Words = piece.words();
        for (at, word) in [
            (at::START, words.start),
            (at::SOFT, words.soft),
            (at::MULT, words.mult),
            (at::ADD, words.add),
            (at::SECOND, words.second),
            (at::BASE, words.base),
            (at::MULT_MICROS, words.mult_micros),
            (at::ADD_MICROS, words.add_micros),
            (at::HARD, piece.hard),
            (at::ERROR, piece.error),
            (at::SAMPLED, piece.sampled),
        ] {
            slot[at].store(word, Ordering::Relaxed);
        }
        self.head.store(next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    //! All interleavings and reorderings that the memory model allows, by `loom`.

    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64 as Modelled;

    impl Word for Modelled {
        fn load(&self, order: Ordering) -> u64 {
            self.load(order)
        }
        fn store(&self, value: u64, order: Ordering) {
            self.store(value, order);
        }
        fn fence(order: Ordering) {
            loom::sync::atomic::fence(order);
        }
    }

    struct Memory {
        head: Modelled,
        slots: [[Modelled; SLOT]; 2],
    }

    impl Memory {
        fn new() -> Memory {
            let slot = || std::array::from_fn(|_| Modelled::new(0));
            Memory {
                head: Modelled::new(0),
                slots: [slot(), slot()],
            }
        }

        fn ring(&self) -> Ring<'_, Modelled, 2> {
            Ring {
                head: &self.head,
                slots: &self.slots,
            }
        }
    }

    /// A piece in which every word shows its number.
    fn numbered(number: u64) -> Piece {
        Piece {
            start: number,
            hard: 1000 + number,
            soft: 900 + number,
            mult: number << 32,
            base: u128::from(number) << 32,
            error: number,
            sampled: number,
        }
    }

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        // At most two preemptions of a thread that could continue: enough to break any sequence
        // lock that lacks a fence (the test below shows it), with a model that ends in seconds.
        builder.preemption_bound = Some(2);
        builder.check(check);
    }

    #[test]
    fn a_reader_sees_a_whole_piece_or_none() {
        model(|| {
            let memory = Arc::new(Memory::new());
            memory.ring().publish(&numbered(1));
            let writer = {
                let memory = memory.clone();
                loom::thread::spawn(move || {
                    memory.ring().publish(&numbered(2));
                    memory.ring().publish(&numbered(3));
                })
            };
            let ring = memory.ring();
            if let Some(piece) = ring.piece(ring.head()) {
                assert_eq!(piece, numbered(piece.start));
            }
            if let Some((sum, last)) = ring.read::<SecondNanos>(|| Halves::from(10)) {
                // Count 10 on the line of piece n: n + (10 - n) × n nanoseconds.
                let nanos = sum >> 32;
                assert!((1..=3).any(|n| nanos == n + (10 - n) * n), "{nanos}");
                assert_eq!(last, 0);
            }
            writer.join().unwrap();
        });
    }

    #[test]
    fn heads_do_not_run_backwards_for_a_reader() {
        model(|| {
            let memory = Arc::new(Memory::new());
            let writer = {
                let memory = memory.clone();
                loom::thread::spawn(move || {
                    memory.ring().publish(&numbered(1));
                    memory.ring().publish(&numbered(2));
                })
            };
            let ring = memory.ring();
            let first = ring.head();
            let seen = ring.piece(first).map_or(0, |piece| piece.start);
            let then = ring.piece(ring.head()).map_or(0, |piece| piece.start);
            assert!(then == 0 || then >= seen, "{then} after {seen}");
            writer.join().unwrap();
        });
    }
}

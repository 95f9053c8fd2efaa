//! One piece of the clock: a straight line from counts to nanoseconds, valid for a limited time.
//!
//! Times are in 32.32 fixed point: nanoseconds and 2⁻³² of them. A piece starts at exactly the
//! value where its predecessor ends, including the fraction, so that the clock as a whole is one
//! function of the counter that never decreases.

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// A line from counts to nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The first count at which it is valid.
    pub start: u64,
    /// For how many counts it is valid; fast reads use it for the first `soft` of them.
    pub hard: u64,
    /// After this many counts (fewer than `hard`), a reader makes the next piece.
    pub soft: u64,
    /// Nanoseconds per count, 32.32.
    pub mult: u64,
    /// The time at `start`, 32.32 nanoseconds.
    pub base: u128,
    /// How far the line could be from the kernel's clock when it was drawn, in nanoseconds.
    pub error: u64,
    /// The count at which the kernel's clock was last read for it.
    pub sampled: u64,
}

/// The longest piece in counts: a fast read multiplies 32 bits.
pub const MAX_COUNTS: u64 = u32::MAX as u64;
/// The longest piece in nanoseconds: half a second keeps the fast read's product within 64 bits.
pub const MAX_NANOS: u64 = SECOND / 2;

/// No piece: it covers no count.
pub const NOTHING: Piece = Piece {
    start: 0,
    hard: 0,
    soft: 0,
    mult: 0,
    base: 0,
    error: 0,
    sampled: 0,
};

/// No piece yet, but one will follow: readers that have used the kernel's clock so far must not
/// continue to, because the new piece begins at the kernel's time when this was published.
pub const CLOSED: Piece = Piece {
    error: 1,
    ..NOTHING
};

impl Piece {
    /// Whether the piece covers `count`.
    pub fn covers(&self, count: u64) -> bool {
        count.wrapping_sub(self.start) < self.hard
    }

    /// The time at `count`, 32.32 nanoseconds.
    pub fn exact(&self, count: u64) -> u128 {
        self.base + u128::from(count.wrapping_sub(self.start)) * u128::from(self.mult)
    }

    /// The time at `count` in whole nanoseconds.
    pub fn nanos(&self, count: u64) -> u64 {
        (self.exact(count) >> 32) as u64
    }

    /// The time at which it ends, 32.32 nanoseconds: no reader sees a later one from it.
    pub fn end(&self) -> u128 {
        self.exact(self.start.wrapping_add(self.hard))
    }

    /// How far a reading at `count` may be from the kernel's clock, in nanoseconds: the error when
    /// the line was drawn, plus what a change of the clock's rate from −500 to +500 ppm (NTP's
    /// limits) could have added since.
    pub fn error_at(&self, count: u64) -> u64 {
        let age = u128::from(count.wrapping_sub(self.sampled).min(MAX_COUNTS));
        self.error
            .saturating_add((((age * u128::from(self.mult)) >> 32) / 1000) as u64 + 1)
    }

    /// The words for fast reads; see [`Words`].
    pub fn words(&self) -> Words {
        let nanos = (self.base >> 32) as u64;
        let fraction = self.base as u32;
        let (second, nanos) = (nanos / SECOND, nanos % SECOND);
        let add = (nanos << 32) | u64::from(fraction);
        Words {
            start: self.start,
            soft: self.soft,
            mult: self.mult,
            add,
            second,
            base: second * SECOND,
            mult_micros: micros(self.mult),
            add_micros: micros(add),
        }
    }
}

/// Converts 32.32 nanoseconds to 21.43 microseconds, rounded up: so microseconds are never behind
/// nanoseconds that were read before them, and are ahead by less than a thousandth of a nanosecond.
fn micros(nanos: u64) -> u64 {
    (u128::from(nanos) << (43 - 32)).div_ceil(1000) as u64
}

/// The words for a fast read, chosen so that it multiplies once and never divides: `second` +
/// (`mult` × counts + `add`) ÷ 2³² nanoseconds, and the same for microseconds with `mult_micros`,
/// `add_micros` and 2⁴³.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    pub start: u64,
    pub soft: u64,
    pub mult: u64,
    pub add: u64,
    pub second: u64,
    /// `second` in nanoseconds.
    pub base: u64,
    pub mult_micros: u64,
    pub add_micros: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A piece of a counter with `hertz` that starts at `start` and lasts `nanos`.
    fn piece(start: u64, hertz: u64, base: u128, nanos: u64) -> Piece {
        let mult = ((u128::from(SECOND) << 32) / u128::from(hertz)) as u64;
        let hard = (u128::from(nanos) * u128::from(hertz) / u128::from(SECOND)) as u64;
        let hard = hard.clamp(1, MAX_COUNTS);
        Piece {
            start,
            hard,
            soft: hard,
            mult,
            base,
            error: 0,
            sampled: start,
        }
    }

    proptest! {
        /// The fast words give the same nanosecond as the exact line, also past the end of a
        /// second, and microseconds that are never behind it.
        #[test]
        fn the_fast_words_say_what_the_line_says(
            start: u64,
            hertz in 1_000u64..10_000_000_000,
            base in 0u128..(5_000_000_000u128 * u128::from(SECOND)) << 32,
            nanos in 1..MAX_NANOS,
            at in 0.0f64..1.0,
        ) {
            let piece = piece(start, hertz, base, nanos);
            let words = piece.words();
            let counts = ((piece.hard - 1) as f64 * at) as u64;
            let exact = piece.exact(start.wrapping_add(counts));

            let sum = counts * words.mult + words.add;
            prop_assert_eq!(words.base + (sum >> 32), (exact >> 32) as u64);

            let micros = words.second * 1_000_000
                + ((counts * words.mult_micros + words.add_micros) >> 43);
            let truth = ((exact >> 32) / 1000) as u64;
            prop_assert!(micros == truth || micros == truth + 1);
            // One ahead only if the nanoseconds are almost there.
            if micros > truth {
                let missing = u128::from(micros) * 1000 - (exact >> 32);
                prop_assert!(missing <= 1, "{missing} ns early");
            }
        }
    }
}

//! One look: a reading of the kernel's clock between two counts.

use super::{Memory, Source, Word};

/// A reading of the kernel's clock between two counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The count before.
    pub before: u64,
    /// Counts from before to after, plus one: the counter may be about to advance.
    pub width: u64,
    /// The kernel's time, in nanoseconds.
    pub nanos: u64,
}

impl Sample {
    /// The count at which the kernel's clock was read, plus or minus half the width.
    pub fn middle(&self) -> u64 {
        self.before.wrapping_add(self.width / 2)
    }

    fn take<S: Source>(source: &S) -> Sample {
        let before = source.counter_ordered();
        let nanos = source.kernel();
        let after = source.counter_ordered();
        Sample {
            before,
            width: after.wrapping_sub(before).wrapping_add(1),
            nanos,
        }
    }

    /// The tightest of up to three looks; stops at the first that is about as tight as usual.
    pub fn best<S: Source>(source: &S, words: Memory) -> Sample {
        let tightest = words.get(Word::Tightest);
        let mut best = Sample::take(source);
        for _ in 0..2 {
            if best.width <= tightest + tightest / 4 {
                break;
            }
            let other = Sample::take(source);
            if other.width < best.width {
                best = other;
            }
        }
        words.set(
            Word::Tightest,
            if tightest == 0 || best.width < tightest {
                best.width
            } else {
                // A 64th of the way, at least one count: adapts to a machine that has become
                // slower.
                tightest + (best.width - tightest).div_ceil(64)
            },
        );
        words.add(Word::Looks);
        best
    }

    /// The last look that was used.
    pub fn last(words: Memory) -> Sample {
        Sample::load(words, [Word::LastCount, Word::LastNanos, Word::LastWidth])
    }

    pub fn load(words: Memory, [count, nanos, width]: [Word; 3]) -> Sample {
        let width = words.get(width);
        Sample {
            before: words.get(count).wrapping_sub(width / 2),
            width,
            nanos: words.get(nanos),
        }
    }

    pub fn store(&self, words: Memory, [count, nanos, width]: [Word; 3]) {
        words.set(count, self.middle());
        words.set(nanos, self.nanos);
        words.set(width, self.width);
    }
}

//! How often blocks were used recently, in little memory: a count-min sketch of four rows of
//! four-bit counters (Cormode and Muthukrishnan, 2005) that is halved periodically (TinyLFU).

use crate::BlockId;
use crate::ghosts::mix;

/// Uses after which all counters are halved, per block of the cache (the paper's sample size).
const SAMPLE: u64 = 10;
/// Counters of a row, per block of the cache. Two bytes per block in all four rows would be enough
/// for a large cache; in a small one, blocks must be distinguishable, too.
const WIDTH: usize = 4;
const ROWS: u32 = 4;
const MOST: u64 = 15;

#[derive(Debug)]
pub(crate) struct Sketch {
    /// Sixteen counters per word; the rows one after the other.
    words: Vec<u64>,
    /// Counters of a row, a power of two.
    width: usize,
    uses: u64,
    sample: u64,
}

impl Sketch {
    /// Creates a sketch for a cache of about this many blocks.
    pub fn new(blocks: usize) -> Sketch {
        let width = (blocks * WIDTH).max(64).next_power_of_two();
        Sketch {
            words: vec![0; width * ROWS as usize / 16],
            width,
            uses: 0,
            sample: SAMPLE * blocks.max(1) as u64,
        }
    }

    /// Word and bit of each of a block's counters.
    fn places(&self, id: BlockId) -> impl Iterator<Item = (usize, u32)> + use<> {
        let mixed = mix(id);
        let width = self.width;
        // Two halves of the hash give all four places (Kirsch and Mitzenmacher, 2006).
        let (one, two) = (mixed as usize, (mixed >> 32) as usize | 1);
        (0..ROWS as usize).map(move |row| {
            let counter = row * width + (one.wrapping_add(row.wrapping_mul(two)) & (width - 1));
            (counter / 16, (counter % 16 * 4) as u32)
        })
    }

    /// Recent uses of a block, at most 15: never too few, seldom too many.
    pub fn count(&self, id: BlockId) -> u64 {
        let counts = self
            .places(id)
            .map(|(word, bit)| self.words[word] >> bit & MOST);
        counts.min().unwrap_or(0)
    }

    /// Counts a use of a block.
    pub fn used(&mut self, id: BlockId) {
        for (word, bit) in self.places(id) {
            if self.words[word] >> bit & MOST < MOST {
                self.words[word] += 1 << bit;
            }
        }
        self.uses += 1;
        if self.uses >= self.sample {
            self.uses /= 2;
            for word in &mut self.words {
                *word = *word >> 1 & 0x7777_7777_7777_7777;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_never_too_small_and_fade() {
        let id = |block| BlockId { film: 1, block };
        let mut sketch = Sketch::new(100);
        for block in 0..100 {
            (0..block % 8).for_each(|_| sketch.used(id(block)));
        }
        let over = (0..100)
            .map(|block| sketch.count(id(block)) - u64::from(block % 8))
            .filter(|over| *over > 0);
        assert!(over.count() < 10);
        (0..700).for_each(|_| sketch.used(id(200)));
        assert!(sketch.count(id(7)) < 7, "faded");
        assert!(sketch.count(id(200)) >= 7);
    }
}

//! Recent misses of blocks. At the limit, the oldest is forgotten first.

use std::collections::VecDeque;

use reelway_determinism::FixedMap;

/// Counts misses by a hash of the block's name. Blocks with the same hash share a count.
#[derive(Debug)]
pub(crate) struct Missed {
    counts: FixedMap<u64, u32>,
    order: VecDeque<u64>,
    most: usize,
}

impl Missed {
    /// Remembers at most `most` blocks.
    pub fn new(most: usize) -> Missed {
        Missed {
            counts: FixedMap::default(),
            order: VecDeque::new(),
            most: most.max(1),
        }
    }

    /// Counts a miss. Returns whether there have been `enough` now; if so, the count is dropped.
    pub fn note(&mut self, name: u64, enough: u32) -> bool {
        if enough <= 1 {
            return true;
        }
        if let Some(count) = self.counts.get_mut(&name) {
            *count += 1;
            if *count < enough {
                return false;
            }
            self.counts.remove(&name);
            // Its entry in `order` is removed when it becomes the oldest.
            return true;
        }
        while self.order.len() >= self.most {
            if let Some(oldest) = self.order.pop_front() {
                self.counts.remove(&oldest);
            }
        }
        self.counts.insert(name, 1);
        self.order.push_back(name);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_let_in_at_its_nth_miss_and_the_oldest_are_forgotten() {
        let mut missed = Missed::new(2);
        assert!(missed.note(1, 1), "at once");
        assert!(!missed.note(1, 3) && !missed.note(1, 3) && missed.note(1, 3));
        assert!(!missed.note(2, 2) && !missed.note(3, 2) && !missed.note(4, 2));
        assert!(!missed.note(2, 2), "forgotten: it counts anew");
        assert!(missed.note(4, 2));
        for name in 0..1000 {
            missed.note(name, 2);
        }
        assert!(missed.counts.len() <= 2 && missed.order.len() <= 2);
    }
}

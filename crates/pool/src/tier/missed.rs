//! Recent misses of blocks. At the limit, the block that began to count first is forgotten first.

use std::collections::VecDeque;

use reelway_determinism::FixedMap;

/// Counts misses by a hash of the block's name. Blocks with the same hash share a count.
#[derive(Debug)]
pub(crate) struct Missed {
    counts: FixedMap<u64, Count>,
    /// The beginnings of counts, oldest first, also of those that were dropped since.
    order: VecDeque<Beginning>,
    most: usize,
    begun: u64,
}

#[derive(Debug)]
struct Count {
    misses: u32,
    serial: u64,
}

/// The beginning of a block's count. A block that counts anew gets another serial number.
#[derive(Debug)]
struct Beginning {
    name: u64,
    serial: u64,
}

impl Missed {
    /// Remembers at most `most` blocks.
    pub fn new(most: usize) -> Missed {
        Missed {
            counts: FixedMap::default(),
            order: VecDeque::new(),
            most: most.max(1),
            begun: 0,
        }
    }

    /// Counts a miss. Returns whether there have been `enough` now; if so, the count is dropped.
    pub fn note(&mut self, name: u64, enough: u32) -> bool {
        if enough <= 1 {
            return true;
        }
        if let Some(count) = self.counts.get_mut(&name) {
            count.misses += 1;
            if count.misses < enough {
                return false;
            }
            self.counts.remove(&name);
            return true;
        }
        while self.order.len() >= self.most {
            self.forget_oldest();
        }
        let serial = self.begun;
        self.begun += 1;
        self.counts.insert(name, Count { misses: 1, serial });
        self.order.push_back(Beginning { name, serial });
        false
    }

    fn forget_oldest(&mut self) {
        let Some(Beginning { name, serial }) = self.order.pop_front() else {
            return;
        };
        // The block may have been admitted meanwhile, and count anew.
        if self
            .counts
            .get(&name)
            .is_some_and(|count| count.serial == serial)
        {
            self.counts.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_admitted_at_its_nth_miss_and_the_oldest_are_forgotten() {
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

    #[test]
    fn a_block_that_was_admitted_counts_anew_in_full() {
        let mut missed = Missed::new(3);
        assert!(!missed.note(1, 2) && missed.note(1, 2));
        assert!(!missed.note(1, 2) && !missed.note(2, 2));
        assert!(
            !missed.note(3, 2),
            "the first count of block 1 is forgotten"
        );
        assert!(missed.note(1, 2), "its second one is not");
    }
}

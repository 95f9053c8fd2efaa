//! How often blocks were missed lately: of as many as are remembered, the oldest is forgotten first.

use std::collections::VecDeque;

use reelway_determinism::FixedMap;

/// Counts by a hash of the block's name; who shares one shares its count.
#[derive(Debug)]
pub(crate) struct Missed {
    counts: FixedMap<u64, u32>,
    order: VecDeque<u64>,
    most: usize,
}

impl Missed {
    /// Remembers at most so many.
    pub fn new(most: usize) -> Missed {
        Missed {
            counts: FixedMap::default(),
            order: VecDeque::new(),
            most: most.max(1),
        }
    }

    /// One more miss; whether there were `enough` now, and then it is forgotten.
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
            // Its place in the order goes when its turn comes.
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

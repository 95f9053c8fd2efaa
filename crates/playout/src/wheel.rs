//! Which streams are due in which turn.

/// The number of turns that are distinguished; streams that are due later are looked at
/// again in between.
const TURNS: usize = 2048;

/// No entry.
const NONE: u32 = u32::MAX;

/// A ring of turns, each with the numbers of the streams that are due in it. Entries are never
/// removed before their time: a postponed stream turns out not to be due. It allocates only when it
/// holds more entries than ever before.
pub struct Wheel {
    /// The first entry of each turn.
    turns: Box<[u32]>,
    /// Streams, each with the index of the next entry of its turn; for unused entries, of the next
    /// unused one.
    entries: Vec<(u32, u32)>,
    /// The first unused entry.
    unused: u32,
    /// A bit for each turn that has entries.
    filled: [u64; TURNS / 64],
    /// The first turn not taken yet.
    next: u64,
}

impl Wheel {
    /// Creates an empty wheel whose first turn is number `turn`.
    pub fn new(turn: u64) -> Wheel {
        Wheel {
            turns: vec![NONE; TURNS].into_boxed_slice(),
            entries: Vec::new(),
            unused: NONE,
            filled: [0; TURNS / 64],
            next: turn,
        }
    }

    /// Puts a stream into a turn: into the first one not taken yet if `turn` is past, into the last
    /// one of the ring if it is too far ahead. Returns the turn that was used.
    pub fn put(&mut self, turn: u64, stream: u32) -> u64 {
        let turn = turn.clamp(self.next, self.next + TURNS as u64 - 1);
        let slot = turn as usize % TURNS;
        let entry = (stream, self.turns[slot]);
        self.turns[slot] = match self.entries.get_mut(self.unused as usize) {
            Some(unused) => {
                let at = std::mem::replace(&mut self.unused, unused.1);
                *unused = entry;
                at
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.filled[slot / 64] |= 1 << (slot % 64);
        turn
    }

    /// Returns the first turn not taken yet.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Moves the streams of all turns up to and including `turn` into `due`, with their turns.
    pub fn take(&mut self, turn: u64, due: &mut Vec<(u32, u64)>) {
        if turn < self.next {
            return;
        }
        let turns = (turn - self.next + 1).min(TURNS as u64);
        let first = self.next;
        // After a long stop every slot has passed; an entry's turn is the one for which it
        // was put in.
        for at in first..first + turns {
            let slot = at as usize % TURNS;
            if self.filled[slot / 64] >> (slot % 64) & 1 == 1 {
                self.filled[slot / 64] &= !(1 << (slot % 64));
                let mut entry = std::mem::replace(&mut self.turns[slot], NONE);
                while entry != NONE {
                    let (stream, next) = self.entries[entry as usize];
                    due.push((stream, at));
                    self.entries[entry as usize].1 = self.unused;
                    self.unused = entry;
                    entry = next;
                }
            }
        }
        self.next = turn + 1;
    }

    /// Returns the next turn that has entries.
    pub fn next_filled(&self) -> Option<u64> {
        let start = self.next as usize % TURNS;
        // Word by word, beginning and ending within the word of the start.
        for step in 0..=TURNS / 64 {
            let word = (start / 64 + step) % (TURNS / 64);
            let mut bits = self.filled[word];
            if step == 0 {
                // The bits before the start come last, when this word is looked at again.
                bits &= u64::MAX << (start % 64);
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                return Some(self.next + ((slot + TURNS - start) % TURNS) as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn streams_come_in_their_turns() {
        let mut wheel = Wheel::new(5000);
        wheel.put(5003, 1);
        wheel.put(5001, 2);
        wheel.put(4000, 3);
        let mut due = Vec::new();
        wheel.take(5001, &mut due);
        assert_eq!(due, [(3, 5000), (2, 5001)]);
        assert_eq!(wheel.next_filled(), Some(5003));
        assert_eq!(wheel.put(1_000_000, 4), 5002 + 2047);
    }

    proptest! {
        #[test]
        fn everyone_put_in_comes_out_once_and_not_before_the_turn(
            puts in proptest::collection::vec((0u64..3000, 0u64..40), 1..200),
        ) {
            let mut wheel = Wheel::new(100);
            let mut expected = Vec::new();
            let mut seen = Vec::new();
            let mut now = 99;
            for (stream, (ahead, step)) in puts.into_iter().enumerate() {
                let turn = wheel.put(now + ahead, stream as u32);
                expected.push((stream as u32, turn));
                let next = wheel.next_filled();
                now += step;
                let before = seen.len();
                wheel.take(now, &mut seen);
                prop_assert!(seen[before..].iter().all(|(_, turn)| *turn <= now));
                if let Some((_, first)) = seen.get(before) {
                    prop_assert_eq!(next, Some(*first));
                }
            }
            wheel.take(now + 5000, &mut seen);
            seen.sort_unstable();
            prop_assert_eq!(seen, expected);
            prop_assert_eq!(wheel.next_filled(), None);
        }
    }
}

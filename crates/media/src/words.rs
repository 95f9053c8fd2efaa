//! Long lists of numbers, sorted if required, which may lie in scratch space.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::scratch::Scratch;
use crate::spool::Spool;

/// The number of numbers sorted in memory at once.
const RUN: usize = 64 << 10;
/// The number of numbers per run held in memory during a merge: for the maximum number of samples,
/// all runs together take less than a megabyte.
const WINDOW: usize = 256;

/// A list of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words(Spool<8>);

impl Words {
    /// Creates an empty list.
    pub fn new(scratch: &Scratch) -> Words {
        Words(Spool::new(scratch))
    }

    /// Returns these numbers in ascending order.
    pub fn sorted(numbers: impl Iterator<Item = i64>, scratch: &Scratch) -> Words {
        let mut runs = Words::new(scratch);
        let mut run = Vec::new();
        for number in numbers {
            if run.len() == RUN {
                runs.add_sorted(&mut run);
            }
            run.push(number);
        }
        runs.add_sorted(&mut run);
        match runs.len() <= RUN {
            true => runs,
            false => runs.merged(scratch),
        }
    }

    fn add_sorted(&mut self, run: &mut Vec<i64>) {
        run.sort_unstable();
        run.drain(..).for_each(|number| self.push(number));
    }

    /// Merges runs of [`RUN`] sorted numbers into one list.
    fn merged(&self, scratch: &Scratch) -> Words {
        let starts = (0..self.len()).step_by(RUN);
        let mut runs: Vec<Run> = starts.map(|start| Run::new(self, start)).collect();
        // The next number of each run.
        let mut nexts = BinaryHeap::new();
        for (nth, run) in runs.iter_mut().enumerate() {
            nexts.extend(run.next().map(|number| Reverse((number, nth))));
        }
        let mut all = Words::new(scratch);
        while let Some(Reverse((number, nth))) = nexts.pop() {
            all.push(number);
            nexts.extend(runs[nth].next().map(|number| Reverse((number, nth))));
        }
        all
    }

    /// Appends a number.
    pub fn push(&mut self, number: i64) {
        self.0.push(number.to_le_bytes());
    }

    /// Returns how many numbers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Iterates over the numbers in order; stops early if they cannot be read back.
    pub fn iter(&self) -> impl Iterator<Item = i64> + Clone + '_ {
        self.0.records().map(i64::from_le_bytes)
    }

    /// Returns the number at an index.
    pub fn get(&self, at: usize) -> Option<i64> {
        let mut bytes = [0; 8];
        let is_read = at < self.len() && self.0.read_at(at * 8, &mut bytes);
        is_read.then_some(i64::from_le_bytes(bytes))
    }

    /// Returns the last number.
    pub fn last(&self) -> Option<i64> {
        self.0.last().copied().map(i64::from_le_bytes)
    }
}

/// A range of a list, read in order.
struct Run<'a> {
    of: &'a Words,
    /// The numbers that are not in memory yet.
    next: usize,
    end: usize,
    /// The numbers in memory, in reverse order.
    window: Vec<i64>,
}

impl Run<'_> {
    fn new(of: &Words, start: usize) -> Run<'_> {
        Run {
            of,
            next: start,
            end: (start + RUN).min(of.len()),
            window: Vec::new(),
        }
    }
}

impl Iterator for Run<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        if self.window.is_empty() {
            let mut bytes = [[0; 8]; WINDOW];
            let bytes = &mut bytes[..WINDOW.min(self.end - self.next)];
            if !self.of.0.read_at(self.next * 8, bytes.as_flattened_mut()) {
                return None;
            }
            self.next += bytes.len();
            let numbers = bytes.iter().rev();
            self.window
                .extend(numbers.map(|bytes| i64::from_le_bytes(*bytes)));
        }
        self.window.pop()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn sorted_words_are_those_of_a_sorted_list(
            some in prop::collection::vec(any::<i64>(), 0..300), times in prop_oneof![Just(1), 1usize..1200],
        ) {
            let numbers = some.iter().cycle().take(some.len() * times);
            let numbers = (0i64..).zip(numbers).map(|(nth, number)| number.wrapping_add(nth));
            let mut sorted: Vec<i64> = numbers.clone().collect();
            let words = Words::sorted(numbers, &Scratch::default());
            sorted.sort_unstable();
            prop_assert_eq!(words.len(), sorted.len());
            prop_assert!(words.iter().eq(sorted.iter().copied()));
            for at in [0, sorted.len() / 2, sorted.len()] {
                prop_assert_eq!(words.get(at), sorted.get(at).copied());
            }
            prop_assert_eq!(words.last(), sorted.last().copied());
        }
    }
}

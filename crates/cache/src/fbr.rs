//! FBR, frequency-based replacement (Robinson and Devarakonda, "Data cache management using
//! frequency-based replacement", SIGMETRICS 1990).
//!
//! One list in the order of use, in three sections by position. A hit makes the block the newest,
//! and counts unless the block is in the new section, so that uses close to each other count as
//! one. The victim is the block of the old section with the lowest count, and among those the least
//! recently used. When the average count exceeds a limit, all counts are halved (rounded up).

use std::time::Duration;

use crate::lists::{ListId, Lists};
use crate::{BlockId, Policy, Slot};

const NEW: ListId = 0;
const MIDDLE: ListId = 1;
/// The old section's lists begin here: one for each count.
const OLD: ListId = 1 << 30;

/// The highest count.
const MOST: u32 = OLD - 1;

/// Parameters that the paper leaves to tuning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Options {
    /// The new section's share.
    pub new: f64,
    /// The old section's share; both together are at most 1.
    pub old: f64,
    /// The average count at which counts are halved.
    pub average: u32,
}

#[derive(Debug)]
pub(crate) struct Fbr {
    lists: Lists,
    counts: Vec<u32>,
    sum: u64,
    new: u64,
    middle: u64,
    average: u64,
}

impl Fbr {
    pub fn new(options: Options, capacity: u64, slots: usize) -> Fbr {
        let share = |share: f64| (capacity as f64 * share) as u64;
        let new = share(options.new);
        Fbr {
            lists: Lists::new(slots),
            counts: vec![0; slots],
            sum: 0,
            new,
            middle: (capacity - new).saturating_sub(share(options.old)),
            average: options.average.into(),
        }
    }

    /// Moves blocks that exceed a section's size to the next section.
    fn settle(&mut self) {
        while self.lists.weight(NEW) > self.new
            && let Some(slot) = self.lists.oldest(NEW)
        {
            self.lists.to(slot, MIDDLE);
        }
        while self.lists.weight(MIDDLE) > self.middle
            && let Some(slot) = self.lists.oldest(MIDDLE)
        {
            self.lists.to(slot, OLD + self.counts[slot as usize]);
        }
    }

    fn count(&mut self, slot: Slot) {
        let count = &mut self.counts[slot as usize];
        *count = (*count + 1).min(MOST);
        self.sum += 1;
        if self.sum > self.average * self.lists.len() as u64 {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let all: Vec<Slot> = self.lists.across(..).collect();
        self.sum = 0;
        for slot in &all {
            let count = &mut self.counts[*slot as usize];
            *count = count.div_ceil(2);
            self.sum += u64::from(*count);
        }
        // In the order of the previous count, then of use: counts that become equal are merged in
        // that order. Which of their blocks is older is no longer known, just as in the paper's own
        // chains.
        for slot in all {
            if self.lists.list(slot).is_some_and(|list| list >= OLD) {
                let list = OLD + self.counts[slot as usize];
                self.lists.to(slot, list);
            }
        }
    }

    fn take(&mut self, slot: Slot) -> bool {
        let taken = self.lists.take(slot).is_some();
        if taken {
            self.sum -= u64::from(self.counts[slot as usize]);
        }
        taken
    }
}

impl Policy for Fbr {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        let Some(list) = self.lists.list(slot) else {
            return;
        };
        self.lists.to(slot, NEW);
        if list != NEW {
            self.count(slot);
        }
        self.settle();
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        let at = slot as usize;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = 0;
        self.lists.push(slot, id, weight, NEW);
        self.count(slot);
        self.settle();
    }

    fn victim(
        &mut self,
        _incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        let mut find =
            |mut slots: Box<dyn Iterator<Item = Slot> + '_>| slots.find(|s| evictable(*s));
        let slot = find(Box::new(self.lists.across(OLD..)))
            .or_else(|| find(Box::new(self.lists.iter(MIDDLE))))
            .or_else(|| find(Box::new(self.lists.iter(NEW))))?;
        self.take(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.take(slot);
    }
}

//! SIEVE (Zhang and others, NSDI 2024): one list in the order of reading, a mark for each block that was
//! hit, and a hand that moves from the oldest to the newest, clearing marks, until it finds a block
//! without one.

use std::time::Duration;

use crate::lists::Lists;
use crate::{BlockId, Policy, Slot};

/// The only list.
const ALL: u32 = 0;

#[derive(Debug)]
pub(crate) struct Sieve {
    lists: Lists,
    marked: Vec<bool>,
    /// The position of the hand; `None` for the oldest.
    hand: Option<Slot>,
}

impl Sieve {
    pub fn new(slots: usize) -> Sieve {
        Sieve {
            lists: Lists::new(slots),
            marked: vec![false; slots],
            hand: None,
        }
    }

    fn take(&mut self, slot: Slot) {
        if self.hand == Some(slot) {
            self.hand = self.lists.newer(slot);
        }
        self.lists.take(slot);
    }
}

impl Policy for Sieve {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        if let Some(mark) = self.marked.get_mut(slot as usize) {
            *mark = true;
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        let at = slot as usize;
        if at >= self.marked.len() {
            self.marked.resize(at + 1, false);
        }
        self.marked[at] = false;
        self.lists.push(slot, id, weight, ALL);
    }

    fn victim(
        &mut self,
        _incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        // At most two rounds and a rest: the first removes all marks, the second meets every block.
        for _ in 0..=2 * self.lists.len() {
            let slot = self.hand.or_else(|| self.lists.iter(ALL).next())?;
            if !std::mem::take(&mut self.marked[slot as usize]) && evictable(slot) {
                self.take(slot);
                return Some(slot);
            }
            self.hand = self.lists.newer(slot);
        }
        None
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.take(slot);
    }
}

//! LRU-K (O'Neil, O'Neil and Weikum, "The LRU-K page replacement algorithm for database disk buffering",
//! SIGMOD 1993): evicts the block whose K-th last use is longest ago; among blocks
//! used less than K times, the least recently used.
//!
//! Uses are counted one by one (the paper's correlated reference period is zero), and their number
//! is the time. The uses of evicted blocks are remembered for as many blocks as `history` says (the
//! paper's retained information period is a time).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::ghosts::Ghosts;
use crate::{BlockId, Policy, Slot};

/// The only list of remembered blocks.
const PAST: u32 = 0;
/// An empty slot.
const EMPTY: BlockId = BlockId {
    film: u32::MAX,
    block: u32::MAX,
};

#[derive(Debug)]
pub(crate) struct LruK {
    k: usize,
    /// Uses so far.
    tick: u32,
    /// The block in each slot, and its weight.
    held: Vec<(BlockId, u32)>,
    /// The last `k` uses of each slot, the latest first; 0 for none.
    uses: Vec<u32>,
    /// K-th last use, last use, slot.
    order: BTreeSet<(u32, u32, Slot)>,
    past: Ghosts,
    past_uses: Vec<u32>,
    most_past: u64,
}

impl LruK {
    /// `k` is at least 1; `history` is the size of the history relative to the cache.
    pub fn new(k: usize, history: f64, capacity: u64, slots: usize) -> LruK {
        LruK {
            k,
            tick: 0,
            held: Vec::with_capacity(slots),
            uses: Vec::with_capacity(slots * k),
            order: BTreeSet::new(),
            past: Ghosts::new((slots as f64 * history) as usize),
            past_uses: Vec::with_capacity((slots as f64 * history) as usize * k + 8 * k),
            most_past: (capacity as f64 * history) as u64,
        }
    }

    fn key(&self, slot: Slot) -> (u32, u32, Slot) {
        let at = slot as usize * self.k;
        (self.uses[at + self.k - 1], self.uses[at], slot)
    }

    /// Notes a use of the block in a slot.
    fn used(&mut self, slot: Slot) {
        if self.tick == u32::MAX {
            self.halve();
        }
        self.tick += 1;
        let at = slot as usize * self.k;
        let uses = &mut self.uses[at..at + self.k];
        uses.rotate_right(1);
        uses[0] = self.tick;
        let key = self.key(slot);
        self.order.insert(key);
    }

    /// Halves all times, so that the counter never overflows; the relevant order stays.
    fn halve(&mut self) {
        self.tick /= 2;
        let all = self.uses.iter_mut().chain(&mut self.past_uses);
        all.for_each(|tick| *tick /= 2);
        let order = std::mem::take(&mut self.order);
        self.order = order.into_iter().map(|(.., slot)| self.key(slot)).collect();
    }

    fn take(&mut self, slot: Slot) -> Option<(BlockId, u32)> {
        let (id, weight) = *self.held.get(slot as usize)?;
        if id == EMPTY {
            return None;
        }
        let key = self.key(slot);
        self.order.remove(&key);
        self.held[slot as usize].0 = EMPTY;
        Some((id, weight))
    }
}

impl Policy for LruK {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        if self
            .held
            .get(slot as usize)
            .is_some_and(|held| held.0 != EMPTY)
        {
            let key = self.key(slot);
            self.order.remove(&key);
            self.used(slot);
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        let at = slot as usize;
        if at >= self.held.len() {
            self.held.resize(at + 1, (EMPTY, 0));
            self.uses.resize((at + 1) * self.k, 0);
        }
        self.held[at] = (id, weight);
        let uses = &mut self.uses[at * self.k..(at + 1) * self.k];
        match self.past.take(id) {
            Some((place, _)) => {
                let place = place as usize * self.k;
                uses.copy_from_slice(&self.past_uses[place..place + self.k]);
            }
            None => uses.fill(0),
        }
        self.used(slot);
        self.past.trim(PAST, self.most_past, None);
    }

    fn victim(
        &mut self,
        incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        let mut order = self.order.iter();
        let slot = order.find_map(|(.., slot)| evictable(*slot).then_some(*slot))?;
        let (id, weight) = self.take(slot)?;
        // The incoming block is about to leave the history, so its place does not count.
        let again = self.past.list(incoming).map_or(0, |_| weight.into());
        let place = self.past.push(id, weight, PAST) as usize * self.k;
        if place >= self.past_uses.len() {
            self.past_uses.resize(place + self.k, 0);
        }
        let at = slot as usize * self.k;
        self.past_uses[place..place + self.k].copy_from_slice(&self.uses[at..at + self.k]);
        self.past.trim(PAST, self.most_past + again, Some(incoming));
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.take(slot);
    }
}

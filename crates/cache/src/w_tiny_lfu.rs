//! W-TinyLFU (Einziger, Friedman and Manes, "TinyLFU: a highly efficient cache admission policy",
//! ACM Transactions on Storage 13(4), 2017): a small window in the order of use, in front of a
//! segmented main part that only admits a block that was recently used more often than the block it
//! would evict.
//!
//! The paper's doorkeeper, a filter that keeps blocks used once out of the counters, is left out:
//! it saves memory where counters are expensive.

use std::time::Duration;

use crate::lists::Lists;
use crate::sketch::Sketch;
use crate::slru::protect;
use crate::{BlockId, Policy, Slot};

const PROBATION: u32 = 0;
const PROTECTED: u32 = 1;
const WINDOW: u32 = 2;

/// The protected segment's share of the main part, as in the paper.
const SHARE: f64 = 0.8;

#[derive(Debug)]
pub(crate) struct WTinyLfu {
    lists: Lists,
    sketch: Sketch,
    window: u64,
    main: u64,
    protected: u64,
}

impl WTinyLfu {
    /// `window` is the window's share of the cache (the paper: 0.01); it holds at least one block.
    pub fn new(window: f64, capacity: u64, slots: usize) -> WTinyLfu {
        let least = capacity.div_ceil(slots.max(1) as u64);
        let window = ((capacity as f64 * window) as u64).max(least);
        let main = capacity.saturating_sub(window);
        WTinyLfu {
            lists: Lists::new(slots),
            sketch: Sketch::new(slots),
            window,
            main,
            protected: (main as f64 * SHARE) as u64,
        }
    }

    fn main_weight(&self) -> u64 {
        self.lists.weight(PROBATION) + self.lists.weight(PROTECTED)
    }

    /// Moves blocks from the full window to the main part while that has room.
    fn settle(&mut self) {
        while self.lists.weight(WINDOW) > self.window && self.main_weight() < self.main {
            let Some(slot) = self.lists.oldest(WINDOW) else {
                return;
            };
            self.lists.to(slot, PROBATION);
        }
    }
}

impl Policy for WTinyLfu {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        let Some(id) = self.lists.id(slot) else {
            return;
        };
        self.sketch.used(id);
        match self.lists.list(slot) {
            Some(WINDOW) => self.lists.to(slot, WINDOW),
            _ => protect(&mut self.lists, slot, PROBATION, PROTECTED, self.protected),
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        self.sketch.used(id);
        self.lists.push(slot, id, weight, WINDOW);
        self.settle();
    }

    fn victim(
        &mut self,
        _incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        let mut find =
            |lists: std::ops::Range<u32>| self.lists.across(lists).find(|slot| evictable(*slot));
        let old = find(PROBATION..WINDOW);
        // Without room for the incoming block, the window gives one up, to the main part or for
        // good.
        let candidate = match self.lists.weight(WINDOW) >= self.window {
            true => find(WINDOW..WINDOW + 1),
            false => None,
        };
        let count = |slot: Slot| self.lists.id(slot).map_or(0, |id| self.sketch.count(id));
        let slot = match (candidate, old) {
            (Some(new), Some(old)) if count(new) > count(old) => {
                self.lists.take(old);
                self.lists.to(new, PROBATION);
                return Some(old);
            }
            (Some(new), _) => new,
            (None, Some(old)) => old,
            (None, None) => find(WINDOW..WINDOW + 1)?,
        };
        self.lists.take(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.lists.take(slot);
    }
}

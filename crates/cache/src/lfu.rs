//! LFU: evicts the block with the fewest hits since it was read, and among those the least recently used.

use std::time::Duration;

use crate::lists::Lists;
use crate::{BlockId, Policy, Slot};

/// The highest count of hits.
const MOST: u32 = 1 << 30;

/// Least frequently used. Hits are forgotten with the block. There is a list for each count of
/// hits.
#[derive(Debug)]
pub(crate) struct Lfu {
    lists: Lists,
}

impl Lfu {
    pub fn new(slots: usize) -> Lfu {
        Lfu {
            lists: Lists::new(slots),
        }
    }
}

impl Policy for Lfu {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        if let Some(hits) = self.lists.list(slot) {
            self.lists.to(slot, (hits + 1).min(MOST));
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        self.lists.push(slot, id, weight, 0);
    }

    fn victim(
        &mut self,
        _incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        let slot = self.lists.across(..).find(|slot| evictable(*slot))?;
        self.lists.take(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.lists.take(slot);
    }
}

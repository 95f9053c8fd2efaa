//! LRU: evicts the least recently used block. And FIFO, which is LRU that ignores hits.

use std::time::Duration;

use crate::lists::Lists;
use crate::{BlockId, Policy, Slot};

/// The only list.
const ALL: u32 = 0;

/// Least recently used, or first in, first out.
#[derive(Debug)]
pub(crate) struct Lru {
    lists: Lists,
    hits_count: bool,
}

impl Lru {
    pub fn new(slots: usize) -> Lru {
        Lru {
            lists: Lists::new(slots),
            hits_count: true,
        }
    }

    pub fn fifo(slots: usize) -> Lru {
        Lru {
            hits_count: false,
            ..Lru::new(slots)
        }
    }
}

impl Policy for Lru {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        if self.hits_count {
            self.lists.to(slot, ALL);
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        self.lists.push(slot, id, weight, ALL);
    }

    fn victim(
        &mut self,
        _incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        let slot = self.lists.iter(ALL).find(|slot| evictable(*slot))?;
        self.lists.take(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.lists.take(slot);
    }
}

//! SLRU (Karedla, Love and Wherry, "Caching strategies to improve disk system performance", IEEE
//! Computer 27(3), 1994): blocks that were hit are protected from blocks that were only read.
//!
//! A block that is read enters the probationary segment. A hit makes it the newest of the protected
//! segment; if that gets too large, its oldest block returns to the probationary segment as the
//! newest there. The oldest block of the probationary segment is evicted.

use std::time::Duration;

use crate::lists::Lists;
use crate::{BlockId, Policy, Slot};

const PROBATION: u32 = 0;
const PROTECTED: u32 = 1;

#[derive(Debug)]
pub(crate) struct Slru {
    lists: Lists,
    protected: u64,
}

impl Slru {
    /// `protected` is the protected segment's share of the cache.
    pub fn new(protected: f64, capacity: u64, slots: usize) -> Slru {
        Slru {
            lists: Lists::new(slots),
            protected: (capacity as f64 * protected) as u64,
        }
    }
}

/// Updates a segmented list after a hit on `slot`, which is on the list `protected` or `probation`.
pub(crate) fn protect(lists: &mut Lists, slot: Slot, probation: u32, protected: u32, most: u64) {
    lists.to(slot, protected);
    while lists.weight(protected) > most {
        let Some(oldest) = lists.oldest(protected) else {
            return;
        };
        lists.to(oldest, probation);
    }
}

impl Policy for Slru {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        protect(&mut self.lists, slot, PROBATION, PROTECTED, self.protected);
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        self.lists.push(slot, id, weight, PROBATION);
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

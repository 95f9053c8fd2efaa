//! ARC (Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003).
//!
//! T1 holds blocks used once recently, T2 blocks used more often; B1 and B2 remember blocks evicted
//! from them. Reading a block again that B1 remembers makes T1's target larger; with B2, smaller.

use std::time::Duration;

use crate::ghosts::Ghosts;
use crate::lists::Lists;
use crate::{BlockId, Policy, Slot};

/// T1 among the blocks in memory, B1 among those remembered.
const ONCE: u32 = 0;
/// T2 and B2.
const OFTEN: u32 = 1;

#[derive(Debug)]
pub(crate) struct Arc {
    lists: Lists,
    past: Ghosts,
    capacity: u64,
    /// The paper's p: the target weight of T1.
    goal: f64,
    /// The block that was read again and has already moved the goal.
    moved_for: Option<BlockId>,
}

impl Arc {
    pub fn new(capacity: u64, slots: usize) -> Arc {
        Arc {
            lists: Lists::new(slots),
            past: Ghosts::new(slots),
            capacity,
            goal: 0.0,
            moved_for: None,
        }
    }

    /// Moves the goal once for each block that is read again. Returns the list that remembers the
    /// block.
    fn again(&mut self, id: BlockId) -> Option<u32> {
        let list = self.past.list(id)?;
        if self.moved_for != Some(id) {
            self.moved_for = Some(id);
            let (b1, b2) = (
                self.past.weight(ONCE) as f64,
                self.past.weight(OFTEN) as f64,
            );
            self.goal = match list {
                ONCE => (self.goal + (b2 / b1).max(1.0)).min(self.capacity as f64),
                _ => (self.goal - (b1 / b2).max(1.0)).max(0.0),
            };
        }
        Some(list)
    }
}

impl Policy for Arc {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        self.lists.to(slot, OFTEN);
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        let list = match self.again(id) {
            Some(_) => OFTEN,
            None => ONCE,
        };
        self.past.take(id);
        self.moved_for = None;
        self.lists.push(slot, id, weight, list);
        // T1 and B1 together are at most the cache's size, all four lists twice that.
        let (t1, t2) = (self.lists.weight(ONCE), self.lists.weight(OFTEN));
        let most = self.capacity.saturating_sub(t1);
        self.past.trim(ONCE, most, None);
        let most = (2 * self.capacity).saturating_sub(t1 + t2 + self.past.weight(ONCE));
        self.past.trim(OFTEN, most, None);
    }

    fn victim(
        &mut self,
        incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        let again = self.again(incoming);
        let t1 = self.lists.weight(ONCE);
        // T1 fills the cache: a block used once leaves, and is not remembered (the paper's
        // case IV A).
        let forget = again.is_none() && t1 >= self.capacity;
        let over = t1 as f64 > self.goal || again == Some(OFTEN) && t1 as f64 >= self.goal;
        let order = match t1 > 0 && over {
            true => [ONCE, OFTEN],
            false => [OFTEN, ONCE],
        };
        let slot = order
            .into_iter()
            .find_map(|list| self.lists.iter(list).find(|slot| evictable(*slot)))?;
        let (id, weight, list) = self.lists.take(slot)?;
        if !(forget && list == ONCE) {
            self.past.push(id, weight, list);
            // Bounded even if nothing is read into the freed room.
            self.past.trim(list, 2 * self.capacity, Some(incoming));
        }
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.lists.take(slot);
    }
}

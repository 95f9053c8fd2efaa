//! 2Q, the full version (Johnson and Shasha, "2Q: a low overhead high performance buffer management
//! replacement algorithm", VLDB 1994).
//!
//! A block that is read enters A1in, a queue in the order of reading. Blocks that leave A1in are
//! remembered in A1out; a block that is read again while it is remembered enters Am, a list in the
//! order of use. The victim comes from A1in while that is larger than the share `in` of the cache,
//! otherwise from Am. A1out remembers the share `out` of the cache.

use std::time::Duration;

use crate::ghosts::Ghosts;
use crate::lists::Lists;
use crate::{BlockId, Policy, Slot};

const A1_IN: u32 = 0;
const AM: u32 = 1;
/// The only list of remembered blocks.
const A1_OUT: u32 = 0;

#[derive(Debug)]
pub(crate) struct TwoQ {
    lists: Lists,
    out: Ghosts,
    most_in: u64,
    most_out: u64,
}

impl TwoQ {
    /// `share_in` and `share_out` are the sizes of A1in and A1out relative to the cache (the paper:
    /// 0.25, 0.5).
    pub fn new(share_in: f64, share_out: f64, capacity: u64, slots: usize) -> TwoQ {
        TwoQ {
            lists: Lists::new(slots),
            out: Ghosts::new((slots as f64 * share_out) as usize),
            most_in: (capacity as f64 * share_in) as u64,
            most_out: (capacity as f64 * share_out) as u64,
        }
    }
}

impl Policy for TwoQ {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        if self.lists.list(slot) == Some(AM) {
            self.lists.to(slot, AM);
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        let list = match self.out.take(id) {
            Some(_) => AM,
            None => A1_IN,
        };
        self.lists.push(slot, id, weight, list);
        self.out.trim(A1_OUT, self.most_out, None);
    }

    fn victim(
        &mut self,
        incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        let order = match self.lists.weight(A1_IN) > self.most_in {
            true => [A1_IN, AM],
            false => [AM, A1_IN],
        };
        let slot = order
            .into_iter()
            .find_map(|list| self.lists.iter(list).find(|slot| evictable(*slot)))?;
        let (id, weight, list) = self.lists.take(slot)?;
        if list == A1_IN {
            // The incoming block is about to leave A1out, so its place does not count.
            let again = self.out.list(incoming).map_or(0, |_| weight.into());
            self.out.push(id, weight, A1_OUT);
            self.out.trim(A1_OUT, self.most_out + again, Some(incoming));
        }
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.lists.take(slot);
    }
}

//! S3-FIFO (Yang, Zhang, Qiu, Yue and Vinayak, "FIFO queues are all you need for cache eviction",
//! SOSP 2023): a main queue, and a small queue that most blocks that are read only once never leave
//! for the main one.
//!
//! A block that is read enters the small queue, or the main one if it is remembered to have left
//! the small one recently. Hits are only counted, up to three. A block at the small queue's end
//! moves to the main one if it was hit more than once; otherwise it is evicted and remembered. A
//! block at the main queue's end re-enters it with one hit less, or is evicted if it has none.

use std::time::Duration;

use crate::ghosts::Ghosts;
use crate::lists::Lists;
use crate::{BlockId, Policy, Slot};

const SMALL: u32 = 0;
const MAIN: u32 = 1;
/// The only list of remembered blocks.
const PAST: u32 = 0;
/// The highest count of hits.
const MOST: u8 = 3;
/// Hits that move a block from the small queue to the main one.
const ENOUGH: u8 = 2;

#[derive(Debug)]
pub(crate) struct S3Fifo {
    lists: Lists,
    hits: Vec<u8>,
    past: Ghosts,
    main: u64,
}

impl S3Fifo {
    /// `small` is the small queue's share of the cache (the paper: 0.1). The blocks remembered
    /// weigh at most as much as the main queue holds.
    pub fn new(small: f64, capacity: u64, slots: usize) -> S3Fifo {
        let main = capacity - (capacity as f64 * small) as u64;
        S3Fifo {
            lists: Lists::new(slots),
            hits: vec![0; slots],
            past: Ghosts::new(slots),
            main,
        }
    }

    /// Whether the main queue has to make room.
    fn main_is_full(&self) -> bool {
        self.lists.weight(MAIN) > self.main || self.lists.weight(SMALL) == 0
    }

    fn leaves(&mut self, slot: Slot) -> Option<Slot> {
        let (id, weight, list) = self.lists.take(slot)?;
        if list == SMALL {
            self.past.push(id, weight, PAST);
            self.past.trim(PAST, self.main, None);
        }
        Some(slot)
    }
}

impl Policy for S3Fifo {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        if let Some(hits) = self.hits.get_mut(slot as usize) {
            *hits = (*hits + 1).min(MOST);
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        let at = slot as usize;
        if at >= self.hits.len() {
            self.hits.resize(at + 1, 0);
        }
        self.hits[at] = 0;
        let list = match self.past.take(id) {
            Some(_) => MAIN,
            None => SMALL,
        };
        self.lists.push(slot, id, weight, list);
    }

    fn victim(
        &mut self,
        _incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        // Each step removes a hit, or moves a block that cannot leave behind those that may.
        let most = (usize::from(MOST) + 2) * self.lists.len();
        let mut may_any = false;
        for _ in 0..most {
            let list = match self.main_is_full() {
                true => MAIN,
                false => SMALL,
            };
            let slot = self.lists.oldest(list)?;
            let hits = &mut self.hits[slot as usize];
            if list == SMALL && *hits >= ENOUGH {
                *hits = 0;
                self.lists.to(slot, MAIN);
            } else if list == MAIN && *hits > 0 {
                *hits -= 1;
                self.lists.to(slot, MAIN);
            } else if evictable(slot) {
                return self.leaves(slot);
            } else {
                // In use: looked at again after all others. Whether any block may go is checked
                // once, as all may be in use.
                self.lists.to(slot, list);
                if !may_any {
                    self.lists.across(..).find(|slot| evictable(*slot))?;
                    may_any = true;
                }
            }
        }
        let slot = self.lists.across(..).find(|slot| evictable(*slot))?;
        self.leaves(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.lists.take(slot);
    }
}

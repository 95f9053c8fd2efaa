//! ONS, "Old New Section", the policy of the EXT3NS paper.
//!
//! A block that is read enters NEW. A hit in NEW counts and makes the block NEW's newest; with
//! enough hits it moves to OLD. A hit in OLD counts and makes the block OLD's newest. A full
//! section evicts the block with the fewest hits, and among those the least recently used, from the
//! cache: a block evicted from OLD does not return to NEW. The paper does not give the sizes of the
//! sections ("NEW is larger"), and says in one place that the hits must reach the threshold, in
//! another that they must exceed it.

use std::time::Duration;

use crate::lists::{ListId, Lists};
use crate::{BlockId, Policy, Slot};

/// OLD's lists begin here, NEW's lie below: one for each count of hits.
const OLD: ListId = 1 << 30;
/// Blocks pushed out of OLD, which leave memory next.
const OUT: ListId = 1 << 31;
/// The highest count of hits.
const MOST: u32 = OLD - 1;

/// Options that the paper leaves open, or for which it tried several values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Options {
    /// Hits that move a block from NEW to OLD.
    pub threshold: u32,
    /// Whether one hit more than that is needed.
    pub exceed: bool,
    /// NEW's share of the cache.
    pub new: f64,
}

#[derive(Debug)]
pub(crate) struct Ons {
    lists: Lists,
    new: Section,
    old: Section,
    /// Hits that move a block from NEW to OLD.
    promotion: u32,
}

#[derive(Debug)]
struct Section {
    capacity: u64,
    weight: u64,
}

impl Section {
    fn has_room(&self, weight: u32) -> bool {
        self.weight + u64::from(weight) <= self.capacity
    }
}

impl Ons {
    pub fn new(options: Options, capacity: u64, slots: usize) -> Ons {
        // Each section holds at least one block, if the cache holds two.
        let new = ((capacity as f64 * options.new).round() as u64)
            .clamp(1, capacity.saturating_sub(1).max(1));
        Ons {
            lists: Lists::new(slots),
            new: Section {
                capacity: new,
                weight: 0,
            },
            old: Section {
                capacity: capacity.saturating_sub(new),
                weight: 0,
            },
            promotion: (options.threshold + u32::from(options.exceed)).clamp(1, MOST),
        }
    }

    fn take(&mut self, slot: Slot) -> Option<(BlockId, u32, ListId)> {
        let (id, weight, list) = self.lists.take(slot)?;
        match list {
            ..OLD => self.new.weight -= u64::from(weight),
            OLD..OUT => self.old.weight -= u64::from(weight),
            OUT.. => {}
        }
        Some((id, weight, list))
    }

    fn push(&mut self, slot: Slot, id: BlockId, weight: u32, list: ListId) {
        self.lists.push(slot, id, weight, list);
        match list {
            ..OLD => self.new.weight += u64::from(weight),
            OLD..OUT => self.old.weight += u64::from(weight),
            OUT.. => {}
        }
    }

    /// Moves a block from NEW to OLD, and pushes blocks out of OLD to make room.
    fn promote(&mut self, slot: Slot, id: BlockId, weight: u32, hits: u32) {
        while !self.old.has_room(weight) {
            let least = self.lists.across(OLD..OUT).next();
            let Some((out, (id, weight, _))) =
                least.and_then(|slot| Some((slot, self.take(slot)?)))
            else {
                break;
            };
            self.push(out, id, weight, OUT);
        }
        if self.old.has_room(weight) {
            self.push(slot, id, weight, OLD + hits);
        } else {
            // The block is larger than the whole section.
            self.push(slot, id, weight, hits);
        }
    }
}

impl Policy for Ons {
    fn hit(&mut self, slot: Slot, _now: Duration) {
        let Some((id, weight, list)) = self.take(slot) else {
            return;
        };
        match list {
            ..OLD => {
                let hits = (list + 1).min(MOST);
                if hits >= self.promotion {
                    self.promote(slot, id, weight, hits);
                } else {
                    self.push(slot, id, weight, hits);
                }
            }
            OLD..OUT => self.push(slot, id, weight, OLD + (list - OLD + 1).min(MOST)),
            // Used before it left memory: as if it had been read again.
            OUT.. => self.push(slot, id, weight, 0),
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, _now: Duration) {
        self.push(slot, id, weight, 0);
    }

    fn crowded(&self, weight: u32) -> bool {
        self.lists.across(OUT..).next().is_some()
            || weight > 0 && !self.new.has_room(weight) && self.new.weight > 0
    }

    fn victim(
        &mut self,
        _incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        _now: Duration,
    ) -> Option<Slot> {
        // First the blocks pushed out of OLD, then NEW's victim; OLD's only if all of NEW is in
        // use.
        let mut find =
            |lists: std::ops::Range<ListId>| self.lists.across(lists).find(|slot| evictable(*slot));
        let slot = find(OUT..ListId::MAX)
            .or_else(|| find(0..OLD))
            .or_else(|| find(OLD..OUT))?;
        self.take(slot);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, _now: Duration) {
        self.take(slot);
    }
}

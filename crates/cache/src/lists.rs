//! Blocks in linked lists whose links are indices, so that moving a block is cheap and nothing is
//! allocated once the arrays have grown to the cache's size.
//!
//! A set of lists maps a list's number to its ends: a policy with two sections uses two numbers,
//! LFU one for each count of uses. Empty lists are not in the map, so the lowest number in it is
//! the first list that holds anything.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use crate::{BlockId, Slot};

/// No slot.
const NONE: u32 = u32::MAX;

/// Number of a list.
pub(crate) type ListId = u32;

/// The list of a slot that is on none.
const UNLISTED: ListId = ListId::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    older: u32,
    newer: u32,
    list: ListId,
    weight: u32,
    id: BlockId,
}

const EMPTY: Node = Node {
    older: NONE,
    newer: NONE,
    list: UNLISTED,
    weight: 0,
    id: BlockId { film: 0, block: 0 },
};

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
    weight: u64,
}

/// Slots on numbered lists; a slot is on at most one of them.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    nodes: Vec<Node>,
    ends: BTreeMap<ListId, Ends>,
    len: usize,
}

impl Lists {
    /// Creates lists with room for `slots` slots; more make them grow.
    pub fn new(slots: usize) -> Lists {
        Lists {
            nodes: Vec::with_capacity(slots),
            ends: BTreeMap::new(),
            len: 0,
        }
    }

    /// Puts an unlisted slot on a list, as its newest.
    pub fn push(&mut self, slot: Slot, id: BlockId, weight: u32, list: ListId) {
        let at = slot as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, EMPTY);
        }
        debug_assert_eq!(self.nodes[at].list, UNLISTED, "slot {slot} is in use");
        self.len += 1;
        let ends = self.ends.entry(list).or_insert(Ends {
            oldest: NONE,
            newest: NONE,
            weight: 0,
        });
        ends.weight += u64::from(weight);
        let before = std::mem::replace(&mut ends.newest, slot);
        if before == NONE {
            ends.oldest = slot;
        } else {
            self.nodes[before as usize].newer = slot;
        }
        self.nodes[at] = Node {
            older: before,
            newer: NONE,
            list,
            weight,
            id,
        };
    }

    /// Takes a slot off its list. Returns its block, its weight and the list.
    pub fn take(&mut self, slot: Slot) -> Option<(BlockId, u32, ListId)> {
        let node = *self.nodes.get(slot as usize)?;
        let ends = self.ends.get_mut(&node.list)?;
        self.len -= 1;
        ends.weight -= u64::from(node.weight);
        match node.older {
            NONE => ends.oldest = node.newer,
            older => self.nodes[older as usize].newer = node.newer,
        }
        match node.newer {
            NONE => ends.newest = node.older,
            newer => self.nodes[newer as usize].older = node.older,
        }
        if ends.oldest == NONE {
            self.ends.remove(&node.list);
        }
        self.nodes[slot as usize].list = UNLISTED;
        Some((node.id, node.weight, node.list))
    }

    /// Makes a slot the newest of a list, whichever it was on. Does nothing if it was on none.
    pub fn to(&mut self, slot: Slot, list: ListId) {
        // A block that is used twice in a row is there already: the most frequent case.
        if self
            .nodes
            .get(slot as usize)
            .is_some_and(|node| node.list == list && node.newer == NONE)
        {
            return;
        }
        if let Some((id, weight, _)) = self.take(slot) {
            self.push(slot, id, weight, list);
        }
    }

    /// The list a slot is on.
    pub fn list(&self, slot: Slot) -> Option<ListId> {
        let list = self.nodes.get(slot as usize)?.list;
        (list != UNLISTED).then_some(list)
    }

    /// The block in a slot that is on a list.
    pub fn id(&self, slot: Slot) -> Option<BlockId> {
        let node = self.nodes.get(slot as usize)?;
        (node.list != UNLISTED).then_some(node.id)
    }

    /// The oldest slot of a list.
    pub fn oldest(&self, list: ListId) -> Option<Slot> {
        self.ends.get(&list).map(|ends| ends.oldest)
    }

    /// The weight of all blocks of a list.
    pub fn weight(&self, list: ListId) -> u64 {
        self.ends.get(&list).map_or(0, |ends| ends.weight)
    }

    /// The number of slots on any list.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The slots of a list, from the oldest on.
    pub fn iter(&self, list: ListId) -> impl Iterator<Item = Slot> + '_ {
        let mut at = self.ends.get(&list).map_or(NONE, |ends| ends.oldest);
        std::iter::from_fn(move || {
            let here = (at != NONE).then_some(at)?;
            at = self.nodes[here as usize].newer;
            Some(here)
        })
    }

    /// The slots of the lists in a range, the lowest list first, each from the oldest on.
    pub fn across(&self, lists: impl RangeBounds<ListId>) -> impl Iterator<Item = Slot> + '_ {
        self.ends
            .range(lists)
            .flat_map(|(list, _)| self.iter(*list))
    }

    /// The slot after `slot` on its list, towards the newest.
    pub fn newer(&self, slot: Slot) -> Option<Slot> {
        let newer = self.nodes.get(slot as usize)?.newer;
        (newer != NONE).then_some(newer)
    }
}

//! Blocks that are remembered after they were evicted.
//!
//! Like the blocks in memory, they are on numbered lists; a hash table with chains finds them by
//! identity. 32 bytes each.

use crate::BlockId;
use crate::lists::{ListId, Lists};

/// No place.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Ghosts {
    lists: Lists,
    /// First place of each chain.
    heads: Vec<u32>,
    /// The next place in the chain, or the next free place.
    next: Vec<u32>,
    free: u32,
}

/// Hashes a block's identity: the finaliser of splitmix64 (Steele, Lea and Flood, 2014).
pub(crate) fn mix(id: BlockId) -> u64 {
    let mut mixed = u64::from(id.film) << 32 | u64::from(id.block);
    mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Ghosts {
    /// Creates chains for about `places` blocks; more make them longer.
    pub fn new(places: usize) -> Ghosts {
        // One more is pushed before the oldest is forgotten.
        let room = places + 8;
        Ghosts {
            lists: Lists::new(room),
            heads: vec![NONE; places.max(8).next_power_of_two()],
            next: Vec::with_capacity(room),
            free: NONE,
        }
    }

    fn chain(&self, id: BlockId) -> usize {
        mix(id) as usize & (self.heads.len() - 1)
    }

    fn find(&self, id: BlockId) -> Option<u32> {
        let mut at = self.heads[self.chain(id)];
        while at != NONE && self.lists.id(at) != Some(id) {
            at = self.next[at as usize];
        }
        (at != NONE).then_some(at)
    }

    /// The list a block is on, if it is remembered.
    pub fn list(&self, id: BlockId) -> Option<ListId> {
        self.lists.list(self.find(id)?)
    }

    /// Remembers a block as the newest of a list. Returns its place, under which more can be stored
    /// about it.
    pub fn push(&mut self, id: BlockId, weight: u32, list: ListId) -> u32 {
        self.take(id);
        let at = match self.free {
            NONE => {
                self.next.push(NONE);
                (self.next.len() - 1) as u32
            }
            at => {
                self.free = self.next[at as usize];
                at
            }
        };
        self.lists.push(at, id, weight, list);
        let chain = self.chain(id);
        self.next[at as usize] = std::mem::replace(&mut self.heads[chain], at);
        at
    }

    /// Forgets a block. Returns its place and the list it was on.
    pub fn take(&mut self, id: BlockId) -> Option<(u32, ListId)> {
        let at = self.find(id)?;
        let (_, _, list) = self.lists.take(at)?;
        let chain = self.chain(id);
        let after = self.next[at as usize];
        let mut before = self.heads[chain];
        if before == at {
            self.heads[chain] = after;
        } else {
            while self.next[before as usize] != at {
                before = self.next[before as usize];
            }
            self.next[before as usize] = after;
        }
        self.next[at as usize] = std::mem::replace(&mut self.free, at);
        Some((at, list))
    }

    /// The weight of all blocks of a list.
    pub fn weight(&self, list: ListId) -> u64 {
        self.lists.weight(list)
    }

    /// Forgets the oldest blocks of a list until it weighs no more than `most`, but never `keep`.
    pub fn trim(&mut self, list: ListId, most: u64, keep: Option<BlockId>) {
        while self.weight(list) > most {
            let oldest = self.lists.oldest(list);
            let Some(id) = oldest
                .and_then(|at| self.lists.id(at))
                .filter(|id| Some(*id) != keep)
            else {
                return;
            };
            self.take(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_found_until_it_is_trimmed_away() {
        let id = |block| BlockId { film: 7, block };
        let mut ghosts = Ghosts::new(2);
        for block in 0..100 {
            ghosts.push(id(block), 1, block % 2);
        }
        assert!((0..100).all(|block| ghosts.list(id(block)) == Some(block % 2)));
        ghosts.trim(0, 10, Some(id(70)));
        assert_eq!(
            ghosts.weight(0),
            15,
            "no further than to what is to be kept"
        );
        for block in (0..100).step_by(2) {
            assert_eq!(ghosts.list(id(block)).is_some(), block >= 70, "{block}");
        }
    }
}

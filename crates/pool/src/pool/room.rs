//! Which blocks are free, which are evicted, and which have been made ready.

use reelway_cache::{BlockId, FilmId};
use reelway_determinism::FixedMap;
use reelway_time::Monotonic;

use super::census::Census;
use super::{Pool, Slot};
use crate::request::Finished;
use crate::world::World;

fn is_unused<M>(slots: &FixedMap<BlockId, Slot<M>>, held: &[Option<BlockId>], number: u32) -> bool {
    match held[number as usize].and_then(|id| slots.get(&id)) {
        Some(Slot::Ready(block)) => !block.is_pinned(),
        _ => false,
    }
}

impl<W: World> Pool<W> {
    /// Makes `count` blocks free for `incoming`, by evicting blocks that the policy chooses.
    /// Returns whether it succeeded.
    pub(super) fn make_room(&mut self, count: usize, incoming: BlockId, now: Monotonic) -> bool {
        let now = now.since(self.born);
        while self.free.len() < count {
            if let Some(block) = self.unready.pop() {
                self.free.push(block);
                continue;
            }
            if self.preparing > 0 {
                // They will be free in a moment: nothing is evicted in their place.
                return false;
            }
            let (slots, held) = (&self.slots, &self.held);
            let mut unused = |number| is_unused(slots, held, number);
            let Some(victim) = self.policy.victim(incoming, &mut unused, now) else {
                return false;
            };
            self.free_block(victim);
        }
        true
    }

    /// Frees an unused block that the policy has already forgotten.
    pub(super) fn free_block(&mut self, number: u32) {
        let Some(id) = self.held[number as usize].take() else {
            return;
        };
        self.films.let_go(id.film);
        // Nobody can have pinned it meanwhile: unused blocks are pinned only under the owner's
        // lock.
        if let Some(Slot::Ready(block)) = self.slots.remove(&id)
            && let Some(memory) = block.into_memory()
        {
            self.free.push((number, memory));
        }
    }

    /// Takes blocks to be made ready and then passed to [`Pool::are_ready`]. Returns none if all
    /// are ready.
    pub fn take_unready(&mut self) -> Vec<(u32, W::Memory)> {
        if self.closed {
            return Vec::new();
        }
        let count = self.ahead.map_or(0, |ahead| ahead.at_once);
        let blocks = self
            .unready
            .split_off(self.unready.len().saturating_sub(count));
        self.preparing += blocks.len();
        blocks
    }

    /// Takes back blocks that have been made ready. Returns whether there are enough for viewers to
    /// be served.
    pub fn are_ready(
        &mut self,
        blocks: Vec<(u32, W::Memory)>,
        now: Monotonic,
        finished: &mut Vec<Finished<W>>,
    ) -> bool {
        self.preparing -= blocks.len();
        // The lowest address comes last, as in `unready`.
        self.free.extend(blocks);
        self.dispatch(now, finished);
        let least = self.ahead.map_or(0, |ahead| ahead.least);
        self.census().ready() >= least
    }

    /// Takes back an empty block.
    pub fn give_back(
        &mut self,
        number: u32,
        memory: W::Memory,
        now: Monotonic,
        finished: &mut Vec<Finished<W>>,
    ) {
        self.lent -= 1;
        self.free.push((number, memory));
        self.dispatch(now, finished);
    }

    /// Evicts the unused blocks of a file. Returns how many were freed.
    pub fn forget(&mut self, file: W::File, now: Monotonic) -> usize {
        let Some(film) = self.films.number(file) else {
            return 0;
        };
        let numbers: Vec<u32> = (0..self.held.len() as u32)
            .filter(|number| self.holds(*number).is_some_and(|id| id.film == film))
            .filter(|number| is_unused(&self.slots, &self.held, *number))
            .collect();
        let now = now.since(self.born);
        for number in &numbers {
            self.policy.remove(*number, now);
            self.free_block(*number);
        }
        numbers.len()
    }

    /// Returns what a block holds.
    pub fn holds(&self, number: u32) -> Option<BlockId> {
        self.held.get(number as usize).copied().flatten()
    }

    /// Returns all cached blocks.
    pub fn blocks(&self) -> impl Iterator<Item = &BlockId> {
        self.held.iter().flatten()
    }

    /// Returns the numbers of a film's cached blocks, in order.
    pub fn blocks_of(&self, film: FilmId) -> Vec<u32> {
        let mut blocks: Vec<u32> = self
            .blocks()
            .filter(|id| id.film == film)
            .map(|id| id.block)
            .collect();
        blocks.sort_unstable();
        blocks
    }

    /// Counts the blocks by state.
    pub fn census(&self) -> Census {
        let (mut cached, mut pinned) = (0, 0);
        for slot in self.slots.values() {
            if let Slot::Ready(block) = slot {
                cached += 1;
                pinned += usize::from(block.is_pinned());
            }
        }
        Census {
            blocks: self.held.len(),
            free: self.free.len(),
            unready: self.unready.len(),
            preparing: self.preparing,
            cached,
            pinned,
            reading: self.slots.len() - cached,
            lent: self.lent,
            lost: self.lost,
        }
    }
}

//! Which blocks are free, which are made free, and which have their memory.

use std::sync::Arc;

use reelway_cache::{BlockId, FilmId};
use reelway_sys::FileIdentity;
use reelway_sys::region::Page;

use super::{Finished, Pool, Slot};

impl Pool {
    /// Sees to it that `count` blocks are free, by forgetting what the policy says, for `incoming`.
    pub(super) fn make_room(&mut self, count: usize, incoming: BlockId) -> bool {
        let now = self.now();
        while self.free.len() < count {
            if let Some(page) = self.unready.pop() {
                self.free.push(page);
                continue;
            }
            if self.preparing > 0 {
                // They come at once: nothing is forgotten for want of them.
                return false;
            }
            let (slots, held) = (&self.slots, &self.held);
            let mut unused = |number: u32| match held[number as usize].and_then(|id| slots.get(&id))
            {
                Some(Slot::Ready(block)) => Arc::strong_count(block) == 1,
                _ => false,
            };
            let Some(victim) = self.policy.victim(incoming, &mut unused, now) else {
                return false;
            };
            self.free_block(victim);
        }
        true
    }

    /// Frees a block that nobody uses and that the policy does not know any more.
    pub(super) fn free_block(&mut self, number: u32) {
        let Some(id) = self.held[number as usize].take() else {
            return;
        };
        self.films.let_go(id.film);
        // Nobody can have taken a reference since: they come from here, under the lock.
        if let Some(Slot::Ready(block)) = self.slots.remove(&id)
            && let Some(block) = Arc::into_inner(block)
        {
            self.free.push((number, block.page));
        }
    }

    /// Blocks that are to be ready while nobody uses them: as many as are in use or hold something.
    pub(super) fn to_be_ready(&self) -> usize {
        let used = self.held.len() - self.free.len() - self.unready.len() - self.preparing;
        self.ahead.map_or(0, |ahead| used.max(ahead.least))
    }

    /// Whether the next blocks are to be made ready: half of what was ready is used.
    pub fn wants_ready(&self) -> bool {
        !self.unready.is_empty() && self.preparing == 0 && self.free.len() < self.to_be_ready() / 2
    }

    /// Blocks that are to be given their memory and then to [`Pool::are_ready`]; none when enough are ready.
    pub fn take_unready(&mut self) -> Vec<(u32, Page)> {
        if self.closed || self.free.len() >= self.to_be_ready() {
            return Vec::new();
        }
        let count = self.ahead.map_or(0, |ahead| ahead.at_once);
        let blocks = self
            .unready
            .split_off(self.unready.len().saturating_sub(count));
        self.preparing += blocks.len();
        blocks
    }

    /// Takes blocks that have memory now; whether all have.
    pub fn are_ready(&mut self, blocks: Vec<(u32, Page)>, finished: &mut Vec<Finished>) -> bool {
        self.preparing -= blocks.len();
        // The lowest address is the last, as among the others.
        self.free.extend(blocks);
        self.dispatch(finished);
        self.unready.is_empty()
    }

    /// An empty block comes back.
    pub fn give_back(&mut self, number: u32, page: Page, finished: &mut Vec<Finished>) {
        self.lent -= 1;
        self.free.push((number, page));
        self.dispatch(finished);
    }

    /// Forgets what is held of a file and nobody uses; how many blocks became free.
    pub fn forget(&mut self, file: FileIdentity) -> usize {
        let Some(film) = self.films.number(file) else {
            return 0;
        };
        let unused = |(id, slot): (&BlockId, &Slot)| match slot {
            Slot::Ready(block) if id.film == film && Arc::strong_count(block) == 1 => {
                Some(block.number)
            }
            _ => None,
        };
        let numbers: Vec<u32> = self.slots.iter().filter_map(unused).collect();
        let now = self.now();
        for number in &numbers {
            self.policy.remove(*number, now);
            self.free_block(*number);
        }
        numbers.len()
    }

    /// All blocks that are in memory.
    pub fn blocks(&self) -> impl Iterator<Item = &BlockId> {
        self.held.iter().flatten()
    }

    /// The blocks of a film that are in memory, in order.
    pub fn blocks_of(&self, film: FilmId) -> Vec<u32> {
        let mut blocks: Vec<u32> = self
            .blocks()
            .filter(|id| id.film == film)
            .map(|id| id.block)
            .collect();
        blocks.sort_unstable();
        blocks
    }

    /// Blocks that have been made ready, used or not.
    pub fn ready(&self) -> usize {
        self.held.len() - self.unready.len() - self.preparing
    }

    /// Blocks in all, blocks that hold something, and those of them that somebody uses.
    pub fn census(&self) -> (usize, usize, usize) {
        let ready = self.slots.values().filter_map(|slot| match slot {
            Slot::Ready(block) => Some(block),
            Slot::Reading { .. } => None,
        });
        let (mut cached, mut used) = (0, 0);
        for block in ready {
            cached += 1;
            used += usize::from(Arc::strong_count(block) > 1);
        }
        (
            self.held.len(),
            cached,
            used + self.slots.len() - cached + self.lent,
        )
    }
}

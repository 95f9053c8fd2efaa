//! What HTTP may pin of the pool, window by window.

use std::sync::Arc;

use reelway_store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of a window for who takes one faster than the next can be read, and is not held to his pace by so much: what a
/// window costs (the cache's policy, the pool's lock, a wake where it must be read) is shared by so many, and a disk has
/// several reads to do at once.
pub(crate) const WIDE: u64 = 1 << 20;

/// Blocks of a pool of `blocks` that all answers over HTTP may pin together. Whoever comes when these are taken gets
/// copies, so that HTTP never waits for what RTSP's viewers hold, nor they for it.
pub fn pinned_blocks(blocks: u64) -> u64 {
    (blocks / 4).max(1)
}

/// How many blocks of the store HTTP may pin.
#[derive(Clone)]
pub(crate) struct Budget {
    blocks: Arc<Semaphore>,
    all: usize,
    /// Bytes of a block.
    pub block_bytes: u64,
}

impl Budget {
    /// [`pinned_blocks`] of the store's.
    pub fn new(store: &Store) -> Budget {
        let stats = store.stats();
        let blocks = pinned_blocks(stats.blocks) as usize;
        Budget {
            blocks: Arc::new(Semaphore::new(blocks)),
            all: blocks,
            block_bytes: stats.block_bytes.into(),
        }
    }

    /// Leave to pin a window, and its bytes: a wide one if that is wanted and half of the budget is left after it,
    /// else of one block; `None` where all is pinned.
    pub fn window(&self, wide: bool) -> Option<(OwnedSemaphorePermit, u64)> {
        let take = |blocks| self.blocks.clone().try_acquire_many_owned(blocks).ok();
        let blocks = (WIDE / self.block_bytes) as usize;
        if wide && blocks > 1 && self.blocks.available_permits() >= self.all / 2 + blocks {
            let permit = take(blocks as u32)?;
            return Some((permit, blocks as u64 * self.block_bytes));
        }
        Some((take(1)?, self.block_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(blocks: usize, block_bytes: u64) -> Budget {
        Budget {
            blocks: Arc::new(Semaphore::new(blocks)),
            all: blocks,
            block_bytes,
        }
    }

    #[test]
    fn windows_are_wide_for_the_fast_while_half_of_what_may_be_pinned_is_left_for_others() {
        let budget = budget(16, 256 << 10);
        let mut pinned = Vec::new();
        let mut sizes = Vec::new();
        for _ in 0..11 {
            let Some((permit, bytes)) = budget.window(true) else {
                break;
            };
            pinned.push(permit);
            sizes.push(bytes >> 10);
        }
        assert_eq!(sizes[..2], [1024, 1024]);
        assert_eq!(sizes[2..10], [256; 8], "one block each of the other half");
        assert!(budget.window(true).is_none(), "all is pinned");
        pinned.clear();
        assert_eq!(
            budget.window(false).map(|(_, bytes)| bytes),
            Some(256 << 10)
        );
    }

    #[test]
    fn a_block_that_is_large_is_a_window_by_itself() {
        let budget = budget(16, 2 << 20);
        assert_eq!(budget.window(true).map(|(_, bytes)| bytes), Some(2 << 20));
    }
}

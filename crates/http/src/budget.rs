//! HTTP's pinning of pool blocks, window by window.

use std::sync::Arc;

use reelway_store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of the store's blocks that HTTP may pin.
#[derive(Clone)]
pub(crate) struct Budget {
    blocks: Arc<Semaphore>,
    rule: reelway_viewing::Budget,
}

impl Budget {
    /// Creates the budget for the store's pool.
    pub fn new(store: &Store) -> Budget {
        let stats = store.stats();
        let rule = reelway_viewing::Budget::of(stats.blocks, stats.block_bytes.into());
        Budget {
            blocks: Arc::new(Semaphore::new(rule.blocks)),
            rule,
        }
    }

    /// Returns the size of a block in bytes.
    pub fn block_bytes(&self) -> u64 {
        self.rule.block_bytes
    }

    /// Returns permission to pin a window, and its size in bytes
    /// ([`reelway_viewing::Budget::window`]).
    pub fn window(&self, wide: bool) -> Option<(OwnedSemaphorePermit, u64)> {
        let leave = self.rule.window(self.blocks.available_permits(), wide)?;
        let permit = self.blocks.clone().try_acquire_many_owned(leave.blocks);
        Some((permit.ok()?, leave.bytes))
    }
}

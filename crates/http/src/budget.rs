//! What HTTP pins of the pool, window by window.

use std::sync::Arc;

use reelway_store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many blocks of the store HTTP may pin.
#[derive(Clone)]
pub(crate) struct Budget {
    blocks: Arc<Semaphore>,
    rule: reelway_viewing::Budget,
}

impl Budget {
    /// That of the store's pool.
    pub fn new(store: &Store) -> Budget {
        let stats = store.stats();
        let rule = reelway_viewing::Budget::of(stats.blocks, stats.block_bytes.into());
        Budget {
            blocks: Arc::new(Semaphore::new(rule.blocks)),
            rule,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.rule.block_bytes
    }

    /// Leave to pin a window, and its bytes ([`reelway_viewing::Budget::window`]).
    pub fn window(&self, wide: bool) -> Option<(OwnedSemaphorePermit, u64)> {
        let leave = self.rule.window(self.blocks.available_permits(), wide)?;
        let permit = self.blocks.clone().try_acquire_many_owned(leave.blocks);
        Some((permit.ok()?, leave.bytes))
    }
}

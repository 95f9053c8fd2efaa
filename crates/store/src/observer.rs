//! Observers of accesses.

use std::time::Duration;

use reelway_cache::BlockId;

/// Notified of every requested block.
pub trait Observer: Send + Sync + 'static {
    /// Called when a block is requested; `hit` if it was cached or being read. `now` is the cache
    /// policy's time. Called without the store's lock, on the requesting thread or on one that made
    /// room for the request; it must be quick.
    fn access(&self, block: BlockId, hit: bool, now: Duration);
}

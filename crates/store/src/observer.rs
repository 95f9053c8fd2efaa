//! Who looks on.

use std::time::Duration;

use reelway_cache::BlockId;

/// Told of every block that is asked for.
pub trait Observer: Send + Sync + 'static {
    /// A block was asked for; `hit` if it was in memory or on its way. `now` is the cache policy's time.
    /// Called without the store's lock, on the thread that asked or on one that made room for it: must
    /// be quick.
    fn access(&self, block: BlockId, hit: bool, now: Duration);
}

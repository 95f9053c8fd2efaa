//! Configuration of a store.

use reelway_cache::Spec;

use crate::tier::TierConfig;

/// How local files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadBy {
    /// By a ring for each disk if io_uring is available, otherwise by threads.
    #[default]
    Ring,
    /// By threads with blocking reads.
    Threads,
}

/// The pool's size, and how it is filled.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreConfig {
    /// Memory for film blocks in bytes, a hard limit. At least 8 blocks.
    pub pool_bytes: u64,
    /// Block size in bytes, a power of two from 4096 to 16 MiB.
    pub block_bytes: u32,
    /// Maximum number of reads under way at once per disk; at least 1.
    pub depth: usize,
    /// How local files are read.
    pub read_by: ReadBy,
    /// The replacement policy.
    pub policy: Spec,
    /// A tier below memory for remote films.
    pub tier: Option<TierConfig>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            pool_bytes: 256 << 20,
            block_bytes: 256 << 10,
            depth: 8,
            read_by: ReadBy::Ring,
            policy: Spec::default(),
            tier: None,
        }
    }
}

//! How a store is to be.

use reelway_cache::Spec;

use crate::tier::TierConfig;

/// Who reads local files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadBy {
    /// A ring a disk where io_uring is available, else threads.
    #[default]
    Ring,
    /// Threads, with reads that block.
    Threads,
}

/// How large the pool is, and how it is filled.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreConfig {
    /// Memory for film blocks in bytes, a hard limit; at least 8 blocks.
    pub pool_bytes: u64,
    /// Bytes of a block, a power of two from 4096 to 16 MiB.
    pub block_bytes: u32,
    /// Most reads under way at once, a disk; at least 1.
    pub depth: usize,
    /// Who reads.
    pub read_by: ReadBy,
    /// Which block makes room for another.
    pub policy: Spec,
    /// A tier below memory for films that lie afar.
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

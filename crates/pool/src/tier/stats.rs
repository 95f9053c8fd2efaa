//! What the tier's books count.

/// What the tier holds and has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierStats {
    /// Blocks there is room for.
    pub blocks: u64,
    /// Blocks that it holds.
    pub cached: u64,
    /// Blocks of films afar that were read from here.
    pub hits: u64,
    /// Blocks that were not here.
    pub misses: u64,
    /// Bytes read from it.
    pub bytes_read: u64,
    /// Bytes written to it.
    pub bytes_written: u64,
    /// Blocks that were to be let in and were not: the day's bytes are spent, writes are behind, or the disk failed a
    /// moment ago.
    pub left_out: u64,
    /// Blocks whose checksum was wrong, or that could not be read: read from afar again.
    pub broken: u64,
    /// Writes that failed.
    pub errors: u64,
}

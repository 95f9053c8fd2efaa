//! Statistics of the tier.

/// What the tier holds, and what it has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierStats {
    /// Number of slots.
    pub blocks: u64,
    /// Number of blocks held.
    pub cached: u64,
    /// Blocks of remote films that were read from the tier.
    pub hits: u64,
    /// Blocks that were not in the tier.
    pub misses: u64,
    /// Bytes read from the tier.
    pub bytes_read: u64,
    /// Bytes written to the tier.
    pub bytes_written: u64,
    /// Admitted blocks that were not written: the day's bytes are spent, writes are behind, or the
    /// disk has just failed.
    pub left_out: u64,
    /// Blocks that had a wrong checksum or could not be read, and were read from the remote place
    /// again.
    pub broken: u64,
    /// Writes that failed.
    pub errors: u64,
}

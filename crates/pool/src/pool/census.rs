//! Block counts by state.

/// The number of blocks in each state: each block counts as one of `free`, `unready`, `preparing`,
/// `cached`, `reading`, `lent` and `lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// All blocks.
    pub blocks: usize,
    /// Empty, with memory.
    pub free: usize,
    /// Empty, without memory so far.
    pub unready: usize,
    /// Being made ready.
    pub preparing: usize,
    /// Holding a film's bytes, in use or not.
    pub cached: usize,
    /// Holding a film's bytes and in use.
    pub pinned: usize,
    /// Being read, or waiting to be read.
    pub reading: usize,
    /// Given out empty, to be written to.
    pub lent: usize,
    /// Lost with a read that returned without its memory.
    pub lost: usize,
}

impl Census {
    /// Returns the number of blocks that are in use or being read.
    pub fn in_use(&self) -> usize {
        self.pinned + self.reading + self.lent
    }

    /// Returns the number of blocks that have been made ready, used or not.
    pub fn ready(&self) -> usize {
        self.blocks - self.unready - self.preparing
    }
}

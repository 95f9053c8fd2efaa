//! How many blocks are where.

/// What became of the blocks: each is one of `free`, `unready`, `preparing`, `cached`, `reading`, `lent` and `lost`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Blocks in all.
    pub blocks: usize,
    /// Empty, and with their memory.
    pub free: usize,
    /// Empty, and without memory as yet.
    pub unready: usize,
    /// Being given their memory.
    pub preparing: usize,
    /// In memory, used or not.
    pub cached: usize,
    /// In memory and used.
    pub pinned: usize,
    /// Being read, or waiting for their turn to be.
    pub reading: usize,
    /// Given out empty, to be written into.
    pub lent: usize,
    /// Gone with a read that came back without memory.
    pub lost: usize,
}

impl Census {
    /// Blocks that somebody uses or that are being read.
    pub fn in_use(&self) -> usize {
        self.pinned + self.reading + self.lent
    }

    /// Blocks that have been made ready, used or not.
    pub fn ready(&self) -> usize {
        self.blocks - self.unready - self.preparing
    }
}

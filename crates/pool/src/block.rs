//! A block that holds a film's bytes, and its pins.
//!
//! Pins are counted by one atomic number in the block, the reference count of its `Arc`. Letting a pin go lowers it and
//! does nothing else, on any thread; the pool reads it under its owner's lock, where alone new pins of an unpinned block
//! are made. So a block without pins stays without until the pool says otherwise. A second count beside this one would be
//! the same number twice: memory is given to another film only when the last handle to it is gone, so the second could
//! not be lowered before the first, and each pin would cost two atomic operations instead of one.

use std::fmt;
use std::sync::Arc;

struct Block<M> {
    memory: M,
    number: u32,
}

/// A block that holds bytes, as the pool has it.
pub(crate) struct Resident<M>(Arc<Block<M>>);

impl<M> Resident<M> {
    pub fn new(memory: M, number: u32) -> Resident<M> {
        Resident(Arc::new(Block { memory, number }))
    }

    /// One more pin.
    pub fn pin(&self) -> Pin<M> {
        Pin(Arc::clone(&self.0))
    }

    /// Whether somebody uses it.
    pub fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// The memory of a block that nobody uses.
    pub fn into_memory(self) -> Option<M> {
        Arc::into_inner(self.0).map(|block| block.memory)
    }
}

/// A block in use: it is neither given to another film nor changed as long as this or a clone of it exists. Letting it go
/// may make room for a request that waits: call [`crate::Pool::dispatch`] then.
pub struct Pin<M>(Arc<Block<M>>);

impl<M> Pin<M> {
    /// The block's memory.
    #[inline]
    pub fn memory(&self) -> &M {
        &self.0.memory
    }

    /// The block's number in the pool.
    pub fn number(&self) -> u32 {
        self.0.number
    }
}

impl<M> Clone for Pin<M> {
    fn clone(&self) -> Pin<M> {
        Pin(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Pin<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({})", self.0.number)
    }
}

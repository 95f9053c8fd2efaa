//! Blocks that hold a film's bytes, and their pins.
//!
//! Pins are counted by one atomic number in the block, the reference count of its `Arc`. Releasing
//! a pin only decrements it, on any thread. The pool reads it under its owner's lock, and new pins
//! of an unpinned block are made only under that lock, so an unpinned block stays unpinned until
//! the pool pins it. A second, separate count would be redundant: memory is given to another film
//! only after the last handle is gone, so the second count could not be decremented before the
//! first, and each pin would cost two atomic operations instead of one.

use std::fmt;
use std::sync::Arc;

struct Block<M> {
    memory: M,
    number: u32,
}

/// A block that holds bytes, as the pool keeps it.
pub(crate) struct Resident<M>(Arc<Block<M>>);

impl<M> Resident<M> {
    pub fn new(memory: M, number: u32) -> Resident<M> {
        Resident(Arc::new(Block { memory, number }))
    }

    /// Adds a pin.
    pub fn pin(&self) -> Pin<M> {
        Pin(Arc::clone(&self.0))
    }

    /// Returns whether the block is in use.
    pub fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// Returns the memory of an unused block; `None` if it is pinned.
    pub fn into_memory(self) -> Option<M> {
        Arc::into_inner(self.0).map(|block| block.memory)
    }
}

/// A block in use: it is neither given to another film nor changed as long as this pin or a clone
/// of it exists. Releasing it may make room for a waiting request: call [`crate::Pool::dispatch`]
/// then.
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

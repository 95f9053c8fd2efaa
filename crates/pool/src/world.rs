//! What the pool's owner supplies.

use std::hash::Hash;
use std::sync::Arc;

use reelway_cache::FilmId;

/// The types of the pool's memory, sources and requests. The store uses pages of memory and films
/// on disks; a simulation need not have any bytes.
pub trait World {
    /// The memory of a block. The pool is its only owner while the block is free; see
    /// [`crate::Pin`].
    type Memory;
    /// An opened film.
    type Source: Source + Clone;
    /// Identifies a request to the owner. Carried by the request and its answer.
    type Tag;
    /// Why a read failed.
    type Error: Clone;
    /// Identifies a film's file: equal values mean equal bytes.
    type File: Copy + Eq + Hash;
}

/// An opened film, as far as the pool needs to know it.
pub trait Source {
    /// Returns the number assigned by [`crate::Pool::open`].
    fn number(&self) -> FilmId;

    /// Returns the film's number for a block. It differs from `number` if the block may change
    /// while the film keeps its number.
    fn number_of(&self, _block: u32) -> FilmId {
        self.number()
    }

    /// Returns the queue of the place where the film lies, a number from
    /// [`crate::Pool::add_queue`].
    fn queue(&self) -> usize;

    /// Returns the queue through which a block is read: that of the film's place, or of a tier that
    /// holds the block.
    fn queue_of(&self, block: u32) -> usize;
}

impl<S: Source> Source for Arc<S> {
    fn number(&self) -> FilmId {
        (**self).number()
    }

    fn number_of(&self, block: u32) -> FilmId {
        (**self).number_of(block)
    }

    fn queue(&self) -> usize {
        (**self).queue()
    }

    fn queue_of(&self, block: u32) -> usize {
        (**self).queue_of(block)
    }
}

//! What the pool leaves to its owner.

use std::hash::Hash;
use std::sync::Arc;

use reelway_cache::FilmId;

/// What the pool's blocks, sources and requests are. The store has pages of memory and films on disks; a simulation
/// need not have any bytes.
pub trait World {
    /// The memory of a block. Nobody else has it while it is free; see [`crate::Pin`].
    type Memory;
    /// An opened film.
    type Source: Source + Clone;
    /// What a request carries, and its answer with it: by this the owner knows whose it is.
    type Tag;
    /// Why a read failed.
    type Error: Clone;
    /// Which file a film is: the same value is the same bytes.
    type File: Copy + Eq + Hash;
}

/// An opened film, as far as the pool asks.
pub trait Source {
    /// The number that [`crate::Pool::open`] gave it.
    fn number(&self) -> FilmId;

    /// The film's number for a block: another one, where the block is not the same for as long as the film has its number.
    fn number_of(&self, _block: u32) -> FilmId {
        self.number()
    }

    /// The queue of the place where it lies, a number from [`crate::Pool::add_queue`].
    fn queue(&self) -> usize;

    /// The queue by which a block is read: that of the place where the film lies, or of a tier that holds the block.
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

//! The types of the pool's blocks, sources and answers.

use std::sync::Arc;

use reelway_cache::FilmId;
use reelway_pool::{Failure, World};
use reelway_sys::FileIdentity;
use reelway_sys::region::Page;

use crate::error::ReadError;
use crate::source::Source;

/// The store's world: real memory and real films.
pub(crate) enum Live {}

impl World for Live {
    type Memory = Page;
    type Source = Arc<Source>;
    type Tag = Done;
    type Error = ReadError;
    type File = FileIdentity;
}

impl reelway_pool::Source for Source {
    fn number(&self) -> FilmId {
        self.number()
    }

    fn number_of(&self, block: u32) -> FilmId {
        self.number_of(block)
    }

    fn queue(&self) -> usize {
        self.lane().0.number
    }

    fn queue_of(&self, block: u32) -> usize {
        self.lane_of(block).0.number
    }
}

pub(crate) type Pool = reelway_pool::Pool<Live>;
pub(crate) type Request = reelway_pool::Request<Live>;
pub(crate) type Finished = reelway_pool::Finished<Live>;
pub(crate) type Read = reelway_pool::Read<Live>;
pub(crate) type Given = reelway_pool::Given<Page>;

/// Called with the result of a request, without the lock.
pub(crate) type Done = Box<dyn FnOnce(Result<Given, ReadError>) + Send>;

/// Calls the requester.
pub(crate) fn answer(finished: Finished) {
    (finished.tag)(finished.result.map_err(|why| match why {
        Failure::Closed => ReadError::Closed,
        Failure::Read(error) => error,
    }));
}

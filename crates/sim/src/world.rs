//! What the pool's blocks, films and answers are here: numbers.

use reelway_cache::{BlockId, FilmId};
use reelway_media::{Filling, Nanos, SECOND};
use reelway_pool::{Read, Source, World};

/// Bytes of a block of the pool: the server's default.
pub(crate) const BLOCK: u64 = 256 << 10;
/// How long before it is due a group is asked for: the most that the server takes.
pub(crate) const LEAD: Nanos = 2 * SECOND;

/// The lowest lateness of packets that needs a cause, ns: pictures and sound that are due in one millisecond, and pictures
/// that fill theirs, leave a little later by the burst rule.
pub(crate) const LATE: u64 = 20_000_000;

/// A block's memory: which block it is, and what was read into it last. It has bytes only of views: those of files are where
/// they are.
#[derive(Debug)]
pub(crate) struct Page {
    pub number: u32,
    pub holds: Option<BlockId>,
    pub made: Vec<u8>,
}

/// A film on the one disk that there is, its file, or its view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilmOnDisk {
    pub film: FilmId,
    pub queue: usize,
    /// Which of the node's films it is.
    pub of: usize,
}

impl Source for FilmOnDisk {
    fn number(&self) -> FilmId {
        self.film
    }

    fn queue(&self) -> usize {
        self.queue
    }

    fn queue_of(&self, _: u32) -> usize {
        self.queue
    }
}

/// A read failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken;

/// A pool without bytes.
pub(crate) enum Pages {}

impl World for Pages {
    type Memory = Page;
    type Source = FilmOnDisk;
    type Tag = u64;
    type Error = Broken;
    type File = u32;
}

/// Blocks of views that are made at once: as many as in the server.
pub(crate) const MAKERS: usize = 8;

/// A block of a view in the making.
pub(crate) struct Making {
    pub read: Read<Pages>,
    pub filling: Filling,
}

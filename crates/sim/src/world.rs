//! The pool's memory, films and answers: numbers.

use reelway_cache::{BlockId, FilmId};
use reelway_media::{Filling, Nanos, SECOND};
use reelway_pool::{Read, Source, World};

/// The size of a block of the pool, bytes: the server's default.
pub(crate) const BLOCK: u64 = 256 << 10;
/// How long before its deadline a group is requested: the server's maximum.
pub(crate) const LEAD: Nanos = 2 * SECOND;

/// The lowest lateness of packets that needs a cause, ns: pictures and sound that are due in the
/// same millisecond, and pictures that fill theirs, leave a little later by the burst rule.
pub(crate) const LATE: u64 = 20_000_000;

/// A block's memory: its number, and the block that was last read into it. It has bytes only for
/// views: those of files stay in the file.
#[derive(Debug)]
pub(crate) struct Page {
    pub number: u32,
    pub holds: Option<BlockId>,
    pub made: Vec<u8>,
}

/// A film's file or view, on the only disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilmOnDisk {
    pub film: FilmId,
    pub queue: usize,
    /// The index of the film in the node.
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

/// The error of a failed read.
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

/// How many blocks of views are made at the same time, as in the server.
pub(crate) const MAKERS: usize = 8;

/// A block of a view that is being made.
pub(crate) struct Making {
    pub read: Read<Pages>,
    pub filling: Filling,
}

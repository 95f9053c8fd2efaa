//! Requests, their answers, and reads.

use std::ops::Range;

use reelway_cache::BlockId;
use reelway_time::Monotonic;

use crate::block::Pin;
use crate::world::World;

/// What a request is for.
pub enum Purpose<W: World> {
    /// Blocks of a film, by their numbers.
    Blocks(W::Source, Range<u32>),
    /// So many blocks to write into.
    Empty(usize),
}

/// A request. It is answered once, by a [`Finished`] with its tag.
pub struct Request<W: World> {
    /// What it is for.
    pub what: Purpose<W>,
    /// When the blocks are needed: what is needed first is served first. Nothing is given up when it has passed.
    pub deadline: Monotonic,
    /// Comes back with the answer.
    pub tag: W::Tag,
}

/// What a request gets.
#[derive(Debug)]
pub enum Given<M> {
    /// The film's blocks, in order.
    Blocks(Vec<Pin<M>>),
    /// Empty blocks with their numbers; each comes back by [`crate::Pool::give_back`].
    Empty(Vec<(u32, M)>),
}

/// Why a request gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// The pool was closed.
    Closed,
    /// A block could not be read.
    Read(E),
}

/// A request's answer.
pub struct Finished<W: World> {
    /// The request's.
    pub tag: W::Tag,
    /// What it gets, or why it gets nothing.
    pub result: Result<Given<W::Memory>, Failure<W::Error>>,
}

impl<W: World> Finished<W> {
    pub(crate) fn failed(tag: W::Tag, why: Failure<W::Error>) -> Finished<W> {
        Finished {
            tag,
            result: Err(why),
        }
    }
}

/// A read to be done by a source. It comes back by [`crate::Pool::read_done`], whatever became of it.
pub struct Read<W: World> {
    /// The film.
    pub source: W::Source,
    /// Whose turn it takes: the source's, or that of the tier below.
    pub queue: usize,
    /// The block.
    pub id: BlockId,
    pub(crate) number: u32,
    /// The block's memory; `None` only while somebody else, such as the kernel, has it.
    pub memory: Option<W::Memory>,
    /// When the first request for it needs it.
    pub deadline: Monotonic,
    /// When it was first asked for.
    pub asked: Monotonic,
}

/// In order of deadline, then of asking.
pub(crate) type Urgency = (Monotonic, u64);

/// A request whose missing blocks are being read.
pub(crate) struct Pending<W: World> {
    pub parts: Vec<Option<Pin<W::Memory>>>,
    pub missing: usize,
    pub tag: W::Tag,
}

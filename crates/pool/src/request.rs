//! Requests, their answers, and reads.

use std::ops::Range;

use reelway_cache::BlockId;
use reelway_time::Monotonic;

use crate::block::Pin;
use crate::world::World;

/// What a request asks for.
pub enum Purpose<W: World> {
    /// Blocks of a film, by number.
    Blocks(W::Source, Range<u32>),
    /// This many empty blocks, to be written to.
    Empty(usize),
}

/// A request. It is answered once, by a [`Finished`] with its tag.
pub struct Request<W: World> {
    /// What it is for.
    pub what: Purpose<W>,
    /// When the blocks are needed: earlier deadlines are served first. A request is not dropped
    /// after its deadline.
    pub deadline: Monotonic,
    /// Returned with the answer.
    pub tag: W::Tag,
}

/// The result of a successful request.
#[derive(Debug)]
pub enum Given<M> {
    /// The film's blocks, in order.
    Blocks(Vec<Pin<M>>),
    /// Empty blocks with their numbers. Each is returned through [`crate::Pool::give_back`].
    Empty(Vec<(u32, M)>),
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// The pool was closed.
    Closed,
    /// A block could not be read.
    Read(E),
}

/// A request's answer.
pub struct Finished<W: World> {
    /// The request's tag.
    pub tag: W::Tag,
    /// The result, or why the request failed.
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

/// A read to be carried out by a source. It is returned through [`crate::Pool::read_done`],
/// whatever its outcome.
pub struct Read<W: World> {
    /// The film.
    pub source: W::Source,
    /// The queue in which it takes its turn: the source's, or that of the tier.
    pub queue: usize,
    /// The block.
    pub id: BlockId,
    pub(crate) number: u32,
    /// The block's memory. `None` only while another owner, such as the kernel, has it.
    pub memory: Option<W::Memory>,
    /// The earliest deadline of the requests for it.
    pub deadline: Monotonic,
    /// When it was first requested.
    pub asked: Monotonic,
}

/// Orders by deadline, then by the time of the request.
pub(crate) type Urgency = (Monotonic, u64);

/// A request whose missing blocks are being read.
pub(crate) struct Pending<W: World> {
    pub parts: Vec<Option<Pin<W::Memory>>>,
    pub missing: usize,
    pub tag: W::Tag,
}

//! What a lane leaves to its caller: memory, what is sent, the ways that packets take, and what its caller keeps with each
//! stream.

use crate::group::InMemory;
use crate::outline::Outline;

/// The caller's types of everything that a lane holds and does not look into.
pub trait Host {
    /// Bytes of a film in memory.
    type Bytes: InMemory;
    /// What a stream sends.
    type Script: Script;
    /// Where a track's packets go.
    type Path: Prefetch;
    /// What the caller keeps with a stream.
    type Owner: Prefetch;
    /// Where the answer to a request for a beginning goes.
    type Reply;
    /// A part of the memory that a kind of streams may pin together.
    type Share: Share;
}

/// What is sent, whoever it is sent to.
pub trait Script {
    /// Its groups, and when these are due.
    fn outline(&self) -> &Outline;

    /// How long before it is due a group is to be asked for, ns: as long as where the film lies takes to give it.
    fn lead(&self) -> u64;
}

/// Something of the caller's that a turn will read.
pub trait Prefetch {
    /// Fetches it into the processor's cache.
    fn prefetch(&self);
}

/// A part of the memory that a kind of streams may pin together, on all lanes.
pub trait Share {
    /// Leave to pin some blocks, as long as it lives.
    type Part;
    /// A place in the line for a part, as long as it lives.
    type Ticket;

    /// Leave to pin `blocks`, if they are available and no other stream waits for any.
    fn take(&self, blocks: usize) -> Option<Self::Part>;

    /// Leave to pin `blocks` when it is the caller's turn: streams that asked before and still wait are served first.
    /// Otherwise `ticket` keeps the caller's place in the line until the next try.
    fn take_in_turn(&self, ticket: &mut Option<Self::Ticket>, blocks: usize) -> Option<Self::Part>;
}

/// Leave to pin blocks of a lane's memory.
pub(crate) type Part<H> = <<H as Host>::Share as Share>::Part;

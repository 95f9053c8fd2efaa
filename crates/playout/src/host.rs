//! What a lane leaves to its caller: memory, the content to send, the paths of the packets, and the
//! data that the caller keeps with each stream.

use crate::group::InMemory;
use crate::outline::Outline;

/// The caller's types for everything that a lane stores without looking into it.
pub trait Host {
    /// Bytes of a film in memory.
    type Bytes: InMemory;
    /// The content that a stream sends.
    type Script: Script;
    /// The destination of a track's packets.
    type Path: Prefetch;
    /// The data that the caller keeps with a stream.
    type Owner: Prefetch;
    /// The destination of the answer to a request for a beginning.
    type Reply;
    /// The memory that streams of one kind may pin together.
    type Share: Share;
}

/// Content to be sent, shared by all streams that send it.
pub trait Script {
    /// Returns its groups and when they are due.
    fn outline(&self) -> &Outline;

    /// Returns how long before its deadline a group must be requested, ns: as long as the film's
    /// storage takes to deliver it.
    fn lead(&self) -> u64;
}

/// Data of the caller's that a turn will read.
pub trait Prefetch {
    /// Prefetches it into the processor's cache.
    fn prefetch(&self);
}

/// The memory that streams of one kind may pin together, on all lanes.
pub trait Share {
    /// Permission to pin some blocks, for as long as it lives.
    type Part;
    /// A place in the queue for permission, for as long as it lives.
    type Ticket;

    /// Grants `blocks` if they are available and no other stream waits for any.
    fn take(&self, blocks: usize) -> Option<Self::Part>;

    /// Grants `blocks` when it is the caller's turn: streams that asked earlier and still wait are
    /// served first. Otherwise `ticket` keeps the caller's place in the queue until
    /// the next attempt.
    fn take_in_turn(&self, ticket: &mut Option<Self::Ticket>, blocks: usize) -> Option<Self::Part>;
}

/// Permission to pin blocks of a lane's memory.
pub(crate) type Part<H> = <<H as Host>::Share as Share>::Part;

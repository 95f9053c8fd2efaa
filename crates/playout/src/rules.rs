//! What all streams go by, and what one of them may send.

use reelway_media::Nanos;

/// What all streams of all lanes have in common.
#[derive(Debug)]
pub struct Rules<S> {
    /// Packets that a stream sends within a millisecond at most, if its frame's rate does not need more; 1 to 64.
    pub burst: u16,
    /// A frame that no other needs is left out when it is so late, ns.
    pub drop_after: u64,
    /// How long before it is due a group is asked for at most, ns.
    pub ahead: Nanos,
    /// How far ahead of its time a film may leave over a limited link, ns.
    pub link_ahead: u64,
    /// A TCP reader who is so far behind is disconnected, ns.
    pub lag_limit: u64,
    /// A stall of more than this moves the timetable, ns.
    pub catch_up: u64,
    /// From one sender report to the next, ns.
    pub report_interval: u64,
    /// What TCP streams that are behind may pin together.
    pub behind: S,
    /// What groups that are read again for lost packets may pin together.
    pub again: S,
}

/// Packets of a track that may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Index among the stream's tracks.
    pub track: usize,
    /// Packets of the unit at hand: from the first, up to but not with the last.
    pub first: u32,
    /// See `first`.
    pub end: u32,
    /// When they should leave, ns.
    pub at: u64,
    /// When the kernel is to let them go, ns; 0: at once.
    pub departs: u64,
}

//! Rules for all streams, and the packets that a stream may send.

use reelway_media::Nanos;

/// The settings that all streams of all lanes share.
#[derive(Debug)]
pub struct Rules<S> {
    /// The most packets that a stream sends within a millisecond, unless its frame's rate needs
    /// more; 1 to 64.
    pub burst: u16,
    /// A frame that no other frame needs is left out when it is this late, ns.
    pub drop_after: u64,
    /// How long before its deadline a group is requested at most, ns.
    pub ahead: Nanos,
    /// How far ahead of its time film may leave over a limited link, ns.
    pub link_ahead: u64,
    /// A TCP client whose stream is this far behind is disconnected, ns.
    pub lag_limit: u64,
    /// A stall longer than this moves the timetable, ns.
    pub catch_up: u64,
    /// The interval between sender reports, ns.
    pub report_interval: u64,
    /// How much memory all TCP streams that are behind may pin together.
    pub behind: S,
    /// How much memory groups that are read again for lost packets may pin together.
    pub again: S,
}

/// Packets of a track that may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Index into the stream's tracks.
    pub track: usize,
    /// The first of these packets, counted within the current unit.
    pub first: u32,
    /// One past the last of them.
    pub end: u32,
    /// When they are due, ns.
    pub at: u64,
    /// When the kernel should send them, ns; 0: at once.
    pub departs: u64,
}

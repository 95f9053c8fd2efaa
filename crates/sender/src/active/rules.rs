//! What all streams go by, and what one of them may send.

use std::sync::Arc;

use reelway_media::Nanos;

use crate::share::Share;

/// What may leave now.
pub(crate) struct Due {
    pub track: usize,
    /// Packets of the unit at hand: from the first, up to but not with the last.
    pub first: u32,
    pub end: u32,
    /// When they should leave, CLOCK_MONOTONIC ns.
    pub at: u64,
    /// When the kernel is to let them go, on the same clock; 0: at once.
    pub departs: u64,
}

/// What all streams of a thread have in common.
pub(crate) struct Rules {
    pub burst: u16,
    pub nice: i32,
    pub realtime: u8,
    pub cores: Vec<usize>,
    pub drop_after: u64,
    pub ahead: Nanos,
    /// How far ahead of its time a film may leave over a limited link, ns.
    pub link_ahead: u64,
    pub lag_limit: u64,
    pub catch_up: u64,
    pub report_interval: u64,
    /// What TCP streams that are behind may pin together.
    pub behind: Arc<Share>,
    /// What groups that are read again for lost packets may pin together.
    pub again: Arc<Share>,
}

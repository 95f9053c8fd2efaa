//! Access units that a stream's meter passes to a player.

/// A received access unit: its time in the film by the RTP clock, and the arrival times of its
/// first and last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedUnit {
    /// Presentation time in nanoseconds.
    pub media: i64,
    /// ns since 1970.
    pub first: u64,
    pub last: u64,
    pub packets: u32,
    /// Whether packets are missing in it or before it.
    pub broken: bool,
}

//! What a stream's meter hands to a player.

/// An access unit that came: its time in the film by the RTP clock, and when its first and last packet
/// came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedUnit {
    /// Presentation time, ns.
    pub media: i64,
    /// ns since 1970.
    pub first: u64,
    pub last: u64,
    pub packets: u32,
    /// Packets are missing in it or before it.
    pub broken: bool,
}

//! What a stream over a TCP connection hands to that connection.

use crate::rules::Due;

/// How many packets are offered to a TCP connection at a time.
pub const TCP_PACKETS: u32 = 64;
/// The most frames that a TCP stream sends in a turn, so that one that catches up does
/// not delay others.
pub(crate) const TCP_FRAMES: u32 = 4;

/// What a TCP stream does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Nothing in this turn.
    Nothing,
    /// The caller should check whether the connection has room again ([`crate::Lane::connection`]).
    Look,
    /// All of these packets, or the first of them, should be written ([`crate::Lane::wrote`]).
    Write(Due),
}

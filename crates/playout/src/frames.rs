//! What a stream that is sent through a connection hands to it.

use crate::rules::Due;

/// Packets offered to a TCP connection at a time.
pub const TCP_PACKETS: u32 = 64;
/// Frames of a TCP stream sent in a turn at most, so that one that catches up does not hold up others.
pub(crate) const TCP_FRAMES: u32 = 4;

/// What a TCP stream is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Nothing in this turn.
    Nothing,
    /// Its caller is to look whether the connection has room again ([`crate::Lane::connection`]).
    Look,
    /// These packets are to be written, all or the first of them ([`crate::Lane::wrote`]).
    Write(Due),
}

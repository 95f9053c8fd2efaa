//! What is visible of a stream from outside.

use reelway_media::Nanos;

use crate::lateness::Lateness;

/// A stream's number within this process; never reused.
pub type StreamId = u64;

/// Where a stream begins, for the response to PLAY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayInfo {
    /// The film position in presentation time; for plain files the time since the first packet.
    pub start: Nanos,
    /// The position at which it will end.
    pub end: Nanos,
    /// The stream's tracks, in their order.
    pub tracks: Vec<TrackInfo>,
}

/// Where a track begins, for `RTP-Info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackInfo {
    /// Sequence number of the first packet.
    pub seq: u16,
    /// RTP timestamp of [`PlayInfo::start`] (RFC 2326 section 12.33).
    pub rtp_time: u32,
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The first packets are being read and planned.
    Preparing,
    /// It can begin at once, and waits for permission.
    Ready,
    /// It is being sent.
    Playing,
    /// It is paused.
    Paused,
    /// It has reached the end of its range.
    Ended,
    /// It cannot go on.
    Failed,
    /// It has stopped for good.
    Stopped,
}

/// A stream's counters. They fill one cache line, as they are written for every slice.
#[repr(C, align(64))]
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// RTP packets sent.
    pub packets: u64,
    /// Bytes of RTP sent, including headers, without IP and UDP.
    pub bytes: u64,
    /// The current position, in presentation time of the film.
    pub position: Nanos,
    /// How far it is behind at the moment, ns.
    pub behind: u64,
    /// How late packets left.
    pub late: Lateness,
}

/// Rare events of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    /// Packets that the kernel refused, and that are lost.
    pub refused: u64,
    /// How often its timetable was moved after a stall.
    pub shifts: u32,
    /// Frames left out because they were too late and no other frame needs them.
    pub dropped: u64,
    /// Packets sent again.
    pub resent: u64,
}

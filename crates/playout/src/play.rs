//! What others see of a stream.

use reelway_media::Nanos;

use crate::lateness::Lateness;

/// A stream of this process, never used again.
pub type StreamId = u64;

/// Where a stream begins, for the answer to PLAY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayInfo {
    /// Film position, presentation time; for files the time since their first packet.
    pub start: Nanos,
    /// Where it will end.
    pub end: Nanos,
    /// In the order of the stream's tracks.
    pub tracks: Vec<TrackInfo>,
}

/// Where a track begins, for `RTP-Info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackInfo {
    /// Sequence number of the first packet to come.
    pub seq: u16,
    /// RTP timestamp of [`PlayInfo::start`] (RFC 2326 section 12.33).
    pub rtp_time: u32,
}

/// What a stream does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The first packets are being read and planned.
    Preparing,
    /// Could begin at once, and waits for leave to.
    Ready,
    /// Is being sent.
    Playing,
    /// Stands still.
    Paused,
    /// At its range's end.
    Ended,
    /// Cannot go on.
    Failed,
    /// Over for good.
    Stopped,
}

/// What a stream has done: one cache line, as it is written for every slice.
#[repr(C, align(64))]
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// RTP packets sent.
    pub packets: u64,
    /// Bytes of RTP sent, headers included, IP and UDP not.
    pub bytes: u64,
    /// Where it is, in presentation time of the film.
    pub position: Nanos,
    /// How far it is behind now, ns.
    pub behind: u64,
    /// How late packets left.
    pub late: Lateness,
}

/// What happens to a stream now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    /// Packets the kernel refused: lost.
    pub refused: u64,
    /// Times its timetable was moved after a stall.
    pub shifts: u32,
    /// Frames left out because they came too late and no other frame needs them.
    pub dropped: u64,
    /// Packets sent again.
    pub resent: u64,
}

//! A viewer's track.

use std::mem::offset_of;

use reelway_hint::LINE;

use crate::again::Resend;
use crate::cursor::Cursor;
use crate::host::{Host, Part};

/// A viewer's track, and the destination of its packets. The fields that a turn touches come first,
/// as in [`crate::Stream`].
#[repr(C, align(64))]
pub struct Track<H: Host> {
    /// RTP synchronisation source.
    pub ssrc: u32,
    /// RTP timestamp of the film's presentation time 0.
    pub rtp_base: u32,
    /// The number of packets sent so far, as in sender reports.
    pub packets: u32,
    /// The number of payload bytes sent so far.
    pub octets: u32,
    /// Sequence number of the next packet.
    pub seq: u16,
    /// RTP payload type.
    pub payload_type: u8,
    /// The state of retransmission, if enabled.
    pub resend: Option<Box<Resend<H::Bytes, Part<H>>>>,
    /// The position in the film.
    pub cursor: Cursor<H::Bytes>,
    /// The destination of its packets.
    pub path: H::Path,
}

impl<H: Host> Track<H> {
    /// The number of bytes that a turn touches.
    pub(super) const HOT: usize = {
        assert!(offset_of!(Track<H>, cursor) + Cursor::<H::Bytes>::HOT <= 2 * LINE);
        3 * LINE
    };

    /// Applies `act` to the state of retransmission, if enabled.
    pub(super) fn resends(&mut self, act: fn(&mut Resend<H::Bytes, Part<H>>)) {
        if let Some(resend) = &mut self.resend {
            act(resend);
        }
    }
}

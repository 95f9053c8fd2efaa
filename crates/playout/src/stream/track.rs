//! A track of a viewer.

use std::mem::offset_of;

use reelway_hint::LINE;

use crate::again::Resend;
use crate::cursor::Cursor;
use crate::host::{Host, Part};

/// A track of a viewer, and where its packets go. What a turn touches comes first, as in [`crate::Stream`].
#[repr(C, align(64))]
pub struct Track<H: Host> {
    /// RTP synchronisation source.
    pub ssrc: u32,
    /// RTP timestamp of the film's presentation time 0.
    pub rtp_base: u32,
    /// Packets sent so far, as sender reports count.
    pub packets: u32,
    /// Bytes of payload sent so far.
    pub octets: u32,
    /// Sequence number of the next packet.
    pub seq: u16,
    /// RTP payload type.
    pub payload_type: u8,
    /// What it sends again, if it does.
    pub resend: Option<Box<Resend<H::Bytes, Part<H>>>>,
    /// Where it stands in the film.
    pub cursor: Cursor<H::Bytes>,
    /// Where its packets go.
    pub path: H::Path,
}

impl<H: Host> Track<H> {
    /// Bytes that a turn touches.
    pub(super) const HOT: usize = {
        assert!(offset_of!(Track<H>, cursor) + Cursor::<H::Bytes>::HOT <= 2 * LINE);
        3 * LINE
    };

    /// Has what it sends again, if it does, do something.
    pub(super) fn resends(&mut self, act: fn(&mut Resend<H::Bytes, Part<H>>)) {
        if let Some(resend) = &mut self.resend {
            act(resend);
        }
    }
}

//! A track of a viewer, and where its packets go.

use std::mem::offset_of;
use std::sync::Arc;

use reelway_hint::LINE;
use reelway_sys::udp::Destination;

use crate::FrameWriter;
use crate::plans::Cursor;
use crate::plans::Resend;
use crate::writer::Room;

/// Where a track's packets go.
pub(crate) enum Path {
    /// To a pair of UDP ports.
    Udp(Box<UdpPath>),
    /// Into an RTSP connection.
    Tcp {
        conn: Arc<FrameWriter>,
        rtp: u8,
        rtcp: u8,
        /// Its part of what the connection may send.
        _room: Room,
    },
}

/// The way to a pair of UDP ports. What RTP needs comes first.
#[repr(C, align(64))]
pub(crate) struct UdpPath {
    /// Which of the thread's RTP sockets.
    pub socket: u8,
    pub rtp: Destination,
    /// Which of the RTCP sockets.
    pub rtcp_socket: usize,
    pub rtcp: Destination,
    /// Whether the kernel holds its packets until they are to depart.
    pub held: bool,
}

/// A track of a viewer. What a turn touches comes first, as in [`super::Active`].
#[repr(C, align(64))]
pub(crate) struct Track {
    pub ssrc: u32,
    pub rtp_base: u32,
    /// Sent so far, as sender reports count.
    pub packets: u32,
    pub octets: u32,
    /// Sequence number of the next packet.
    pub seq: u16,
    pub payload_type: u8,
    /// What it sends again, if it does.
    pub resend: Option<Box<Resend>>,
    pub cursor: Cursor,
    pub path: Path,
}

/// Bytes of [`Track`] that a turn touches.
pub(crate) const HOT_TRACK: usize = 3 * LINE;
const _: () =
    assert!(offset_of!(Track, cursor) + Cursor::HOT <= 2 * LINE && size_of::<Track>() <= 4 * LINE);

impl Track {
    /// Has what it sends again, if it does, do something.
    pub(super) fn resends(&mut self, act: fn(&mut Resend)) {
        if let Some(resend) = &mut self.resend {
            act(resend);
        }
    }
}

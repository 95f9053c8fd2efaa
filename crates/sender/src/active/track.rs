//! A track of a viewer, and where its packets go.

use std::sync::Arc;

use reelway_sys::udp::Destination;

use crate::FrameWriter;
use crate::again::Resend;
use crate::cursor::Cursor;
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

/// The way to a pair of UDP ports.
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

/// A track of a viewer.
pub(crate) struct Track {
    pub path: Path,
    pub payload_type: u8,
    pub ssrc: u32,
    /// Sequence number of the next packet.
    pub seq: u16,
    pub rtp_base: u32,
    /// Sent so far, as sender reports count.
    pub packets: u32,
    pub octets: u32,
    /// What it sends again, if it does.
    pub resend: Option<Box<Resend>>,
    pub cursor: Cursor,
}

impl Track {
    /// Has what it sends again, if it does, do something.
    pub(super) fn resends(&mut self, act: fn(&mut Resend)) {
        if let Some(resend) = &mut self.resend {
            act(resend);
        }
    }
}

//! Where a track's packets go.

use std::sync::Arc;

use reelway_hint as hint;
use reelway_playout::Prefetch;
use reelway_sys::udp::Destination;

use crate::writer::{FrameWriter, Room};

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
    /// Whether runs may be cut by the kernel on this way.
    pub gso: bool,
    pub rtp: Destination,
    /// Which of the RTCP sockets.
    pub rtcp_socket: usize,
    pub rtcp: Destination,
    /// Whether packets go without RTP, and no reports.
    pub plain: bool,
    /// Whether the kernel holds its packets until they are to depart.
    pub held: bool,
}

impl Prefetch for Path {
    fn prefetch(&self) {
        if let Path::Udp(udp) = self {
            hint::value(&**udp);
        }
    }
}

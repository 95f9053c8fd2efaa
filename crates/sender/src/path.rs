//! Paths of a track's packets.

use std::sync::Arc;

use reelway_hint as hint;
use reelway_playout::Prefetch;
use reelway_sys::udp::Destination;

use crate::writer::{FrameWriter, Room};

/// The path of a track's packets.
pub(crate) enum Path {
    /// To a pair of UDP ports.
    Udp(Box<UdpPath>),
    /// Over an RTSP connection.
    Tcp {
        conn: Arc<FrameWriter>,
        rtp: u8,
        rtcp: u8,
        /// Its share of the connection's rate.
        _room: Room,
    },
}

/// The path to a pair of UDP ports. Fields used for RTP come first.
#[repr(C, align(64))]
pub(crate) struct UdpPath {
    /// Index of the RTP socket among the thread's.
    pub socket: u8,
    /// Whether the kernel may segment runs on this path.
    pub gso: bool,
    pub rtp: Destination,
    /// Index of the RTCP socket.
    pub rtcp_socket: usize,
    pub rtcp: Destination,
    /// Whether packets are sent without RTP and without reports.
    pub plain: bool,
    /// Whether the kernel holds its packets until their departure times.
    pub held: bool,
}

impl Prefetch for Path {
    fn prefetch(&self) {
        if let Path::Udp(udp) = self {
            hint::value(&**udp);
        }
    }
}

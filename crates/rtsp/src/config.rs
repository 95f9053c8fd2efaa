//! What can be set of the RTSP server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use reelway_rtp::PayloadOptions;

use crate::parser::Bounds;

/// Settings of the RTSP server. All bounds exist because a stranger chooses what comes in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtspConfig {
    /// Where to listen, TCP. By default `127.0.0.1:8554`.
    pub listen: Vec<SocketAddr>,
    /// Silence after which a session is given up, as told to clients in `Session: …;timeout=`.
    /// 60 s is what RFC 2326 section 12.37 takes where nothing is said, so clients that do not read
    /// it are right too.
    pub session_timeout: Duration,
    /// The same for a viewer who has paused and whose control connection is open: players send no
    /// sign of life while they are paused. 10 minutes.
    pub paused_timeout: Duration,
    /// How long a message may take from its first byte to its last, and a new connection to its
    /// first message. 10 s is ample for a request of some hundred bytes over any link and bounds
    /// what somebody gains who sends a byte a minute.
    pub message_timeout: Duration,
    /// How long a connection without a session may be silent between messages. 60 s: players
    /// ask for the next thing at once, people with telnet within a minute.
    pub idle_timeout: Duration,
    /// How long a closing connection may take to carry what is still to be said.
    pub linger: Duration,
    /// Most connections at once. One costs a descriptor and some kilobytes; 12,000 of them stay
    /// below 100 MB and above what one machine serves.
    pub connections: usize,
    /// Most connections of one address at once. A household behind one address needs a dozen, a
    /// measuring client thousands; a third of all leaves room for others.
    pub connections_per_peer: usize,
    /// Most sessions that one connection controls. Players use one, or two while they change from
    /// UDP to TCP.
    pub sessions_per_connection: usize,
    /// Offer GStreamer that lost packets are sent again. Its jitter buffer (1.22) is better off without
    /// on a network that loses nothing: after a seek it misses packets that never were, asks for pictures
    /// that come before their time, and may lose its timestamps over it.
    pub offer_retransmission: bool,
    /// Where transport streams may be sent without RTP. Nobody tells whether they arrive, or that they are wanted, so a server
    /// must not send them to whoever is named. Nowhere by default.
    pub plain_udp: Vec<IpNet>,
    /// How media is cut into packets: as the sender does it. Descriptions say the rate with it.
    pub payload: PayloadOptions,
    /// Bounds of a message.
    pub bounds: Bounds,
}

impl Default for RtspConfig {
    fn default() -> Self {
        RtspConfig {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8554))],
            session_timeout: Duration::from_secs(60),
            paused_timeout: Duration::from_secs(600),
            message_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            linger: Duration::from_secs(2),
            connections: 12_000,
            connections_per_peer: 4_096,
            sessions_per_connection: 8,
            offer_retransmission: false,
            plain_udp: Vec::new(),
            payload: PayloadOptions::default(),
            bounds: Bounds::default(),
        }
    }
}

//! Settings of the RTSP server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use reelway_rtp::PayloadOptions;

use crate::parser::Bounds;

/// Settings of the RTSP server. All limits exist because clients are not trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtspConfig {
    /// TCP addresses to listen on; by default `127.0.0.1:8554`.
    pub listen: Vec<SocketAddr>,
    /// Silence after which a session ends, as stated in `Session: …;timeout=`. The default of 60 s
    /// is that of RFC 2326 section 12.37, so it also suits clients that ignore the value.
    pub session_timeout: Duration,
    /// The same for paused viewers whose control connection is open: players send no sign of life
    /// while paused. 10 minutes.
    pub paused_timeout: Duration,
    /// Limits the time from a message's first byte to its last, and from a new connection to its
    /// first message. 10 s is ample for a request of some hundred bytes over any link, and limits
    /// what a client gains by sending a byte per minute.
    pub message_timeout: Duration,
    /// How long a connection without a session may be silent between messages. 60 s: players send
    /// the next request at once, people with telnet within a minute.
    pub idle_timeout: Duration,
    /// How long a closing connection may take to send what is still queued.
    pub linger: Duration,
    /// Maximum number of connections. One takes a descriptor and some kilobytes; 12,000 take less
    /// than 100 MB and are more than one machine serves.
    pub connections: usize,
    /// Maximum number of connections per address. A household behind one address needs a dozen, a
    /// load generator thousands; a third of all leaves room for others.
    pub connections_per_peer: usize,
    /// Maximum number of sessions that one connection controls. Players use one, or two while they
    /// switch from UDP to TCP.
    pub sessions_per_connection: usize,
    /// Whether to offer retransmission to GStreamer. Its jitter buffer (1.22) works better without
    /// on a lossless network: after a seek it misses packets that never existed, asks for pictures
    /// before their time, and may lose its timestamps.
    pub offer_retransmission: bool,
    /// Networks to which transport streams may be sent without RTP. There is no feedback on whether
    /// they arrive or are wanted, so a server must not send them to arbitrary addresses. Empty by
    /// default.
    pub plain_udp: Vec<IpNet>,
    /// How media is cut into packets, equal to the sender's. Descriptions derive the bit rate from
    /// it.
    pub payload: PayloadOptions,
    /// Limits of a message.
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

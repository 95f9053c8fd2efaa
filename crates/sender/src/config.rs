//! What can be chosen, and why there may be no sender.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use reelway_rtp::PayloadOptions;

/// How the sender sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// This machine's addresses that media leaves from, a socket each and thread; `[::]` serves IPv4 too.
    pub addresses: Vec<IpAddr>,
    /// UDP port of all RTP; 0: as the system chooses.
    pub rtp_port: u16,
    /// UDP port of all RTCP; 0: as the system chooses.
    pub rtcp_port: u16,
    /// Sender threads; 0: one a core.
    pub threads: usize,
    /// Packets of a stream that may leave within 1 ms, unless its frame's rate needs more; 1 to 64.
    pub burst: u16,
    /// Nice value of the sender threads, -20 to 19, where the system lets them: packets have their
    /// times, and the threads need little of a core.
    pub nice: i32,
    /// What fits a packet.
    pub payload: PayloadOptions,
    /// Whether the kernel may cut runs of packets (GSO). Where it refuses, it is not asked again.
    pub gso: bool,
    /// How long before it is due a group of samples is read and planned.
    pub ahead: Duration,
    /// A TCP reader further behind than this is given up.
    pub lag_limit: Duration,
    /// A UDP stream further behind than this (the process was stopped, say) goes on later instead of
    /// sending faster.
    pub catch_up: Duration,
    /// How often sender reports leave.
    pub report_interval: Duration,
    /// Canonical name in RTCP (RFC 3550 section 6.5.1).
    pub cname: String,
    /// Send buffer of each UDP socket, bytes.
    pub send_buffer: u32,
}

impl Default for SenderConfig {
    fn default() -> Self {
        SenderConfig {
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            rtp_port: 8000,
            rtcp_port: 8001,
            threads: 0,
            burst: 8,
            nice: -10,
            payload: PayloadOptions::default(),
            gso: true,
            ahead: Duration::from_millis(500),
            lag_limit: Duration::from_secs(10),
            catch_up: Duration::from_secs(1),
            report_interval: Duration::from_secs(5),
            cname: "reelway".to_owned(),
            send_buffer: 4 << 20,
        }
    }
}

/// Why there is no sender.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// A UDP address cannot be had.
    #[error("UDP {address} for {what}: {error}")]
    Bind {
        /// What was asked for.
        address: SocketAddr,
        /// RTP or RTCP.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// No address was given.
    #[error("no address to send from")]
    NoAddress,
    /// A thread could not be started.
    #[error("a sender thread cannot be started: {0}")]
    Thread(io::Error),
}

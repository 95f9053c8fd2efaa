//! Settings of the sender, and why it may fail to start.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use reelway_rtp::PayloadOptions;

use crate::links::LinkConfig;

/// Settings of the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// This machine's addresses from which media is sent, with a socket per address and thread;
    /// `[::]` also serves IPv4.
    pub addresses: Vec<IpAddr>,
    /// UDP port of all RTP; 0 lets the system choose. If both ports are 0, they are adjacent and
    /// RTP's is even.
    pub rtp_port: u16,
    /// UDP port of all RTCP; 0 lets the system choose.
    pub rtcp_port: u16,
    /// Number of sender threads; 0 means one per entry of `cores`, or per core of the machine.
    pub threads: usize,
    /// Packets of a stream that may leave within 1 ms, unless its frame's rate needs more; 1 to 64.
    pub burst: u16,
    /// Nice value of the sender threads, -20 to 19, as far as the system allows: packets must leave
    /// on time, and the threads need little CPU time.
    pub nice: i32,
    /// Real-time priority (`SCHED_FIFO`) of the sender threads, 1 to 99, as far as the system
    /// allows; 0 for ordinary threads with `nice`.
    pub realtime: u8,
    /// Processors that the sender threads are bound to, in turn; empty lets the system choose.
    pub cores: Vec<usize>,
    /// DSCP of RTP and RTCP over UDP (RFC 2474), 0 to 63; 0 is unmarked.
    pub dscp: u8,
    /// Whether packets are handed over early with departure times if the kernel holds them until
    /// then (fq).
    pub departures: bool,
    /// A frame that no other frame needs is dropped if it is this late when its turn comes. At
    /// eight times this lateness, frames are dropped up to the next that can be decoded alone.
    pub drop_after: Duration,
    /// Packet size limits.
    pub payload: PayloadOptions,
    /// How packets are passed to the kernel. If the machine does not support it, the next way is
    /// used.
    pub backend: BackendChoice,
    /// Maximum time before its due time at which a group of samples is read and planned. The actual
    /// time follows the recent latency of the disk or origin ([`reelway_store::Lane::lead`]).
    pub ahead: Duration,
    /// How far ahead of time a film is sent over links without a limit, into the receivers'
    /// buffers, so that it is sent evenly. 0 sends each picture at its time, spread over its
    /// duration.
    pub smooth_ahead: Duration,
    /// How far ahead of time a film may be sent over limited links while they have room. This makes
    /// up for moments in which more is due than the link carries.
    pub link_ahead: Duration,
    /// The limited links; streams refer to the ones they pass ([`crate::FilmStream::links`]).
    pub links: Vec<LinkConfig>,
    /// How far a TCP reader may be behind; beyond this its stream fails.
    pub lag_limit: Duration,
    /// A UDP stream further behind than this (because the process was stopped, for example) is
    /// shifted instead of sent faster.
    pub catch_up: Duration,
    /// Interval of sender reports.
    pub report_interval: Duration,
    /// Canonical name in RTCP (RFC 3550 section 6.5.1).
    pub cname: String,
    /// Send buffer of each UDP socket in bytes.
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
            realtime: 0,
            cores: Vec::new(),
            // AF41, multimedia (RFC 4594 section 4.5).
            dscp: 34,
            departures: true,
            drop_after: Duration::from_millis(100),
            payload: PayloadOptions::default(),
            backend: BackendChoice::Auto,
            ahead: Duration::from_secs(2),
            smooth_ahead: Duration::ZERO,
            link_ahead: Duration::from_secs(1),
            links: Vec::new(),
            lag_limit: Duration::from_secs(10),
            catch_up: Duration::from_secs(1),
            report_interval: Duration::from_secs(5),
            cname: "reelway".to_owned(),
            send_buffer: 4 << 20,
        }
    }
}

/// How packets are passed to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// The cheapest way that the machine supports.
    #[default]
    Auto,
    /// `sendmmsg` of messages that the kernel segments into packets (GSO).
    Gso,
    /// `sendmmsg` of single packets.
    Sendmmsg,
}

impl BackendChoice {
    /// All choices with their names in configurations.
    pub const NAMES: [(BackendChoice, &'static str); 3] = [
        (BackendChoice::Auto, "auto"),
        (BackendChoice::Gso, "gso"),
        (BackendChoice::Sendmmsg, "sendmmsg"),
    ];
}

impl std::fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = Self::NAMES.iter().find(|(choice, _)| choice == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl std::str::FromStr for BackendChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(choice, _)| *choice).ok_or_else(|| {
            let names = Self::NAMES.map(|(_, name)| format!("\"{name}\""));
            format!("'{text}' is none of {}", names.join(", "))
        })
    }
}

/// Why the sender cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// A UDP address cannot be bound.
    #[error("UDP {address} for {what}: {error}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// RTP or RTCP.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
    /// No address was given.
    #[error("no address to send from")]
    NoAddress,
    /// A thread could not be started.
    #[error("a sender thread cannot be started: {0}")]
    Thread(io::Error),
}

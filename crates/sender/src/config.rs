//! What can be chosen, and why there may be no sender.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use reelway_rtp::PayloadOptions;

use crate::links::LinkConfig;

/// How the sender sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// This machine's addresses that media leaves from, a socket each and thread; `[::]` serves IPv4 too.
    pub addresses: Vec<IpAddr>,
    /// UDP port of all RTP; 0: as the system chooses. Both 0: two neighbours, RTP's even.
    pub rtp_port: u16,
    /// UDP port of all RTCP; 0: as the system chooses.
    pub rtcp_port: u16,
    /// Sender threads; 0: one for each of `cores`, or for each core there is.
    pub threads: usize,
    /// Packets of a stream that may leave within 1 ms, unless its frame's rate needs more; 1 to 64.
    pub burst: u16,
    /// Nice value of the sender threads, -20 to 19, where the system lets them: packets have their
    /// times, and the threads need little of a core.
    pub nice: i32,
    /// Real-time priority (`SCHED_FIFO`) of the sender threads, 1 to 99, where the system lets them; 0:
    /// none, they are ordinary threads with `nice`.
    pub realtime: u8,
    /// The processors that the sender threads run on, one each in turn; none: wherever the system puts
    /// them.
    pub cores: Vec<usize>,
    /// Code point that marks RTP and RTCP over UDP for routers (RFC 2474), 0 to 63; unmarked: 0.
    pub dscp: u8,
    /// Whether packets are handed over ahead, with their departure times, where the kernel holds them
    /// until then (fq).
    pub departures: bool,
    /// A frame that no other needs is left out if it is this late when its turn comes; one that is eight
    /// times as late, with all up to the next that can be decoded alone.
    pub drop_after: Duration,
    /// What fits a packet.
    pub payload: PayloadOptions,
    /// How packets get to the kernel. What the machine refuses leads to the next way.
    pub backend: BackendChoice,
    /// How long before it is due a group of samples is read and planned, at most: it is as long as the disk or origin
    /// takes of late ([`reelway_store::Lane::lead`]).
    pub ahead: Duration,
    /// How far ahead of its time a film is sent over links without a limit, so that it is sent evenly: into the
    /// receivers' buffers. 0: each picture leaves at its time, within the time it stands.
    pub smooth_ahead: Duration,
    /// How far ahead of its time a film may be sent over limited links, while they have room: what is ahead makes up
    /// for the moments in which more is due than the link carries.
    pub link_ahead: Duration,
    /// The links that carry only so much; streams name those that they pass ([`crate::FilmStream::links`]).
    pub links: Vec<LinkConfig>,
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

/// Ways for packets to get to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendChoice {
    /// What costs least of what the machine has.
    #[default]
    Auto,
    /// `sendmmsg` of messages that the kernel cuts into packets (GSO).
    Gso,
    /// `sendmmsg` of single packets.
    Sendmmsg,
}

impl BackendChoice {
    /// All, with their names in configurations.
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

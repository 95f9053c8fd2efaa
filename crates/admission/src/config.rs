//! The settings of admission.

use std::net::IpAddr;
use std::time::Duration;

use reelway_demand::{Eager, Reading};
use reelway_media::{Nanos, SECOND};
use reelway_rtp::PayloadOptions;

use crate::capacity::Capacity;
use crate::crowd::Limits;
use crate::members::Members;
use crate::policy::{Class, Policy};

/// How viewers are judged, and what is booked for them.
#[derive(Clone, Debug)]
pub struct Config {
    /// The rule for judging newcomers.
    pub policy: Policy,
    /// What the machine can carry.
    pub capacity: Capacity,
    /// Maximum numbers of viewers per title, address and user.
    pub limits: Limits,
    /// Classes of viewers and their members, the first class first.
    pub classes: Vec<(Class, Members)>,
    /// A newcomer waits for room that will be free within this many seconds.
    pub wait: u32,
    /// Whether a viewer who seeks or resumes is refused like a newcomer.
    pub ask_again: bool,
    /// How samples are packetised, as in the sender.
    pub payload: PayloadOptions,
    /// Bytes of the pool in which blocks stay that a viewer is going to ask for; 0 if none are
    /// certain to stay.
    pub pool: u64,
    /// How films are read into the pool.
    pub reading: Reading,
    /// How films over HTTP are kept within what is booked for them, if a network is limited.
    pub eager: Eager,
    /// How far ahead of their time films are sent over RTP so that they are sent evenly, as in the
    /// sender.
    pub sent_ahead: Nanos,
    /// How far ahead of their time films may be sent over RTP while a limited network has room.
    pub link_ahead: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            policy: Policy::Exact,
            capacity: Capacity::unlimited(),
            limits: Limits::default(),
            classes: Vec::new(),
            wait: 0,
            ask_again: false,
            payload: PayloadOptions::default(),
            pool: 0,
            reading: Reading {
                block: 256 << 10,
                ahead: 2 * SECOND,
            },
            eager: Eager::default(),
            sent_ahead: 0,
            link_ahead: Duration::ZERO,
        }
    }
}

impl Config {
    /// Whether anything is limited by what viewers need. If not, nothing is booked, and no film's
    /// needs are computed.
    pub fn books(&self) -> bool {
        !self.capacity.is_unlimited()
    }

    /// The class of a viewer of this title at this address: the first that they belong to, or the
    /// last.
    pub fn class_of(&self, address: IpAddr, title: &str) -> usize {
        let has = |(_, members): &(Class, Members)| members.has(address, title);
        let first = self.classes.iter().position(has);
        first.unwrap_or(self.classes.len().saturating_sub(1))
    }

    /// Whether no viewer is ever refused.
    pub fn is_open(&self) -> bool {
        !self.books()
            && self.limits == Limits::default()
            && !matches!(self.policy, Policy::Count(_))
    }
}

/// Bounds on the number of sessions. Each is named after its key in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of sessions.
    pub sessions: usize,
    /// Maximum number of sessions of one address (IPv6: /64).
    pub per_address: usize,
    /// Maximum number of sessions of one address that have not asked for media yet.
    pub unplayed_per_address: usize,
    /// Maximum number of sessions of one connection that have not asked for media yet; beyond it,
    /// the oldest of them ends.
    pub unplayed_per_connection: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            sessions: 10_000,
            per_address: 5_000,
            unplayed_per_address: 1_000,
            unplayed_per_connection: 16,
        }
    }
}

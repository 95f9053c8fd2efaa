//! The network behind the node: a link that may be limited, and paths to viewers that
//! may lose packets.

use reelway_determinism::Random;

/// Longest queue of a limited link, ns: the default of `capacity.queue`.
pub(crate) const QUEUE: u64 = 20_000_000;
/// The permitted excess, bytes: if a stream reserves room for the packets of one track, as many of
/// the other may leave with them when both are due.
const BESIDE: u64 = 8 * 1538;

/// By how much the queue may be longer because of HTTP traffic that the link does not know of, ns:
/// a client that reads more slowly than it could is in transit for longer than reported.
const UNTOLD: u64 = QUEUE / 2;

/// The network.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Bytes per second that the link carries, if it is limited.
    rate: Option<u64>,
    /// When everything handed over has left, ns.
    drained: u64,
    /// The time up to which HTTP traffic has been added, ns.
    at: u64,
    /// How long traffic that the link does not know of takes: it stays in the queue until
    /// that is empty.
    untold: u64,
    /// The permitted length of the queue until it is empty, ns: more than usual while it contains a
    /// longer TCP frame that found it empty.
    bears: u64,
    /// One packet in this many is lost; 0: none.
    one_in: u64,
}

impl Wire {
    /// Creates a link of `rate` bytes per second, and paths that lose one packet in `one_in`.
    pub fn new(rate: Option<u64>, one_in: u64) -> Wire {
        Wire {
            rate,
            drained: 0,
            at: 0,
            untold: 0,
            bears: QUEUE,
            one_in,
        }
    }

    /// Returns whether packets are lost in transit.
    pub fn is_lossy(&self) -> bool {
        self.one_in > 0
    }

    /// Returns whether a packet is lost.
    pub fn loses(&self, random: &mut Random) -> bool {
        self.is_lossy() && random.once_in(self.one_in)
    }

    /// Returns how much the link takes of the `would` billionths of a byte that connections would
    /// have sent since the last call. TCP sends only as much as the queue can hold. The link knows
    /// of `reported` bytes per second.
    pub fn takes_flows(&mut self, now: u64, would: u128, reported: u64) -> u128 {
        let Some(rate) = self.rate else {
            return would;
        };
        let before = std::mem::replace(&mut self.at, now);
        let begins = self.drained.max(before);
        let room = (now + QUEUE).saturating_sub(begins);
        let takes = would.min(u128::from(room) * u128::from(rate));
        self.drained = begins + u64::try_from(takes / u128::from(rate)).unwrap_or(u64::MAX / 2);
        let known = u128::from(reported) * u128::from(now.saturating_sub(before));
        let untold = takes.saturating_sub(known) / u128::from(rate);
        self.untold = UNTOLD.min(self.untold + u64::try_from(untold).unwrap_or(UNTOLD));
        takes
    }

    /// Adds bytes to the link's queue. Returns how long the last of them waits, ns, if that exceeds
    /// the permitted length. Packets that find the queue empty may always leave, and a TCP frame
    /// leaves as a whole if its first packet may.
    pub fn takes(&mut self, now: u64, bytes: u64, is_frame: bool) -> Option<u64> {
        let rate = self.rate?;
        let before = self.drained.saturating_sub(now);
        let time = |bytes: u64| bytes * 1_000_000_000 / rate;
        let beside = time(BESIDE);
        let all = before + time(bytes);
        self.drained = now + all;
        if before <= beside {
            self.bears = if is_frame { all.max(QUEUE) } else { QUEUE };
            self.untold = 0;
            return None;
        }
        let judged = if is_frame { before } else { all };
        (judged > self.bears + self.untold + beside).then_some(all)
    }
}

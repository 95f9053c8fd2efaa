//! The network behind the node: a link that may carry only so much, and ways to viewers on which packets are lost.

use reelway_determinism::Random;

/// Longest queue of a limited link, ns: `capacity.queue` by default.
pub(crate) const QUEUE: u64 = 20_000_000;
/// What may come beyond it, bytes: where a stream takes room for the packets of one track, as many of the other may leave
/// beside them when both are due.
const BESIDE: u64 = 8 * 1538;

/// How much more of the queue is borne until it is empty, ns, once windows over HTTP were in it. What a client takes more
/// slowly than it might is longer on its way than the link was told.
const OF_HTTP: u64 = QUEUE / 2;

/// The network.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Bytes a second that the link carries, if it is limited.
    rate: Option<u64>,
    /// When all that was handed over has left, ns.
    drained: u64,
    /// Up to when what viewers over HTTP are sent has been added to it, ns.
    at: u64,
    /// Whether some of it has been in the queue since that was empty.
    mixed: bool,
    /// What the queue bears until it is empty, ns: more than usually while a frame of TCP is in it that is longer, and found it
    /// empty.
    bears: u64,
    /// One packet in so many is lost; 0: none.
    one_in: u64,
}

impl Wire {
    /// A link of so many bytes a second, and ways that lose one packet in so many.
    pub fn new(rate: Option<u64>, one_in: u64) -> Wire {
        Wire {
            rate,
            drained: 0,
            at: 0,
            mixed: false,
            bears: QUEUE,
            one_in,
        }
    }

    /// Whether packets get lost on the way.
    pub fn is_lossy(&self) -> bool {
        self.one_in > 0
    }

    /// Whether a packet is lost.
    pub fn loses(&self, random: &mut Random) -> bool {
        self.is_lossy() && random.once_in(self.one_in)
    }

    /// Connections would have sent so many billionths of a byte since it was asked last: what of that the link takes. TCP
    /// sends no more than what leaves its queue no longer than it may be.
    pub fn takes_flows(&mut self, now: u64, would: u128) -> u128 {
        let Some(rate) = self.rate else {
            return would;
        };
        let before = std::mem::replace(&mut self.at, now);
        let begins = self.drained.max(before);
        let room = (now + QUEUE).saturating_sub(begins);
        let takes = would.min(u128::from(room) * u128::from(rate));
        self.drained = begins + u64::try_from(takes / u128::from(rate)).unwrap_or(u64::MAX / 2);
        self.mixed |= takes > 0;
        takes
    }

    /// Bytes are handed over at once: for how long the last of them waits in the link's queue, ns, if that is more than it
    /// bears. What finds the queue empty may always leave, and a frame of TCP as a whole if its first packet may.
    pub fn takes(&mut self, now: u64, bytes: u64, is_frame: bool) -> Option<u64> {
        let rate = self.rate?;
        let before = self.drained.saturating_sub(now);
        let time = |bytes: u64| bytes * 1_000_000_000 / rate;
        let beside = time(BESIDE);
        let all = before + time(bytes);
        self.drained = now + all;
        if before <= beside {
            self.bears = if is_frame { all.max(QUEUE) } else { QUEUE };
            self.mixed = false;
            return None;
        }
        let judged = if is_frame { before } else { all };
        let of_http = if self.mixed { OF_HTTP } else { 0 };
        (judged > self.bears + of_http + beside).then_some(all)
    }
}

//! The network behind the node: a link that may carry only so much, and ways to viewers on which packets are lost.

use reelway_determinism::Random;

/// Longest queue of a limited link, ns: `capacity.queue` by default.
pub(crate) const QUEUE: u64 = 20_000_000;
/// What may come beyond it, bytes: where a stream takes room for the packets of one track, as many of the other may leave
/// beside them when both are due.
const BESIDE: u64 = 8 * 1538;

/// How much more of the queue is borne, ns, for what comes over HTTP without the link's being told: what a client takes more
/// slowly than it might is longer on its way than was said.
const UNTOLD: u64 = QUEUE / 2;

/// The network.
#[derive(Debug)]
pub(crate) struct Wire {
    /// Bytes a second that the link carries, if it is limited.
    rate: Option<u64>,
    /// When all that was handed over has left, ns.
    drained: u64,
    /// Up to when what viewers over HTTP are sent has been added to it, ns.
    at: u64,
    /// How long what the link was not told of takes, ns: it stays in the queue until that is empty.
    untold: u64,
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
            untold: 0,
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
    /// sends no more than what leaves its queue no longer than it may be. The link was told of so many bytes a second.
    pub fn takes_flows(&mut self, now: u64, would: u128, told: u64) -> u128 {
        let Some(rate) = self.rate else {
            return would;
        };
        let before = std::mem::replace(&mut self.at, now);
        let begins = self.drained.max(before);
        let room = (now + QUEUE).saturating_sub(begins);
        let takes = would.min(u128::from(room) * u128::from(rate));
        self.drained = begins + u64::try_from(takes / u128::from(rate)).unwrap_or(u64::MAX / 2);
        let known = u128::from(told) * u128::from(now.saturating_sub(before));
        let untold = takes.saturating_sub(known) / u128::from(rate);
        self.untold = UNTOLD.min(self.untold + u64::try_from(untold).unwrap_or(UNTOLD));
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
            self.untold = 0;
            return None;
        }
        let judged = if is_frame { before } else { all };
        (judged > self.bears + self.untold + beside).then_some(all)
    }
}

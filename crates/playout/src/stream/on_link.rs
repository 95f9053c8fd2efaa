//! The state of a stream on limited links.

use std::sync::Arc;

use crate::link::Way;

/// The rate of a stream that is ahead of its time, in percent of its peak rate. It is little more
/// than needed: a newcomer fills the receiver's buffer over some seconds, not at the speed
/// of the link.
const PACE: u64 = 125;

/// The state of a stream on the limited links that its packets pass.
pub struct OnLink {
    pub(crate) way: Arc<Way>,
    /// How far ahead of its time anything may leave, ns.
    ahead: u64,
    /// The rate at which it sends while it is ahead, bytes per second.
    rate: u64,
    /// No packet leaves ahead of its time before this.
    ahead_after: u64,
    /// Bytes for which room was reserved, and bytes handed over since.
    reserved: u64,
    handed: u64,
    /// The deadline with which it waits in the queue.
    pub(crate) in_line_for: u64,
}

impl OnLink {
    /// Creates the state of a stream with a peak rate of `peak` bytes per second, which may send up
    /// to `ahead` ns early.
    pub fn new(way: Arc<Way>, ahead: u64, peak: u64) -> OnLink {
        OnLink {
            way,
            ahead,
            rate: (peak.saturating_mul(PACE) / 100).max(1),
            ahead_after: 0,
            reserved: 0,
            handed: 0,
            in_line_for: 0,
        }
    }

    /// Returns when packets due at `due` may leave.
    pub(super) fn released(&self, due: u64) -> u64 {
        due.saturating_sub(self.ahead)
            .max(self.ahead_after)
            .min(due)
    }

    /// Records that packets due at `due` left at `after`, with `octets` of payload and `bytes` on
    /// the wire.
    pub(super) fn sent(&mut self, octets: u32, bytes: u32, due: u64, after: u64) {
        self.handed += u64::from(bytes);
        if due > after {
            let gap = u128::from(octets) * 1_000_000_000 / u128::from(self.rate);
            self.ahead_after = self.ahead_after.max(after) + gap as u64;
        }
    }

    /// Reserves room for `bytes` due at `due`; returns whether there is any.
    pub(super) fn take(&mut self, now: u64, bytes: u64, due: u64, lane: usize) -> bool {
        let has = self.way.take(now, bytes, due, lane);
        if has {
            self.reserved += bytes;
        }
        has
    }

    /// Returns whether room was reserved in this walk.
    pub(super) fn has_room(&self) -> bool {
        self.reserved > 0
    }

    /// Corrects the reservation on the links after a walk.
    pub(crate) fn settle(&mut self, now: u64) {
        let (reserved, handed) = (
            std::mem::take(&mut self.reserved),
            std::mem::take(&mut self.handed),
        );
        if reserved != handed {
            self.way.settle(now, reserved, handed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Link;

    const MS: u64 = 1_000_000;

    /// A stream with a peak rate of 1 MB/s, up to half a second ahead, on a link of 10 MB/s with
    /// 20 ms of queue.
    fn on_link() -> OnLink {
        let link = Link::new(10_000_000, 20 * MS, 1);
        let way = Way {
            number: 0,
            links: vec![Arc::new(link)],
        };
        OnLink::new(Arc::new(way), 500 * MS, 1_000_000)
    }

    #[test]
    fn what_is_ahead_leaves_a_quarter_faster_than_the_densest_group_needs() {
        let mut link = on_link();
        let now = 10_000 * MS;
        assert_eq!(link.released(now + 2000 * MS), now + 1500 * MS);
        assert_eq!(link.released(100 * MS), 0);
        // 12,500 bytes at 1.25 MB/s are 10 ms.
        link.sent(12_500, 13_000, now + 400 * MS, now);
        assert_eq!(link.released(now + 410 * MS), now + 10 * MS);
        link.sent(12_500, 13_000, now + 410 * MS, now + 5 * MS);
        assert_eq!(link.released(now + 420 * MS), now + 20 * MS);
        // Packets due before that leave when they are due, and do not delay the others.
        assert_eq!(link.released(now + 15 * MS), now + 15 * MS);
        link.sent(125_000, 130_000, now + 15 * MS, now + 15 * MS);
        assert_eq!(link.released(now + 420 * MS), now + 20 * MS);
    }

    #[test]
    fn room_that_was_taken_and_not_used_is_given_back() {
        let mut link = on_link();
        let now = 10_000 * MS;
        // 200 kB are 20 ms of the link.
        assert!(link.take(now, 200_000, now, 0));
        assert!(!link.take(now, 1000, now, 0));
        link.sent(90_000, 100_000, now, now);
        link.settle(now);
        assert!(link.take(now, 100_000, now, 0), "half of it was sent");
        link.sent(90_000, 100_000, now, now);
        link.settle(now);
        assert!(!link.take(now, 1000, now, 0), "all that was taken was sent");
    }
}

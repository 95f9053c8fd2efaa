//! What a stream has to do with limited links.

use std::sync::Arc;

use crate::link::Way;

/// How many times as fast as its densest group a stream sends that is ahead of its time, in percent. Little more than it
/// needs: a newcomer fills its receiver's buffer over some seconds instead of at the speed of the link.
const PACE: u64 = 125;

/// What a stream has to do with the limited links that its packets pass.
pub struct OnLink {
    pub(crate) way: Arc<Way>,
    /// How far ahead of its time anything may leave, ns.
    ahead: u64,
    /// Bytes a second at which it sends while it is ahead.
    rate: u64,
    /// Nothing that is ahead of its time leaves before this.
    ahead_after: u64,
    /// Bytes for which room was taken, and those handed over since.
    reserved: u64,
    handed: u64,
    /// The deadline by which it waits in line.
    pub(crate) in_line_for: u64,
}

impl OnLink {
    /// A stream whose densest group has `peak` bytes a second, and which may leave up to `ahead` ns before its time.
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

    /// When what is due at `due` may leave.
    pub(super) fn released(&self, due: u64) -> u64 {
        due.saturating_sub(self.ahead)
            .max(self.ahead_after)
            .min(due)
    }

    /// Notes that packets have left at `after` which are due at `due`: `octets` of payload, and so many bytes on the wire.
    pub(super) fn sent(&mut self, octets: u32, bytes: u32, due: u64, after: u64) {
        self.handed += u64::from(bytes);
        if due > after {
            let gap = u128::from(octets) * 1_000_000_000 / u128::from(self.rate);
            self.ahead_after = self.ahead_after.max(after) + gap as u64;
        }
    }

    /// Takes room for `bytes` that are due at `due`; false if there is none.
    pub(super) fn take(&mut self, now: u64, bytes: u64, due: u64, lane: usize) -> bool {
        let has = self.way.take(now, bytes, due, lane);
        if has {
            self.reserved += bytes;
        }
        has
    }

    /// Whether room was taken in this walk.
    pub(super) fn has_room(&self) -> bool {
        self.reserved > 0
    }

    /// Sets right what was taken of the links, after a walk.
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

    /// A stream of 1 MB/s at most, half a second ahead, on a link of 10 MB/s with 20 ms of queue.
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
        // What is due before that leaves when it is due, and does not hold up the rest.
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

//! The pacer of a link with a limited rate: what all lanes together hand to the link never fills
//! more than a short queue.
//!
//! A link is a bucket that drains at its rate. Bytes handed over are added to it, and the time that
//! it takes to drain is the time that a packet waits in the link's queue. Packets that are due may
//! fill it up to `queue`; packets that are sent ahead of their time use only capacity that would
//! otherwise be idle ([`AHEAD`]). So coinciding pictures are spread over the time that receivers
//! can buffer, and queues on the path stay short.
//!
//! Traffic of other senders over the same link is counted as the sum of its rates ([`Others`]).
//!
//! The time is an argument. The counters are atomic, since the lanes of several threads share a link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

mod others;

pub use others::Others;

/// Longest queue, ns, in which packets ahead of their time may wait. A queue of less than half as
/// much takes any slice: half is one turn, and the link would run dry before the next one.
const AHEAD: u64 = 2_000_000;

/// By how much another lane's deadline must be earlier to go first, ns.
const CLOSE: u64 = 2_000_000;

/// One part in this many of a link is reserved for streams, whatever others send.
const LEAST: u64 = 8;

/// No stream waits.
const NONE: u64 = u64::MAX;

/// A link whose rate is limited.
#[derive(Debug)]
pub struct Link {
    /// Bytes per second.
    rate: AtomicU64,
    /// Longest queue, ns.
    queue: u64,
    /// When everything handed over will have left, ns.
    drained: AtomicU64,
    /// The earliest deadline that waits on each lane, or [`NONE`].
    waiting: Box<[AtomicU64]>,
    /// Bytes per second that others send.
    others: AtomicU64,
}

impl Link {
    /// Creates a link that carries `rate` bytes per second, and in whose queue a packet may wait
    /// for `queue` ns; `lanes` lanes share it.
    pub fn new(rate: u64, queue: u64, lanes: usize) -> Link {
        Link {
            rate: AtomicU64::new(rate.max(1)),
            queue: queue.max(1),
            drained: AtomicU64::new(0),
            waiting: (0..lanes).map(|_| AtomicU64::new(NONE)).collect(),
            others: AtomicU64::new(0),
        }
    }

    /// Returns the bytes per second that it carries.
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Sets the bytes per second that the link carries from now on.
    pub fn set_rate(&self, rate: u64, now: u64) {
        self.rate.store(rate.max(1), Ordering::Relaxed);
        // A backlog calculated with a rate close to zero must not delay later packets.
        let most = now.saturating_add(self.queue);
        self.drained.fetch_min(most, Ordering::Relaxed);
    }

    /// Sets the bytes per second that others send over it from now on.
    pub fn set_others(&self, rate: u64) {
        self.others.store(rate, Ordering::Relaxed);
    }

    /// Returns how long the link takes for `bytes` beside what others send, ns.
    fn takes(&self, bytes: u64) -> u64 {
        let rate = self.rate();
        let others = self.others.load(Ordering::Relaxed);
        let rate = u128::from(rate.saturating_sub(others).max(rate / LEAST).max(1));
        (u128::from(bytes) * 1_000_000_000 / rate).min(u128::from(u64::MAX / 4)) as u64
    }

    /// Returns how long packets handed over now would wait, ns.
    #[cfg(test)]
    fn backlog(&self, now: u64) -> u64 {
        self.drained.load(Ordering::Relaxed).saturating_sub(now)
    }

    /// Reserves room for `bytes` that are due at `deadline`, if there is any for
    /// lane number `lane`.
    fn take(&self, now: u64, bytes: u64, deadline: u64, lane: usize) -> bool {
        let time = self.takes(bytes);
        // A slice may exceed the whole queue of a slow link: it leaves when the queue is shorter
        // than `dry`.
        let (bound, dry) = if deadline > now.saturating_add(AHEAD) {
            if self.others_first(now, lane) {
                return false;
            }
            let bound = AHEAD.min(self.queue);
            (bound, bound / 2)
        } else if self.others_first(deadline, lane) {
            (self.queue / 2, 1)
        } else {
            (self.queue, 1)
        };
        let after = |drained: u64| {
            let backlog = drained.saturating_sub(now);
            (backlog < dry || backlog + time <= bound).then(|| drained.max(now) + time)
        };
        self.drained
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, after)
            .is_ok()
    }

    /// Returns whether a stream with an earlier deadline waits on another lane.
    fn others_first(&self, deadline: u64, lane: usize) -> bool {
        self.waiting.iter().enumerate().any(|(number, waiting)| {
            number != lane && waiting.load(Ordering::Relaxed).saturating_add(CLOSE) < deadline
        })
    }

    /// Adds bytes that were handed over without a reservation.
    fn add(&self, now: u64, bytes: u64) {
        let time = self.takes(bytes);
        let after = |drained: u64| Some(drained.max(now) + time);
        let _ = self
            .drained
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
    }

    /// Gives back room that was not used.
    fn give_back(&self, bytes: u64) {
        let time = self.takes(bytes);
        let after = |drained: u64| Some(drained.saturating_sub(time));
        let _ = self
            .drained
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
    }
}

/// The limited links that a stream's packets pass: the one shared by all viewers, and that
/// of an interface.
#[derive(Debug)]
pub struct Way {
    /// Its number, by which lanes group the streams that wait for it.
    pub number: usize,
    /// The links.
    pub links: Vec<Arc<Link>>,
}

impl Way {
    /// Reserves room for `bytes` that are due at `deadline` on all links, or on none.
    pub fn take(&self, now: u64, bytes: u64, deadline: u64, lane: usize) -> bool {
        for (taken, link) in self.links.iter().enumerate() {
            if !link.take(now, bytes, deadline, lane) {
                self.links[..taken]
                    .iter()
                    .for_each(|link| link.give_back(bytes));
                return false;
            }
        }
        true
    }

    /// Corrects a reservation of `reserved` bytes, of which `sent` were handed over.
    pub fn settle(&self, now: u64, reserved: u64, sent: u64) {
        for link in &self.links {
            if sent > reserved {
                link.add(now, sent - reserved);
            } else {
                link.give_back(reserved - sent);
            }
        }
    }

    /// Records that nothing waits on a lane.
    pub fn nothing_waits(&self, lane: usize) {
        for link in &self.links {
            if let Some(waiting) = link.waiting.get(lane) {
                waiting.store(NONE, Ordering::Relaxed);
            }
        }
    }

    /// Records a deadline that waits on a lane for this way; the earliest recorded one counts.
    pub fn waits(&self, lane: usize, deadline: u64) {
        for link in &self.links {
            if let Some(waiting) = link.waiting.get(lane) {
                waiting.fetch_min(deadline, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn link(rate: u64, queue_ms: u64) -> Link {
        Link::new(rate, queue_ms * MS, 2)
    }

    #[test]
    fn what_is_due_fills_the_queue_and_what_is_ahead_leaves_it_short() {
        // 1 MB/s: 1000 bytes per millisecond.
        let link = link(1_000_000, 20);
        let now = 1000 * MS;
        let ahead = now + 500 * MS;
        assert!(link.take(now, 2000, ahead, 0));
        assert!(!link.take(now, 1, ahead, 0), "2 ms wait already");
        assert!(link.take(now, 18_000, now, 0), "what is due may wait 20 ms");
        assert!(!link.take(now, 1, now, 0));
        assert_eq!(link.backlog(now), 20 * MS);
        assert!(link.take(now + 5 * MS, 5000, now, 0));
        assert!(link.take(now + 25 * MS, 2000, ahead, 0), "it has drained");
    }

    #[test]
    fn long_slices_that_are_ahead_follow_each_other_such_that_the_link_does_not_run_dry() {
        // A slice takes 5 ms.
        let link = link(1_000_000, 20);
        let (now, ahead) = (1000 * MS, 5000 * MS);
        assert!(link.take(now, 5000, ahead, 0));
        assert!(!link.take(now + 4 * MS, 5000, ahead, 0), "1 ms waits");
        assert!(link.take(now + 4 * MS + 1, 5000, ahead, 0));
        let turns = (5..1000).filter(|turn| link.take(now + turn * MS + 1, 5000, ahead, 0));
        assert_eq!(turns.count(), 199, "one every 5 ms");
    }

    #[test]
    fn an_earlier_deadline_on_another_lane_keeps_half_of_the_queue() {
        let way = Way {
            number: 0,
            links: vec![Arc::new(link(1_000_000, 20))],
        };
        let now = 1000 * MS;
        way.waits(1, now - 10 * MS);
        assert!(!way.take(now, 1, now + 500 * MS, 0), "it is late");
        assert!(way.take(now, 10_000, now, 0));
        assert!(!way.take(now, 1000, now, 0));
        assert!(way.take(now, 1000, now - 10 * MS, 1));
        way.nothing_waits(1);
        assert!(way.take(now, 1000, now, 0));
    }

    #[test]
    fn a_rate_of_nothing_is_forgotten_with_the_next_one() {
        let link = link(1, 20);
        let now = 1000 * MS;
        assert!(link.take(now, 12_000, now, 0));
        assert!(link.backlog(now) > 1000 * MS);
        link.set_rate(1_000_000, now);
        assert!(link.take(now + 20 * MS, 12_000, now, 0));
    }

    #[test]
    fn a_way_over_two_links_takes_room_on_both_or_none() {
        let (all, eth0) = (Arc::new(link(1_000_000, 20)), Arc::new(link(500_000, 20)));
        let way = Way {
            number: 0,
            links: vec![all.clone(), eth0.clone()],
        };
        let now = 1000 * MS;
        assert!(way.take(now, 10_000, now, 0));
        assert!(!way.take(now, 1000, now, 0));
        assert_eq!((all.backlog(now), eth0.backlog(now)), (10 * MS, 20 * MS));
        way.settle(now, 10_000, 4000);
        assert_eq!((all.backlog(now), eth0.backlog(now)), (4 * MS, 8 * MS));
        way.settle(now, 0, 1000);
        assert_eq!((all.backlog(now), eth0.backlog(now)), (5 * MS, 10 * MS));
    }

    #[test]
    fn streams_have_what_others_leave() {
        let link = link(1_000_000, 20);
        let now = 1000 * MS;
        link.set_others(500_000);
        assert!(link.take(now, 10_000, now, 0), "20 ms at half of the rate");
        assert!(!link.take(now, 1000, now, 0));
        link.set_others(0);
        let now = now + 50 * MS;
        assert!(link.take(now, 20_000, now, 0), "the link is theirs again");
    }

    #[test]
    fn streams_have_an_eighth_of_a_link_whatever_others_send() {
        let link = link(1_000_000, 20);
        let now = 1000 * MS;
        link.set_others(5_000_000);
        assert!(link.take(now, 2500, now, 0), "20 ms at 125 kB/s");
        assert!(!link.take(now, 1, now, 0));
    }

    #[test]
    fn what_is_due_within_two_milliseconds_is_not_ahead() {
        let link = link(1_000_000, 20);
        let now = 1000 * MS;
        assert!(link.take(now, 5000, now, 0));
        assert!(!link.take(now, 1000, now + 2 * MS + 1, 0));
        assert!(link.take(now, 1000, now + 2 * MS, 0));
        // A shorter queue limits what is sent ahead, too.
        let short = Link::new(1_000_000, MS, 2);
        assert!(short.take(now, 500, now + 500 * MS, 0));
        assert!(!short.take(now, 501, now + 500 * MS, 0));
        assert!(short.take(now, 500, now + 500 * MS, 0));
    }

    #[test]
    fn a_deadline_that_is_hardly_earlier_does_not_go_first() {
        let now = 1000 * MS;
        let room = |earlier: u64| {
            let way = Way {
                number: 0,
                links: vec![Arc::new(link(1_000_000, 20))],
            };
            way.waits(1, now - earlier);
            // The later of two deadlines has no effect.
            way.waits(1, now + MS);
            way.take(now, 10_000, now, 0) && way.take(now, 1000, now, 0)
        };
        assert!(room(0) && room(2 * MS) && !room(2 * MS + 1));
        let own = link(1_000_000, 20);
        own.waiting[0].store(0, Ordering::Relaxed);
        assert!(own.take(now, 20_000, now, 0), "the lane's own do not count");
    }

    #[test]
    fn a_link_of_no_rate_and_no_queue_still_carries_a_slice_at_a_time() {
        let link = Link::new(0, 0, 1);
        assert_eq!(link.rate(), 1);
        let now = 1000 * MS;
        assert!(link.take(now, 3, now, 0));
        assert_eq!(link.backlog(now), 3000 * MS);
        assert!(!link.take(now, 1, now, 0));
        link.set_rate(0, now);
        assert_eq!((link.rate(), link.backlog(now)), (1, 1));
    }

    proptest! {
        #[test]
        fn no_time_sees_more_than_the_rate_and_the_queue(
            wishes in prop::collection::vec((0u64..3_000_000, 1u64..12_000, -50i64..1000), 1..300),
            rate in 100_000u64..20_000_000, queue in 1u64..60,
        ) {
            let link = link(rate, queue);
            let mut now = 1_000_000_000;
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for (step, bytes, ahead) in wishes {
                now += step;
                let deadline = now.saturating_add_signed(ahead * MS as i64);
                if link.take(now, bytes, deadline, 0) {
                    sent.push((now, bytes));
                }
            }
            for (first, (from, _)) in sent.iter().enumerate() {
                let mut sum = 0;
                for (at, bytes) in &sent[first..] {
                    sum += bytes;
                    let time = (at - from) + queue * MS;
                    let most = u128::from(rate) * u128::from(time) / 1_000_000_000;
                    // A single slice may exceed the queue.
                    prop_assert!(u128::from(sum) <= most + 12_000 + sent.len() as u128);
                }
            }
        }
    }
}

//! Limited links: one pacer each, for all threads.
//!
//! HTTP's traffic over the same link counts with its connections' speeds, for as long as their
//! bytes take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_playout::{Link, Others, Way};
use reelway_supervise as supervise;

/// No change is pending.
const NONE: u64 = u64::MAX;

/// A link with a limited rate, for [`crate::SenderConfig`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// The number that streams refer to it by ([`crate::FilmStream::links`]).
    pub number: u8,
    /// Rate limit in bytes per second, including headers of Ethernet, IP, UDP and RTP.
    pub rate: u64,
    /// How long a packet may wait in the link's queue.
    pub queue: Duration,
}

/// A link, and other traffic over it.
#[derive(Debug)]
struct Shared {
    number: u8,
    link: Arc<Link>,
    others: Mutex<Others>,
    /// When the other traffic next changes by itself, or [`NONE`].
    changes: AtomicU64,
}

impl Shared {
    fn change_others(&self, change: impl FnOnce(&mut Others)) {
        // Counts that change one flow at a time.
        let mut others = supervise::lock(&self.others);
        change(&mut others);
        self.link.set_others(others.rate());
        let end = others.next_end().unwrap_or(NONE);
        self.changes.store(end, Ordering::Relaxed);
    }
}

/// All limited links of a sender.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Shared>,
    /// Sets of links that streams use; there are few.
    ways: Mutex<Vec<Arc<Way>>>,
}

impl Links {
    /// Creates these links for a number of threads.
    pub fn new(configs: &[LinkConfig], threads: usize) -> Links {
        let link = |config: &LinkConfig| {
            let queue = config.queue.as_nanos().min(u128::from(u64::MAX)) as u64;
            Shared {
                number: config.number,
                link: Arc::new(Link::new(config.rate, queue, threads)),
                others: Mutex::default(),
                changes: AtomicU64::new(NONE),
            }
        };
        Links {
            links: configs.iter().map(link).collect(),
            ways: Mutex::default(),
        }
    }

    fn of(&self, numbers: &[u8]) -> impl Iterator<Item = &Shared> {
        let passed = |shared: &&Shared| numbers.contains(&shared.number);
        self.links.iter().filter(passed)
    }

    /// Returns the way over the links with these numbers; `None` if none of them is limited.
    pub fn way(&self, numbers: &[u8]) -> Option<Arc<Way>> {
        let links: Vec<_> = self.of(numbers).map(|shared| shared.link.clone()).collect();
        if links.is_empty() {
            return None;
        }
        let mut ways = supervise::lock(&self.ways);
        let same = |way: &&Arc<Way>| {
            way.links.len() == links.len()
                && way.links.iter().zip(&links).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if let Some(way) = ways.iter().find(same) {
            return Some(way.clone());
        }
        let way = Arc::new(Way {
            number: ways.len(),
            links,
        });
        ways.push(way.clone());
        Some(way)
    }

    /// Sets the rate of the link with this number, in bytes per second.
    pub fn set_rate(&self, number: u8, rate: u64, now: u64) {
        self.of(&[number])
            .for_each(|shared| shared.link.set_rate(rate, now));
    }

    /// Records that a connection other than the sender's streams queues bytes over the links with
    /// these numbers, and sends them at this speed in bytes per second.
    pub fn others_send(
        &self,
        numbers: &[u8],
        now: u64,
        connection: u64,
        (bytes, speed): (u64, Option<u64>),
    ) {
        for shared in self.of(numbers) {
            let rate = shared.link.rate();
            shared.change_others(|others| others.hand_over(now, connection, bytes, speed, rate));
        }
    }

    /// Stops counting other traffic whose bytes have left.
    pub fn advance(&self, now: u64) {
        for shared in &self.links {
            if shared.changes.load(Ordering::Relaxed) <= now {
                shared.change_others(|others| others.advance(now));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn streams_have_what_others_leave_for_as_long_as_those_send() {
        let config = LinkConfig {
            number: 3,
            rate: 1_000_000,
            queue: Duration::from_millis(20),
        };
        let links = Links::new(&[config], 2);
        assert!(links.way(&[4]).is_none());
        let way = links.way(&[3, 4]).expect("a limited link");
        let now = 1000 * MS;
        // 25 KB at half of the link's rate: 50 ms.
        links.others_send(&[3], now, 7, (25_000, Some(500_000)));
        assert!(way.take(now, 10_000, now, 0), "20 ms at half of the rate");
        assert!(!way.take(now, 1000, now, 0));
        let now = now + 50 * MS;
        links.advance(now);
        assert!(way.take(now, 20_000, now, 0), "the link is theirs again");
    }
}

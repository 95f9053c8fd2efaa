//! Reduced capacity: newcomers are judged by it at once, and after some seconds the newest viewers
//! leave.

use std::collections::BTreeMap;
use std::time::Duration;

use reelway_time::Monotonic;

use crate::capacity::Resource;
use crate::desk::state::Desk;
use crate::verdict::BookingId;

/// How long reduced capacity is tolerated before viewers have to leave.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// Looks are about a second apart. One after a standstill of the whole machine counts as no more.
const LOOK: Duration = Duration::from_secs(1);

/// Seconds ahead in which nothing may be overbooked when capacity is reduced.
const NEAR: u64 = 5;

/// Bookings are exact to a quarter of a second; within it, pictures leave in bursts. This part of
/// what is booked, a quarter, is not given to downloads, so that a burst finds room.
const SLACK: u64 = 4;

/// A change of capacity that is large enough to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapacityNotice {
    /// The resource.
    pub resource: Resource,
    /// Thousandths of it that are available.
    pub share: u32,
}

/// The consequences of a look at the capacity.
#[must_use = "sessions are to be ended"]
#[derive(Debug, Default)]
pub struct Weighed {
    /// Changes to be logged.
    pub notices: Vec<CapacityNotice>,
    /// The sessions that end, the newest of the last class first. Nothing is held for them any
    /// more.
    pub ended: Vec<BookingId>,
}

impl Desk {
    /// Notes how many thousandths of a resource are available, as it was measured.
    pub fn set_measured(&mut self, resource: Resource, thousandths: u32) {
        self.measured.insert(resource, thousandths);
    }

    /// Compares the available amount of each resource with what is booked. Must be called about
    /// once a second. `links`: thousandths of its speed that each interface has.
    pub fn weigh(&mut self, now: Monotonic, links: &[(u8, u32)]) -> Weighed {
        let links = links.iter().copied();
        let mut shares: BTreeMap<Resource, u32> = links
            .map(|(number, share)| (Resource::Network(number), share))
            .collect();
        for (of, share) in &self.measured {
            // A link may carry even less than its negotiated speed.
            let there = shares.entry(*of).or_insert(*share);
            *there = (*there).min(*share);
        }
        let mut weighed = Weighed::default();
        if shares.is_empty() {
            return weighed;
        }
        self.advance(now);
        let passed = self.weighed.replace(now).map(|before| now.since(before));
        let passed = passed.unwrap_or_default().min(LOOK);
        let before = std::mem::take(&mut self.slow);
        for (resource, share) in shares {
            let was = self.books.share(resource);
            // Measured values fluctuate: only whole tenths are worth a notice.
            if was != share && (was / 100 != share / 100 || share == 1000) {
                weighed.notices.push(CapacityNotice { resource, share });
            }
            self.books.set_share(resource, share);
            if share < 1000 {
                let slow = before.get(&resource).map(|slow| *slow + passed);
                self.slow.insert(resource, slow.unwrap_or_default());
            }
        }
        if self.slow.values().any(|slow| *slow >= PATIENCE) {
            let is_slow = |of: Resource| self.slow.get(&of).is_some_and(|slow| *slow >= PATIENCE);
            weighed.ended = self.books.too_many(NEAR, is_slow);
            for id in &weighed.ended {
                self.remove(now, *id);
            }
        }
        weighed
    }

    /// Bytes per second of a resource that are not booked now, less a part of what is booked
    /// (`SLACK`).
    pub fn unbooked(&mut self, now: Monotonic, resource: Resource) -> u64 {
        self.advance(now);
        let books = &self.books;
        let second = books.second();
        // The present second may be over in a moment.
        let loads = [second, second + 1].map(|second| books.load(resource, second));
        let booked = loads.into_iter().max().unwrap_or(0);
        let limit = books.limit(resource, 0).unwrap_or(0);
        limit.saturating_sub(booked.saturating_add(booked / SLACK))
    }
}

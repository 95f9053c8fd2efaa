//! What goes wrong, and how long it explains that somebody waits.

use std::time::Duration;

use reelway_admission::Resource;
use reelway_time::Monotonic;

use crate::node::Node;
use crate::trace::Line;

/// For how long after a fault streams may be behind, ns: the burst rule lets what has gathered leave a little at a time.
const CATCHING_UP: i64 = 250_000_000;

impl Node {
    /// One of the faults, at random.
    pub fn fault(&mut self) {
        let seconds = Duration::from_millis(self.random.within(500, 6000));
        let until = self.now + seconds;
        let millis = seconds.as_millis();
        let what = match self.random.within(0, 7) {
            0 => {
                let times = self.random.within(2, 20) as u32;
                self.disk.slow(times, until);
                format!("reads take {times} times as long for {millis} ms")
            }
            1 => {
                let one_in = self.random.within(2, 20);
                self.disk.fail(one_in, until);
                format!("one read in {one_in} fails for {millis} ms")
            }
            2 => {
                self.disk.stall(until);
                format!("the disk stalls for {millis} ms")
            }
            3 => {
                self.frozen = until;
                format!("the node stands still for {millis} ms")
            }
            4 => {
                let until = self.now + seconds / 4;
                self.kernel.fill(until);
                format!("the kernel has no room for packets for {} ms", millis / 4)
            }
            5 => {
                let one_in = self.random.within(2, 20);
                self.kernel.refuse(one_in, until);
                format!("the kernel refuses a packet of one send in {one_in} for {millis} ms")
            }
            _ => {
                let film = self.random.within(0, self.films.len() as u64) as usize;
                self.films[film].cut = true;
                format!("film {film} is cut: its reads fail from now on")
            }
        };
        self.counters.faults += 1;
        self.fault_until = self.fault_until.max(until);
        self.note(&Line::Fault { what });
        self.excuse();
    }

    /// Notes whether something explains a delay at this moment: a fault, what one has left to be read, a viewer whom one
    /// has moved beyond their booking, or viewers let through who were not judged.
    pub fn excuse(&mut self) {
        if self.now <= self.fault_until {
            self.backlog = true;
        } else if self.is_idle() {
            self.backlog = false;
        }
        let moved = self.viewers.values().any(|viewer| viewer.late);
        if self.backlog
            || moved
            || ((!self.asks_again || self.is_unjudged) && self.is_overbooked().is_some())
        {
            self.excused = self.now;
        }
    }

    /// Whether what happened up to a moment explains that a stream is behind now.
    pub fn explains(&self, at: Monotonic) -> bool {
        self.excused.offset(CATCHING_UP) >= at
    }

    /// Of what more is booked in this second or the next than there is: by how much, and in which.
    pub fn is_overbooked(&self) -> Option<(Resource, u64, u64)> {
        let second = self.now.nanos() / 1_000_000_000;
        let resources = [Resource::Network(0), Resource::Disk, Resource::Memory];
        resources.into_iter().find_map(|resource| {
            let books = self.desk.books();
            let limit = books.limit(resource, 0)?;
            // A limited link makes up for what a second has too much in those before: half of what may leave ahead.
            let (mut owed, carry) = match (resource, &self.way) {
                (Resource::Network(_), Some(_)) => (self.owed, limit / 2),
                _ => (0, 0),
            };
            [second, second + 1].into_iter().find_map(|second| {
                owed = (owed + books.load(resource, second)).saturating_sub(limit);
                (owed > carry).then(|| (resource, owed - carry, second))
            })
        })
    }

    /// A second begins: what the link owes.
    pub fn owes(&mut self) {
        let (books, network) = (self.desk.books(), Resource::Network(0));
        let load = books.load(network, books.second());
        let limit = books.limit(network, 0).unwrap_or(u64::MAX);
        self.owed = (self.owed + load).saturating_sub(limit);
    }
}

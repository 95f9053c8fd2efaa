//! A disk that reads one block after the other at a constant rate, and its faults.

use std::time::Duration;

use reelway_determinism::Random;
use reelway_time::Monotonic;

/// The longest way of a read from the device to the program.
pub(crate) const WAY: Duration = Duration::from_micros(300);

/// A disk.
pub(crate) struct Disk {
    /// How long a block takes.
    each: Duration,
    /// When it has done all that it was given.
    free_at: Monotonic,
    /// Reads take so many times as long until then.
    slow: (u32, Monotonic),
    /// One read in so many fails until then.
    failing: (u64, Monotonic),
    /// One read in so many is done in two parts until then. The server puts them together before the pool hears of it: here it is
    /// only their time.
    parting: (u64, Monotonic),
    /// Nothing is read until then.
    stalled: Monotonic,
}

impl Disk {
    /// With so many bytes a second.
    pub fn new(rate: u64, block: u64) -> Disk {
        Disk {
            each: Duration::from_nanos(block * 1_000_000_000 / rate.max(1)),
            free_at: Monotonic::ZERO,
            slow: (1, Monotonic::ZERO),
            failing: (1, Monotonic::ZERO),
            parting: (1, Monotonic::ZERO),
            stalled: Monotonic::ZERO,
        }
    }

    /// Takes a read: when it is done, and whether it succeeds.
    pub fn read(&mut self, now: Monotonic, random: &mut Random) -> (Monotonic, bool) {
        let begins = now.max(self.free_at).max(self.stalled);
        let times = if begins < self.slow.1 { self.slow.0 } else { 1 };
        let in_parts = begins < self.parting.1 && random.once_in(self.parting.0);
        // The rest has a way of its own.
        let (reads, ways) = if in_parts {
            (2, WAY)
        } else {
            (1, Duration::ZERO)
        };
        self.free_at = begins + self.each * times * reads + ways;
        let fails = begins < self.failing.1 && random.once_in(self.failing.0);
        let way = Duration::from_micros(random.within(20, WAY.as_micros() as u64));
        (self.free_at + way, !fails)
    }

    pub fn slow(&mut self, times: u32, until: Monotonic) {
        self.slow = (times, until);
    }

    pub fn fail(&mut self, one_in: u64, until: Monotonic) {
        self.failing = (one_in, until);
    }

    pub fn part(&mut self, one_in: u64, until: Monotonic) {
        self.parting = (one_in, until);
    }

    pub fn stall(&mut self, until: Monotonic) {
        self.stalled = self.stalled.max(until);
    }
}

//! A disk that reads one block after another at a constant rate, and its faults.

use std::time::Duration;

use reelway_determinism::Random;
use reelway_time::Monotonic;

/// The longest time of a read's result from the device to the program.
pub(crate) const WAY: Duration = Duration::from_micros(300);

/// A disk.
pub(crate) struct Disk {
    /// How long a block takes.
    each: Duration,
    /// When it has finished all reads that it was given.
    free_at: Monotonic,
    /// Until this time, reads take this many times as long.
    slow: (u32, Monotonic),
    /// Until this time, one read in this many fails.
    failing: (u64, Monotonic),
    /// Until this time, one read in this many is done in two parts. The server combines them before
    /// the pool learns of it, so only their time matters here.
    parting: (u64, Monotonic),
    /// Until this time, nothing is read.
    stalled: Monotonic,
}

impl Disk {
    /// Creates a disk that reads `rate` bytes per second.
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

    /// Accepts a read. Returns when it is complete, and whether it succeeds.
    pub fn read(&mut self, now: Monotonic, random: &mut Random) -> (Monotonic, bool) {
        let begins = now.max(self.free_at).max(self.stalled);
        let times = if begins < self.slow.1 { self.slow.0 } else { 1 };
        let in_parts = begins < self.parting.1 && random.once_in(self.parting.0);
        // The second part has to reach the program as well.
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

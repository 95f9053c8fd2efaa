//! The kernel as packets see it: it takes all of them, except during faults.

use reelway_determinism::Random;
use reelway_time::Monotonic;

/// How the kernel treats packets.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// Until this time, it has no room.
    full: Monotonic,
    /// Until this time, it refuses one packet in this many.
    refusing: (u64, Monotonic),
}

impl Kernel {
    /// Creates a kernel without faults.
    pub fn new() -> Kernel {
        Kernel {
            full: Monotonic::ZERO,
            refusing: (1, Monotonic::ZERO),
        }
    }

    /// Returns how many of `packets` packets it takes, and how many it then refuses; it has no room
    /// for the others.
    pub fn takes(&self, now: Monotonic, packets: u32, random: &mut Random) -> (u32, u32) {
        if now < self.full {
            // Sometimes it has room for a few.
            let some = random.once_in(8);
            let room = if some {
                random.within(0, u64::from(packets))
            } else {
                0
            };
            return (room as u32, 0);
        }
        if now < self.refusing.1 && random.once_in(self.refusing.0) {
            return (packets - 1, 1);
        }
        (packets, 0)
    }

    pub fn fill(&mut self, until: Monotonic) {
        self.full = self.full.max(until);
    }

    pub fn refuse(&mut self, one_in: u64, until: Monotonic) {
        self.refusing = (one_in, until);
    }
}

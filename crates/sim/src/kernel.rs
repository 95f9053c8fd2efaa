//! The kernel as packets find it: it takes them all, but for its faults.

use reelway_determinism::Random;
use reelway_time::Monotonic;

/// What the kernel does with packets.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// It has no room until then.
    full: Monotonic,
    /// It refuses one packet in so many until then.
    refusing: (u64, Monotonic),
}

impl Kernel {
    /// Without a fault.
    pub fn new() -> Kernel {
        Kernel {
            full: Monotonic::ZERO,
            refusing: (1, Monotonic::ZERO),
        }
    }

    /// How many of so many packets it takes, and how many it refuses then; for the rest it has no room.
    pub fn takes(&self, now: Monotonic, packets: u32, random: &mut Random) -> (u32, u32) {
        if now < self.full {
            // Now and then it has room for some.
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

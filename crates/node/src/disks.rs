//! The disks' actual throughput, for admission: measured while reads are waiting.

use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_session::{Gate, Resource};
use reelway_store::{LaneKind, LaneStats, Store};

/// Minimum length of a measurement.
const LEAST: Duration = Duration::from_millis(900);
/// Number of coming seconds whose bookings count.
const SOON: u64 = 10;
/// Thousandths of the share that return per second without waiting reads.
const BACK: u32 = 20;

/// State of the last measurement.
#[derive(Debug, Default)]
pub struct Disks {
    last: Option<(Monotonic, u64, bool)>,
    /// Smoothed share of the limit that the disks deliver, in thousandths.
    share: Option<u32>,
}

impl Disks {
    /// Measures the disks. To be called about once a second; does nothing if the disks are not
    /// limited.
    ///
    /// Much of what is booked may be in memory, so slow disks alone end no session. Unless packets
    /// leave `late`, the share is at least what is already booked, so that only newcomers are
    /// refused.
    pub fn look(&mut self, store: &Store, gate: &Gate, late: bool) {
        let Some(limit) = gate.config().admission.capacity.limit(Resource::Disk) else {
            return;
        };
        // Reads from origins, from the tier and from other blocks say nothing about the disks.
        let mut lanes = store.lanes();
        lanes.retain(|lane| lane.kind == LaneKind::Disk);
        let bytes = lanes.iter().map(|lane| lane.bytes).sum();
        let waiting = lanes.iter().any(is_waiting);
        let share = self.seen(reelway_clock::now(), bytes, waiting, limit);
        if let Some(share) = share {
            let least = if late {
                0
            } else {
                booked(gate, Resource::Disk, limit)
            };
            gate.measured(Resource::Disk, share.max(least));
        }
    }

    /// Updates the share: `bytes` is the total since the start, `waiting` says whether reads wait,
    /// and `limit` is what the disks should deliver per second.
    fn seen(&mut self, now: Monotonic, bytes: u64, waiting: bool, limit: u64) -> Option<u32> {
        let (then, before, waited) = *self.last.get_or_insert((now, bytes, waiting));
        let passed = now.since(then);
        if passed < LEAST {
            return None;
        }
        self.last = Some((now, bytes, waiting));
        let before = (bytes - before, self.share.unwrap_or(1000));
        let share = if waiting && waited {
            // The disks were busy all the time, so what they delivered is what they can deliver.
            let a_second = u128::from(before.0) * 1_000_000 / passed.as_micros().max(1);
            let gave = (a_second * 1000 / u128::from(limit.max(1))).min(1000) as u32;
            // Smoothed: a single slow second says little.
            (before.1 * 2 + gave) / 3
        } else {
            (before.1 + BACK).min(1000)
        };
        self.share = Some(share);
        Some(share)
    }
}

/// Returns the largest booking of a resource in the coming seconds, in thousandths of `limit`.
pub(crate) fn booked(gate: &Gate, of: Resource, limit: u64) -> u32 {
    let judge = gate.judge();
    let now = judge.second();
    let loads = (now..now + SOON).map(|second| judge.load(of, second));
    let most = u128::from(loads.max().unwrap_or(0));
    (most * 1000).div_ceil(u128::from(limit.max(1))).min(1000) as u32
}

/// Whether a disk has more requests than it processes at once.
fn is_waiting(lane: &LaneStats) -> bool {
    lane.queued > lane.depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_disks_count_by_what_they_give_and_idle_ones_are_trusted_again() {
        let mut disks = Disks::default();
        let at = |second: u64| Monotonic::from_nanos(second * 1_000_000_000);
        let limit = 1_000_000;
        assert_eq!(disks.seen(at(0), 0, true, limit), None);
        // Half of the limit, second after second.
        let shares: Vec<u32> = (1..=8)
            .filter_map(|second| disks.seen(at(second), second * 500_000, true, limit))
            .collect();
        assert_eq!(shares.len(), 8);
        assert!(shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
        assert!((500..=520).contains(&shares[7]), "{shares:?}");
        // The first second without waiting reads ends the decrease, and the share recovers slowly.
        let back: Vec<u32> = (9..60)
            .filter_map(|second| disks.seen(at(second), 4_000_000, false, limit))
            .collect();
        assert!(back[0] < 550 && back.last() == Some(&1000), "{back:?}");
        // Little is read because little is requested.
        assert_eq!(disks.seen(at(60), 4_000_001, false, limit), Some(1000));
    }

    #[test]
    fn a_look_too_soon_after_another_tells_nothing() {
        let mut disks = Disks::default();
        let at = |millis: u64| Monotonic::from_nanos(millis * 1_000_000);
        assert_eq!(disks.seen(at(0), 0, true, 1000), None);
        assert_eq!(disks.seen(at(50), 0, true, 1000), None);
        assert!(disks.seen(at(1000), 1000, true, 1000).is_some());
    }
}

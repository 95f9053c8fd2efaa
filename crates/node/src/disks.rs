//! What the disks really give, for admission: measured while reads wait for them.

use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_session::{Gate, Resource};
use reelway_store::{LaneKind, LaneStats, Store};

/// Shortest time over which it is measured.
const LEAST: Duration = Duration::from_millis(900);
/// Seconds that count as booked already.
const SOON: u64 = 10;
/// Thousandths that come back in a second in which nothing waited.
const BACK: u32 = 20;

/// What was seen at the last look.
#[derive(Debug, Default)]
pub struct Disks {
    last: Option<(Monotonic, u64, bool)>,
    /// Thousandths of what there should be, over the last looks.
    share: Option<u32>,
}

impl Disks {
    /// Looks; to be called about once a second. Nothing is done where the disks are not limited.
    ///
    /// Much of what is booked may be in memory, so slow disks alone end nobody: unless packets leave `late`, there is
    /// said to be as much as is booked already, and only newcomers are refused.
    pub fn look(&mut self, store: &Store, gate: &Gate, late: bool) {
        let Some(limit) = gate.config().admission.capacity.limit(Resource::Disk) else {
            return;
        };
        // What comes from origins, from the tier or out of other blocks says nothing of the disks.
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

    /// So many bytes were read since the start, and whether reads wait; `limit` is what a second should give.
    fn seen(&mut self, now: Monotonic, bytes: u64, waiting: bool, limit: u64) -> Option<u32> {
        let (then, before, waited) = *self.last.get_or_insert((now, bytes, waiting));
        let passed = now.since(then);
        if passed < LEAST {
            return None;
        }
        self.last = Some((now, bytes, waiting));
        let before = (bytes - before, self.share.unwrap_or(1000));
        let share = if waiting && waited {
            // They had work all the time: what they gave is what there is.
            let a_second = u128::from(before.0) * 1_000_000 / passed.as_micros().max(1);
            let gave = (a_second * 1000 / u128::from(limit.max(1))).min(1000) as u32;
            // A single slow second is not the world.
            (before.1 * 2 + gave) / 3
        } else {
            (before.1 + BACK).min(1000)
        };
        self.share = Some(share);
        Some(share)
    }
}

/// What is booked of something in the coming seconds, in thousandths of what there should be.
pub(crate) fn booked(gate: &Gate, of: Resource, limit: u64) -> u32 {
    let judge = gate.judge();
    let now = judge.second();
    let loads = (now..now + SOON).map(|second| judge.load(of, second));
    let most = u128::from(loads.max().unwrap_or(0));
    (most * 1000).div_ceil(u128::from(limit.max(1))).min(1000) as u32
}

/// Whether a disk has more to do than it does at once.
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
        // Half of what there should be, second after second.
        let shares: Vec<u32> = (1..=8)
            .filter_map(|second| disks.seen(at(second), second * 500_000, true, limit))
            .collect();
        assert_eq!(shares.len(), 8);
        assert!(shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
        assert!((500..=520).contains(&shares[7]), "{shares:?}");
        // The first second in which nothing waits ends it; it comes back slowly.
        let back: Vec<u32> = (9..60)
            .filter_map(|second| disks.seen(at(second), 4_000_000, false, limit))
            .collect();
        assert!(back[0] < 550 && back.last() == Some(&1000), "{back:?}");
        // Little is read because little is asked for.
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

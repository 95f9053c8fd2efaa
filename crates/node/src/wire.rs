//! The network's actual throughput, for admission: by the losses that viewers report, and by
//! packets that leave late because the kernel has no room. A link may be slower than its reported
//! speed: a router halves it, or another program fills it.

use std::collections::{HashMap, VecDeque};

use reelway_clock::Monotonic;
use reelway_sender::SenderStats;
use reelway_session::{Gate, Protocol, Resource, SessionView};

/// Number of looks over which losses are added up; viewers report every five seconds.
const WINDOW: usize = 8;
/// Minimum number of viewers with losses before the link is blamed: a single one may have a bad
/// cable.
const FEWEST: usize = 3;
/// Thousandths of the packets that may be missing before the link is blamed.
const BORNE: u64 = 10;
/// Thousandths of the share that return per second without losses. Slowly, as only more viewers can
/// show whether there is room again.
const BACK: u32 = 10;
/// Thousandths of the booked rate that remain while packets leave late for lack of room.
const LESS: u64 = 900;
/// Minimum time between two looks in nanoseconds.
const LEAST: u64 = 900_000_000;

/// The observations of one look.
#[derive(Clone, Debug, Default)]
struct Look {
    packets: u64,
    /// Packets that were reported missing, and the packets that these reports cover.
    lost: u64,
    covered: u64,
    /// Identifiers of the viewers who were sent packets, and of those who lost some.
    sent_to: Vec<String>,
    lost_by: Vec<String>,
    /// Packets that were offered again because the kernel had no room.
    retried: u64,
}

/// The state of a viewer at the last look.
#[derive(Clone, Copy, Debug, Default)]
struct Viewer {
    packets: u64,
    lost: u64,
    /// Packets sent until the last report of losses, and looks since then.
    covered: u64,
    since: usize,
}

/// Monitors the network.
#[derive(Debug, Default)]
pub struct Wire {
    last: Option<Monotonic>,
    viewers: HashMap<String, Viewer>,
    retried: u64,
    looks: VecDeque<Look>,
    /// Booked rates at the same looks: reports cover packets that were sent before them.
    booked: VecDeque<u64>,
    share: Option<u32>,
    /// Whether less was carried than was sent at the last look.
    is_short: bool,
}

impl Wire {
    /// Measures the network. To be called about once a second; does nothing unless exactly one
    /// network is limited, as otherwise nobody knows which one loses packets. `late`: packets leave
    /// so late that viewers notice.
    pub fn look(&mut self, views: &[SessionView], stats: &SenderStats, gate: &Gate, late: bool) {
        let limits = gate.config().admission.capacity.limits().iter();
        let mut networks = limits.filter(|(of, _)| matches!(of, Resource::Network(_)));
        let (Some((network, limit)), None) = (networks.next(), networks.next()) else {
            return;
        };
        let judge = gate.judge();
        let booked = judge.load(*network, judge.second());
        drop(judge);
        let seen = views
            .iter()
            .filter(|view| matches!(view.protocol, Protocol::RtspUdp))
            .map(|view| (view.id.as_str(), view.packets, view.lost.unwrap_or(0)));
        let now = reelway_clock::now();
        if let Some(share) = self.seen(now, seen, stats.retried, (booked, *limit), late) {
            // Without losses nobody has to leave; the reduced share applies to newcomers only.
            let least = match self.is_short {
                true => 0,
                false => crate::disks::booked(gate, *network, *limit),
            };
            gate.measured(*network, share.max(least));
        }
    }

    /// Updates the share, in thousandths of the limit. `viewers` are the packets that each was sent
    /// and lost since its beginning, `retried` the packets offered again since the start; `booked`
    /// of `limit` should be sent in this second.
    fn seen<'a>(
        &mut self,
        now: Monotonic,
        viewers: impl Iterator<Item = (&'a str, u64, u64)>,
        retried: u64,
        (booked, limit): (u64, u64),
        late: bool,
    ) -> Option<u32> {
        if self
            .last
            .is_some_and(|last| now.nanos().saturating_sub(last.nanos()) < LEAST)
        {
            return None;
        }
        self.last = Some(now);
        let mut look = Look {
            retried: retried.saturating_sub(std::mem::replace(&mut self.retried, retried)),
            ..Look::default()
        };
        let mut present = HashMap::new();
        for (id, packets, lost) in viewers {
            let mut viewer = Viewer {
                packets,
                lost,
                covered: packets,
                since: 0,
            };
            if let Some(before) = self.viewers.get(id) {
                let sent = packets.saturating_sub(before.packets);
                // Reports may revise losses downwards.
                let missed = lost.saturating_sub(before.lost);
                look.packets += sent;
                if sent > 0 {
                    look.sent_to.push(id.to_owned());
                }
                if missed > 0 {
                    look.lost += missed;
                    look.covered += packets.saturating_sub(before.covered);
                    look.lost_by.push(id.to_owned());
                } else {
                    // Reports no longer cover packets from before the last looks.
                    let forgotten = if before.since < WINDOW { 0 } else { sent };
                    viewer.covered = before.covered + forgotten;
                    viewer.since = before.since + 1;
                }
            }
            present.insert(id.to_owned(), viewer);
        }
        self.viewers = present;
        keep(&mut self.looks, look);
        keep(&mut self.booked, booked);
        let share = self.share.unwrap_or(1000);
        let carried = self.carried(late);
        self.is_short = carried.is_some();
        let share = match carried {
            Some(carried) => {
                // Observations must not count twice.
                self.looks.clear();
                // The packets now reported lost were sent when viewers who have left since were
                // still booked.
                let booked = self.booked.iter().max().copied().unwrap_or(0);
                let there = u128::from(booked) * u128::from(carried) / u128::from(limit.max(1));
                share.min(there as u32)
            }
            None => (share + BACK).min(1000),
        };
        self.share = Some(share);
        Some(share)
    }

    /// Returns the thousandths of the sent packets that arrive in time; `None`: all.
    fn carried(&self, late: bool) -> Option<u64> {
        let sum = |of: fn(&Look) -> u64| self.looks.iter().map(of).sum::<u64>();
        let (packets, retried) = (sum(|look| look.packets), sum(|look| look.retried));
        let (lost, covered) = (sum(|look| look.lost), sum(|look| look.covered));
        let count = |of: fn(&Look) -> &Vec<String>| {
            let mut all: Vec<&String> = self.looks.iter().flat_map(of).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        let (sent_to, lost_by) = (count(|look| &look.sent_to), count(|look| &look.lost_by));
        let is_missed_by_most = lost_by >= FEWEST && lost_by * 2 > sent_to;
        if is_missed_by_most && lost * 1000 > covered * BORNE {
            return Some(1000 - (lost * 1000 / covered.max(1)).min(900));
        }
        (late && retried * 1000 > packets * BORNE && packets > 0).then_some(LESS)
    }
}

/// Appends to the observations of the last looks.
fn keep<T>(looks: &mut VecDeque<T>, new: T) {
    if looks.len() == WINDOW {
        looks.pop_front();
    }
    looks.push_back(new);
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    /// A second of six viewers, each of whom is sent 100 packets per second; `lost` counts from the
    /// beginning.
    fn second(wire: &mut Wire, at: u64, lost: [u64; 6], retried: u64, late: bool) -> Option<u32> {
        let viewers = NAMES
            .iter()
            .zip(lost)
            .map(|(name, lost)| (*name, 100 * at, lost));
        let now = Monotonic::from_nanos(at * 1_000_000_000);
        wire.seen(now, viewers, retried, (800, 1000), late)
    }

    #[test]
    fn what_most_viewers_miss_the_link_does_not_carry_and_it_is_trusted_again_slowly() {
        let mut wire = Wire::default();
        for at in 1..5 {
            assert_eq!(second(&mut wire, at, [0; 6], 0, false), Some(1000));
        }
        // Their reports arrive one after the other.
        let at_5 = second(&mut wire, 5, [200, 200, 0, 0, 0, 0], 0, false);
        assert_eq!(at_5, Some(1000), "two of six may have bad cables");
        let at_6 = second(&mut wire, 6, [200, 200, 200, 200, 0, 0], 0, false);
        // 800 of the 1800 reported packets are missing, so the 800 booked of 1000 are reduced in
        // this ratio.
        assert_eq!(at_6, Some(444));
        let mut share = 444;
        for at in 7..70 {
            let next = second(&mut wire, at, [200, 200, 200, 200, 0, 0], 0, false).unwrap();
            assert!(next > share || next == 1000);
            share = next;
        }
        assert_eq!(share, 1000);
    }

    #[test]
    fn reports_that_come_after_some_have_left_are_of_what_was_sent_with_them() {
        let mut wire = Wire::default();
        // Viewers of a link that carries half of its nominal 1000; from the fourth second on there
        // are fewer.
        let mut second = |at: u64, viewers: u64, booked: u64, lost: u64| {
            let each = (0..viewers).map(|name| (NAMES[name as usize], 100 * at, lost));
            let now = Monotonic::from_nanos(at * 1_000_000_000);
            wire.seen(now, each, 0, (booked, 1000), false)
        };
        assert_eq!(second(1, 6, 1000, 0), Some(1000));
        assert_eq!(second(2, 6, 1000, 50), Some(500));
        assert_eq!(second(3, 6, 1000, 50), Some(510));
        // 50 of 100 were lost while 1000 were booked, not while the current 500 are booked.
        assert_eq!(second(4, 4, 500, 100), Some(510));
    }

    #[test]
    fn reports_that_come_all_at_once_are_of_all_the_seconds_since_the_last_ones() {
        let mut wire = Wire::default();
        let lost = |at: u64| [at / 5 * 100; 6];
        let shares: Vec<_> = (1..=20)
            .filter_map(|at| second(&mut wire, at, lost(at), 0, false))
            .collect();
        // 100 of 500 packets (of 400 at first), repeatedly: a fifth of the booked 800 is missing.
        assert!(shares.iter().all(|share| *share >= 600), "{shares:?}");
        assert_eq!(shares[9], 640, "{shares:?}");
    }

    #[test]
    fn one_viewer_with_a_bad_cable_is_no_slow_link() {
        let mut wire = Wire::default();
        for at in 1..30 {
            let share = second(&mut wire, at, [50 * at, 0, 0, 0, 0, 0], 0, true);
            assert_eq!(share, Some(1000));
        }
    }

    #[test]
    fn what_the_kernel_has_no_room_for_and_leaves_late_is_too_much() {
        let mut wire = Wire::default();
        second(&mut wire, 1, [0; 6], 0, false);
        assert_eq!(
            second(&mut wire, 2, [0; 6], 500, false),
            Some(1000),
            "it was in time all the same"
        );
        assert_eq!(second(&mut wire, 3, [0; 6], 1000, true), Some(720));
        assert_eq!(second(&mut wire, 4, [0; 6], 1000, true), Some(730));
        let too_soon = Monotonic::from_nanos(4_100_000_000);
        assert_eq!(
            wire.seen(too_soon, std::iter::empty(), 0, (0, 1), false),
            None
        );
    }
}

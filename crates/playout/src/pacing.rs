//! How many packets may leave when. Pure.
//!
//! There are two rules. A frame's packets are cut into slices that are spread evenly over the
//! frame's time ([`Pace`]). And whatever the slices say and however late the thread woke, within
//! any millisecond a stream sends at most `burst` packets, or as many as its frame's rate needs if
//! that is more ([`Window`], which records when packets really left).

use std::ops::Range;

use reelway_media::Nanos;

/// A turn: the millisecond of the burst rule, and the interval at which a sender thread looks for
/// due streams.
pub const TURN: u64 = 1_000_000;

/// How far in advance packets are handed to the kernel if it holds each until its departure time. A
/// longer time would save little, and viewers who pause still receive what the kernel holds.
pub const HOLD: u64 = 4 * TURN;

/// The longest time over which a frame is spread: a picture that is shown for ten seconds must
/// still arrive in time.
const MOST_SPREAD: Nanos = 100_000_000;

/// The most packets of a stream in a turn, whatever its rate (3 Gb/s with packets of 1440 bytes).
pub const MOST_IN_TURN: u32 = 256;

/// How a frame's packets are spread over its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    packets: u32,
    slices: u32,
    spread: Nanos,
    /// The most packets that may leave within a millisecond.
    pub cap: u32,
}

/// Packets that leave together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Numbers of the packets within the frame.
    pub packets: Range<u32>,
    /// When they are due, relative to the frame's own time.
    pub after: Nanos,
}

impl Pace {
    /// Returns the pace of a frame of `packets` packets that lasts `duration` ns (0: not known, as
    /// for the last one).
    pub fn new(packets: u32, duration: Nanos, burst: u16) -> Pace {
        Pace::within(packets, duration, burst, MOST_SPREAD)
    }

    /// Returns the pace of `packets` packets spread over all of `time`, however long that is.
    pub fn over(packets: u32, time: Nanos, burst: u16) -> Pace {
        Pace::within(packets, time, burst, Nanos::MAX)
    }

    fn within(packets: u32, duration: Nanos, burst: u16, most: Nanos) -> Pace {
        let burst = u32::from(burst).clamp(1, MOST_IN_TURN);
        let duration = duration.max(0);
        let needed = match duration {
            0 => burst,
            _ => (u64::from(packets) * TURN)
                .div_ceil(duration as u64)
                .min(u64::from(MOST_IN_TURN)) as u32,
        };
        let cap = burst.max(needed);
        let slices = packets.div_ceil(cap).max(1);
        let spread = duration.min(most.max(Nanos::from(slices) * TURN as Nanos));
        Pace {
            packets,
            slices,
            spread,
            cap,
        }
    }

    /// Returns the slice that contains packet number `packet` of the frame, starting
    /// at that packet.
    pub fn slice_at(&self, packet: u32) -> Slice {
        let first_of = |slice: u32| {
            (u64::from(slice) * u64::from(self.packets) / u64::from(self.slices)) as u32
        };
        // The last slice that begins at or before the packet.
        let guess =
            ((u64::from(packet) + 1) * u64::from(self.slices) - 1) / u64::from(self.packets.max(1));
        let slice = (guess as u32).min(self.slices - 1);
        let (slice_n, slices) = (Nanos::from(slice), Nanos::from(self.slices));
        let after = match self.spread.checked_mul(slice_n) {
            Some(product) => product / slices,
            None => self.spread / slices * slice_n,
        };
        Slice {
            packets: packet..first_of(slice + 1),
            after,
        }
    }
}

/// When packets of a stream last left: enough history to enforce the rule for the last millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// Departure times, the oldest first.
    at: [u64; 4],
    /// The number of packets that left at each time; 0 in unused entries.
    packets: [u16; 4],
}

impl Window {
    fn sent(&self) -> impl Iterator<Item = (u64, u16)> {
        self.at.into_iter().zip(self.packets)
    }

    /// Returns how many of `cap` packets may leave at `now` (ns).
    pub fn room(&self, now: u64, cap: u32) -> u32 {
        let recent = self
            .sent()
            .filter(|(at, _)| at + TURN > now)
            .map(|(_, packets)| u32::from(packets))
            .sum();
        cap.saturating_sub(recent)
    }

    /// Records that packets have left, the last of them no later than `at`.
    pub fn note(&mut self, at: u64, packets: u32) {
        let packets = u16::try_from(packets).unwrap_or(u16::MAX);
        if packets == 0 {
            return;
        }
        if self.at[0] + TURN <= at || self.packets[0] == 0 {
            self.at.copy_within(1.., 0);
            self.packets.copy_within(1.., 0);
            (self.at[3], self.packets[3]) = (at, packets);
        } else {
            // Full: to count packets as later than they were only makes the rule stricter.
            (self.at[3], self.packets[3]) = (at, self.packets[3].saturating_add(packets));
        }
    }

    /// Returns the earliest time from `now` on at which there is room for `wanted` packets (at most
    /// `cap`), if nothing else leaves.
    pub fn opens_for(&self, now: u64, cap: u32, wanted: u32) -> u64 {
        let enough = |at: &u64| self.room(*at, cap) >= wanted.min(cap);
        let times = self.at.iter().map(|at| (at + TURN).max(now));
        std::iter::once(now)
            .chain(times)
            .filter(enough)
            .min()
            .unwrap_or(now + TURN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn slices(pace: Pace) -> Vec<Slice> {
        let mut all = Vec::new();
        let mut at = 0;
        while at < pace.packets {
            let slice = pace.slice_at(at);
            at = slice.packets.end;
            all.push(slice);
        }
        all
    }

    #[test]
    fn a_frame_that_fits_a_burst_leaves_at_once() {
        assert_eq!(
            slices(Pace::new(8, 40_000_000, 8)),
            [Slice {
                packets: 0..8,
                after: 0
            }]
        );
    }

    #[test]
    fn a_large_frame_is_spread_evenly_over_its_time() {
        let all = slices(Pace::new(100, 40_000_000, 8));
        assert_eq!(all.len(), 13);
        assert!(all.iter().all(|slice| matches!(slice.packets.len(), 7 | 8)));
        let gaps: Vec<_> = all
            .windows(2)
            .map(|pair| pair[1].after - pair[0].after)
            .collect();
        assert!(
            gaps.iter().all(|gap| (3_076_923..=3_076_924).contains(gap)),
            "{gaps:?}"
        );
    }

    #[test]
    fn a_frame_of_many_packets_takes_longer_than_others_if_the_burst_rule_wants_that() {
        let pace = Pace::new(300, 1_000_000_000, 1);
        assert_eq!((pace.cap, pace.slices, pace.spread), (1, 300, 300_000_000));
        let pace = Pace::new(30, 1_000_000_000, 1);
        assert_eq!((pace.slices, pace.spread), (30, MOST_SPREAD));
    }

    #[test]
    fn the_longest_time_is_divided_without_overflow() {
        let eighth = Nanos::MAX / 8;
        let pace = Pace::over(8, Nanos::MAX, 1);
        assert_eq!(pace.slice_at(5).after, eighth * 5);
    }

    #[test]
    fn a_rate_beyond_the_burst_raises_the_cap_to_what_it_needs() {
        assert_eq!(Pace::new(800, 40_000_000, 8).cap, 20);
    }

    #[test]
    fn a_picture_that_stands_long_does_not_leave_slowly() {
        let last = slices(Pace::new(100, 10_000_000_000, 8)).pop().unwrap();
        assert!(last.after < MOST_SPREAD);
        let huge = Pace::new(2000, 10_000_000_000, 8);
        assert_eq!(huge.cap, 8, "its rate is low");
        assert!(slices(huge).pop().unwrap().after < 250_000_000);
    }

    #[test]
    fn a_late_thread_may_not_make_up_for_it_in_one_burst() {
        let mut window = Window::default();
        window.note(10 * TURN, 8);
        assert_eq!(window.room(10 * TURN + TURN / 2, 8), 0);
        assert_eq!(window.opens_for(10 * TURN + TURN / 2, 8, 8), 11 * TURN);
        assert_eq!(window.room(11 * TURN, 8), 8);
    }

    proptest! {
        #[test]
        fn slices_hold_every_packet_once_and_keep_the_rule(
            packets in 1u32..5000, duration in 0i64..200_000_000, burst in 1u16..=64,
        ) {
            let pace = Pace::new(packets, duration, burst);
            let all = slices(pace);
            let mut next = 0;
            for slice in &all {
                prop_assert_eq!(slice.packets.start, next);
                prop_assert!(!slice.packets.is_empty());
                prop_assert!(slice.packets.len() as u32 <= pace.cap);
                prop_assert!((0..duration.max(1)).contains(&slice.after));
                next = slice.packets.end;
            }
            prop_assert_eq!(next, packets);
            prop_assert!(all.windows(2).all(|pair| pair[0].after <= pair[1].after));
        }

        #[test]
        fn a_slice_half_sent_goes_on_where_it_stood(packets in 1u32..500, at in 0u32..500, burst in 1u16..=64) {
            prop_assume!(at < packets);
            let pace = Pace::new(packets, 40_000_000, burst);
            let whole = slices(pace).into_iter().find(|slice| slice.packets.contains(&at)).unwrap();
            prop_assert_eq!(pace.slice_at(at), Slice { packets: at..whole.packets.end, after: whole.after });
        }

        #[test]
        fn no_millisecond_holds_more_than_the_cap(
            steps in proptest::collection::vec((0u64..1_500_000, 1u32..12), 1..200), cap in 1u32..20,
        ) {
            let mut window = Window::default();
            let mut sent: Vec<(u64, u32)> = Vec::new();
            let mut now = 1_000_000_000;
            for (step, wish) in steps {
                now += step;
                let packets = wish.min(window.room(now, cap));
                window.note(now, packets);
                sent.push((now, packets));
            }
            for (start, _) in &sent {
                let within = |at: u64| (*start..start + TURN).contains(&at);
                let count: u32 = sent.iter().filter(|(at, _)| within(*at)).map(|(_, packets)| packets).sum();
                prop_assert!(count <= cap, "{count} packets within a millisecond, {cap} allowed");
            }
        }

        #[test]
        fn the_window_opens_when_it_says(
            steps in proptest::collection::vec((0u64..900_000, 1u32..6), 1..50), wanted in 1u32..=8,
        ) {
            let mut window = Window::default();
            let mut now = 1_000_000_000;
            for (step, packets) in steps {
                now += step;
                window.note(now, packets.min(window.room(now, 8)));
                let opens = window.opens_for(now, 8, wanted);
                prop_assert!(window.room(opens, 8) >= wanted && opens <= now + TURN);
                prop_assert!(opens == now || window.room(opens - 1, 8) < wanted);
            }
        }
    }
}

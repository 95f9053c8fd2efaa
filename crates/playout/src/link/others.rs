//! Traffic on a link besides this sender's streams: bodies over HTTP. The kernel sends a
//! connection's bytes at the connection's own speed; while that lasts, the streams have that much
//! less of the link.

use std::collections::BTreeSet;

use reelway_determinism::FixedMap;

/// The largest part of a link, in percent, that is reserved for others at a time. Bytes beyond it
/// extend the reservation in time.
const MOST: u64 = 75;

/// Bytes of others in transit, by connection number.
#[derive(Debug, Default)]
pub struct Others {
    flows: FixedMap<u64, Flow>,
    /// The flows by the time at which they end.
    ends: BTreeSet<(u64, u64)>,
    /// The total rate of all flows, bytes per second.
    rate: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    rate: u64,
    end: u64,
}

impl Others {
    /// Records that a connection is handed `bytes`, which it sends at `speed` bytes per second;
    /// `None`: as fast as the link allows. `link` is the link's rate, bytes per second.
    pub fn hand_over(&mut self, now: u64, number: u64, bytes: u64, speed: Option<u64>, link: u64) {
        self.advance(now);
        let before = self.flows.get(&number).copied();
        if let Some(flow) = before {
            self.remove(number, flow);
        }
        let room = (link / 100 * MOST).saturating_sub(self.rate);
        let rate = speed.unwrap_or(link).min(room.max(link / 64)).max(1);
        let time = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        let time = time.min(u128::from(u64::MAX / 4)) as u64;
        // Bytes handed over earlier leave first, at the current speed.
        let left = before.map_or(0, |flow| {
            let bytes = u128::from(flow.end - now) * u128::from(flow.rate);
            (bytes / u128::from(rate)).min(u128::from(u64::MAX / 4)) as u64
        });
        let end = now.saturating_add(left).saturating_add(time);
        self.flows.insert(number, Flow { rate, end });
        self.ends.insert((end, number));
        self.rate += rate;
    }

    /// Removes flows that have ended by `now`.
    pub fn advance(&mut self, now: u64) {
        while let Some((end, number)) = self.ends.first().copied()
            && end <= now
        {
            let rate = self.flows.get(&number).map_or(0, |flow| flow.rate);
            self.remove(number, Flow { rate, end });
        }
    }

    fn remove(&mut self, number: u64, flow: Flow) {
        self.flows.remove(&number);
        self.ends.remove(&(flow.end, number));
        self.rate -= flow.rate;
    }

    /// Returns the total rate of all flows, bytes per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Returns when the next flow ends.
    pub fn next_end(&self) -> Option<u64> {
        self.ends.first().map(|(end, _)| *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_connection_takes_its_speed_for_as_long_as_its_bytes_need() {
        let mut others = Others::default();
        others.hand_over(0, 1, 100_000, Some(1_000_000), 10_000_000);
        assert_eq!(
            (others.rate(), others.next_end()),
            (1_000_000, Some(100 * MS))
        );
        // Half of it has left, and the same amount is added.
        others.hand_over(50 * MS, 1, 50_000, Some(1_000_000), 10_000_000);
        assert_eq!(others.next_end(), Some(150 * MS));
        others.hand_over(50 * MS, 2, 50_000, Some(500_000), 10_000_000);
        assert_eq!(others.rate(), 1_500_000);
        others.advance(150 * MS);
        assert_eq!((others.rate(), others.next_end()), (0, None));
    }

    #[test]
    fn what_others_may_take_at_a_time_leaves_a_quarter_and_lasts_longer() {
        let mut others = Others::default();
        others.hand_over(0, 1, 1_000_000, None, 10_000_000);
        assert!(others.rate() <= 7_500_000);
        assert!(others.next_end() >= Some(133 * MS));
        for number in 2..10 {
            others.hand_over(0, number, 1_000, None, 10_000_000);
        }
        assert!(others.rate() <= 7_500_000 + 9 * 10_000_000 / 64);
    }

    proptest! {
        #[test]
        fn what_is_kept_for_others_is_what_they_were_handed(
            handed in prop::collection::vec((0u64..50, 0u64..8, 1u64..200_000, prop::option::of(100_000u64..20_000_000)), 1..200),
        ) {
            const LINK: u64 = 12_500_000;
            let (mut others, mut now, mut kept, mut all) = (Others::default(), 0, 0u128, 0u128);
            // The rate is constant between changes.
            let advance = |others: &mut Others, now: &mut u64, to: u64, kept: &mut u128| {
                while *now < to {
                    let next = others.next_end().unwrap_or(to).min(to);
                    *kept += u128::from(others.rate()) * u128::from(next - *now);
                    *now = next;
                    others.advance(next);
                }
            };
            for (wait, number, bytes, speed) in handed {
                let to = now + wait * MS;
                advance(&mut others, &mut now, to, &mut kept);
                others.hand_over(now, number, bytes, speed, LINK);
                all += u128::from(bytes);
            }
            advance(&mut others, &mut now, u64::MAX / 2, &mut kept);
            prop_assert_eq!(others.rate(), 0);
            let kept = kept / 1_000_000_000;
            prop_assert!(kept.abs_diff(all) <= all / 1000 + 200, "{} of {}", kept, all);
        }
    }
}

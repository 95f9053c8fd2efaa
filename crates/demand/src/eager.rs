//! Films that are sent as far ahead as they may be, and no faster than they may be: media over HTTP, which viewers fetch.

use reelway_media::{Nanos, SECOND};

use crate::curve::{BIN, Curve};

/// How far ahead of its time, and how fast, a film may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eager {
    /// What goes at twice the pace of the rest, so that a viewer who begins waits less.
    pub first: Nanos,
    /// Percent of the film's rate at which the rest goes until it is `ahead`; then at the film's rate.
    pub percent: u32,
    /// Furthest that it is ahead.
    pub ahead: Nanos,
}

impl Default for Eager {
    fn default() -> Self {
        Eager {
            first: 3 * SECOND,
            percent: 200,
            ahead: 20 * SECOND,
        }
    }
}

impl Eager {
    /// Film time that is sent at most when so much time has passed since the beginning.
    pub fn sent_by(&self, passed: Nanos) -> Nanos {
        let passed = passed.max(0);
        let fast = i128::from(passed) * i128::from(self.percent) / 100;
        let fast = Nanos::try_from(fast).unwrap_or(Nanos::MAX);
        let steady = self.ahead.saturating_add(passed);
        let first = self.first.saturating_add(fast);
        fast.saturating_mul(2).min(first).min(steady)
    }

    /// What is sent of the bins `from..` of a film in each quarter second at most, the bin `from` being begun with; nothing
    /// before `from`. The film ends as much earlier as it was ahead.
    pub fn curve(&self, curve: &Curve, from: usize) -> Curve {
        let film = curve.bins();
        let due = film.get(from..).unwrap_or_default();
        let mut bins = vec![0; film.len()];
        let mut sent = 0;
        for (number, bin) in bins.iter_mut().skip(from).enumerate() {
            let until = self.sent_by((number as Nanos + 1).saturating_mul(BIN)) / BIN;
            let until = usize::try_from(until).unwrap_or(due.len()).min(due.len());
            let part = due.get(sent..until).unwrap_or_default();
            *bin = part.iter().fold(0u32, |sum, due| sum.saturating_add(*due));
            sent = sent.max(until);
        }
        curve.like(bins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_film_is_ahead_by_so_much_and_then_goes_at_its_own_rate() {
        let film = Curve::new((0..400).map(|bin| 1000 + bin).collect());
        let sent = Eager::default().curve(&film, 0);
        assert_eq!(sent.total(), film.total());
        // A second of the film in each of the first six quarter seconds, then two quarters in each.
        assert_eq!(sent.bins()[0], film.bins()[..4].iter().sum::<u32>());
        assert_eq!(sent.bins()[5], film.bins()[20..24].iter().sum::<u32>());
        assert_eq!(sent.bins()[6], film.bins()[24..26].iter().sum::<u32>());
        // 17 s later it is 20 s ahead, and goes on as the film does.
        assert_eq!(sent.bins()[100..300], film.bins()[180..380]);
        assert_eq!(sent.bins()[320..].iter().sum::<u32>(), 0);
        let later = Eager::default().curve(&film, 200);
        assert_eq!(later.bins()[..200].iter().sum::<u32>(), 0);
        assert_eq!(later.bins()[200], film.bins()[200..204].iter().sum::<u32>());
    }

    proptest! {
        #[test]
        fn all_of_a_film_is_sent_never_late_and_never_too_far_ahead(
            bins in prop::collection::vec(0u32..1000, 1..200), from in 0usize..220,
            first in 0i64..8, percent in 100u32..400, ahead in 8i64..40,
        ) {
            let eager = Eager { first: first * SECOND, percent, ahead: ahead * SECOND };
            let film = Curve::new(bins.clone());
            let sent = eager.curve(&film, from);
            let rest: u64 = bins.iter().skip(from).map(|bin| u64::from(*bin)).sum();
            prop_assert_eq!(sent.total(), rest);
            let sums = |bins: &[u32]| bins.iter().skip(from).scan(0u64, |sum, bin| {
                *sum += u64::from(*bin);
                Some(*sum)
            }).collect::<Vec<_>>();
            let (sent, due) = (sums(&sent.bins()), sums(&bins));
            for (nth, sum) in sent.iter().enumerate() {
                prop_assert!(*sum >= due[nth], "late");
                let most = (nth + 1 + ahead as usize * 4).min(due.len()) - 1;
                prop_assert!(*sum <= due[most], "too far ahead");
            }
        }
    }
}

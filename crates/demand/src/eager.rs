//! Films that are sent as far ahead as allowed, and no faster than allowed: media over HTTP, which
//! viewers fetch.

use reelway_media::{Nanos, SECOND};

use crate::curve::{BIN, BINS, Curve};

/// Maximum number of quarter seconds until a film is as far ahead as allowed; one that takes longer
/// is slow at first.
const LONGEST: usize = 60 * BINS;

/// How far ahead of its time, and how fast, a film may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eager {
    /// The beginning, which is sent at twice the pace of the rest, so that new viewers wait less.
    pub first: Nanos,
    /// Pace of the rest until it is `ahead`, in percent of the film's rate; then it is the film's
    /// rate.
    pub percent: u32,
    /// The furthest that it may be ahead.
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
    /// The most film time that is sent when `passed` has gone by since the beginning.
    pub fn sent_by(&self, passed: Nanos) -> Nanos {
        let passed = passed.max(0);
        let fast = i128::from(passed) * i128::from(self.percent) / 100;
        let fast = Nanos::try_from(fast).unwrap_or(Nanos::MAX);
        let steady = self.ahead.saturating_add(passed);
        let first = self.first.saturating_add(fast);
        fast.saturating_mul(2).min(first).min(steady)
    }

    /// This one and three that are slower at the beginning, each slower than the one before:
    /// without a faster start, ahead in twice the time, and hardly faster than the film.
    pub fn slower(self) -> [Eager; 4] {
        let even = Eager { first: 0, ..self };
        let percent = |percent| Eager { percent, ..even };
        let half = 100 + self.percent.saturating_sub(100) / 2;
        [self, even, percent(half), percent(half.min(105))]
    }

    /// Bytes of the fullest second until a film that is fetched from its beginning is as far ahead
    /// as allowed.
    pub fn fullest_second(&self, film: &Curve) -> u64 {
        let sent_by = |quarter: usize| self.sent_by(quarter as Nanos * BIN);
        let is_ahead = |quarter: &usize| sent_by(*quarter) >= *quarter as Nanos * BIN + self.ahead;
        let begun = (1..LONGEST).find(is_ahead).unwrap_or(LONGEST);
        let bins = |quarter| (sent_by(quarter) / BIN) as usize;
        let film = film.first_bins(bins(begun + BINS));
        let second = |quarter| {
            let sent = bins(quarter).min(film.len())..bins(quarter + BINS).min(film.len());
            film[sent].iter().map(|bin| u64::from(*bin)).sum()
        };
        (0..=begun).map(second).max().unwrap_or(0)
    }

    /// The most that is sent of the bins `from..` of a film in each quarter second, if it is
    /// fetched from the bin `from` on; nothing before `from`. The film ends earlier by as much as
    /// it was ahead.
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

    #[test]
    fn the_fullest_second_is_the_first_or_where_the_film_is_dense() {
        let film = Curve::new(vec![1000; 400]);
        let [all, even, half, least] = Eager::default().slower();
        assert_eq!(all.fullest_second(&film), 16_000);
        assert_eq!(even.fullest_second(&film), 8_000);
        assert_eq!(half.fullest_second(&film), 6_000);
        assert_eq!(least.fullest_second(&film), 5_000);
        let mut bins = vec![1000; 400];
        bins[30..34].fill(9000);
        assert_eq!(all.fullest_second(&Curve::new(bins)), 40_000);
        assert_eq!(all.fullest_second(&Curve::new(vec![7, 8])), 15);
        assert_eq!(all.fullest_second(&Curve::new(Vec::new())), 0);
    }

    proptest! {
        #[test]
        fn no_second_of_the_beginning_is_fuller_than_the_fullest(
            bins in prop::collection::vec(0u32..1000, 1..200), first in 0i64..8, percent in 105u32..400, ahead in 8i64..40,
        ) {
            let eager = Eager { first: first * SECOND, percent, ahead: ahead * SECOND };
            let film = Curve::new(bins);
            let fullest = eager.fullest_second(&film);
            let is_ahead = |bin: &usize| eager.sent_by((*bin as Nanos + 1) * BIN) >= (*bin as Nanos + 1) * BIN + eager.ahead;
            let until = (0..LONGEST).find(is_ahead).unwrap_or(LONGEST);
            let sent = eager.curve(&film, 0).bins();
            let sent = &sent[..(until + BINS).min(sent.len())];
            let seconds = sent.windows(BINS.min(sent.len().max(1)));
            for second in seconds {
                prop_assert!(second.iter().map(|bin| u64::from(*bin)).sum::<u64>() <= fullest);
            }
        }

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

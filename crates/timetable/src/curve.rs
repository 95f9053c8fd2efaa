//! What a film needs second by second: bytes on the wire, bytes from the disk, whatever is counted.

use std::sync::Arc;

use reelway_media::{Nanos, SECOND};

/// Bins of a second. A play may begin at any moment; its needs are laid into whole seconds of the
/// calendar to the quarter second.
pub const BINS: usize = 4;

/// Length of a bin.
pub const BIN: Nanos = SECOND / BINS as Nanos;

/// The needs of a film along its own time, summed up once and then only read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    bins: Vec<u32>,
    /// For each way in which bins can lie in seconds, the sums of the seconds: `seconds[q][i]` is the sum of
    /// the bins `4i + q - 4 .. 4i + q`, as far as there are such bins.
    seconds: [Vec<u32>; BINS],
    peak: u32,
    least: u32,
    total: u64,
}

impl Curve {
    /// The curve of these quarter seconds. Sums of a second beyond `u32::MAX` count as that.
    pub fn new(bins: Vec<u32>) -> Curve {
        let total = bins.iter().map(|bin| u64::from(*bin)).sum();
        let seconds = std::array::from_fn(|phase| {
            let ends = (phase..bins.len() + BINS).step_by(BINS);
            ends.map(|end| sum(&bins, end.saturating_sub(BINS), end))
                .collect()
        });
        let seconds: [Vec<u32>; BINS] = seconds;
        let peak = seconds.iter().flatten().copied().max().unwrap_or(0);
        let whole = bins.windows(BINS).map(|second| sum(second, 0, BINS));
        let least = whole.min().unwrap_or(0);
        Curve {
            bins,
            seconds,
            peak,
            least,
            total,
        }
    }

    /// The same need at every moment: `rate` a second, for as long as `self`.
    pub fn flattened(&self, rate: u32) -> Curve {
        // Rounded up: four quarters are no less than the whole.
        Curve::new(vec![rate.div_ceil(BINS as u32); self.bins.len()])
    }

    /// What each quarter second needs.
    pub fn bins(&self) -> &[u32] {
        &self.bins
    }

    /// The largest need of any second.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    /// The smallest need of any whole second.
    pub fn least(&self) -> u32 {
        self.least
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The mean need of a second, rounded up.
    pub fn mean(&self) -> u32 {
        let bins = self.bins.len().max(1) as u64;
        u32::try_from((self.total * BINS as u64).div_ceil(bins)).unwrap_or(u32::MAX)
    }

    /// The bin that holds the film time `at`.
    pub fn bin_at(&self, at: Nanos) -> usize {
        usize::try_from(at.max(0) / BIN)
            .unwrap_or(usize::MAX)
            .min(self.bins.len())
    }
}

fn sum(bins: &[u32], start: usize, end: usize) -> u32 {
    let bins = bins.get(start..end.min(bins.len())).unwrap_or_default();
    bins.iter().fold(0, |sum, bin| sum.saturating_add(*bin))
}

/// A curve, or a part of it, laid into the seconds of a clock.
#[derive(Clone, Debug)]
pub struct Play {
    curve: Arc<Curve>,
    phase: usize,
    /// Index into `seconds[phase]` of the play's first second.
    first: usize,
    /// First and last second hold only what lies within the play.
    head: u32,
    tail: u32,
    len: usize,
    /// What it was made of.
    made_of: (usize, usize, usize),
}

impl Play {
    /// The bins `from..to` of a curve, the first of which begins at quarter `quarter` (0 to 3) of its
    /// second.
    pub fn new(curve: Arc<Curve>, from: usize, to: usize, quarter: usize) -> Play {
        let to = to.min(curve.bins.len());
        let from = from.min(to);
        let quarter = quarter % BINS;
        let made_of = (from, to, quarter);
        if from == to {
            return Play {
                curve,
                phase: 0,
                first: 0,
                head: 0,
                tail: 0,
                len: 0,
                made_of,
            };
        }
        // The first second holds the bins `from - quarter .. from - quarter + 4`.
        let end = from + BINS - quarter;
        let (phase, first) = (end % BINS, end / BINS);
        let len = (quarter + to - from).div_ceil(BINS);
        let head = sum(&curve.bins, from, end.min(to));
        let last = end + BINS * (len - 1);
        let tail = sum(&curve.bins, last.saturating_sub(BINS).max(from), to);
        Play {
            curve,
            phase,
            first,
            head,
            tail,
            len,
            made_of,
        }
    }

    /// The same bins of another curve, laid into the same seconds.
    pub fn of(&self, curve: Arc<Curve>) -> Play {
        let (from, to, quarter) = self.made_of;
        Play::new(curve, from, to, quarter)
    }

    /// How many seconds it touches.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it needs no second at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it needs in its second number `second`.
    pub fn need(&self, second: usize) -> u32 {
        match second {
            _ if second >= self.len => 0,
            0 => self.head,
            _ if second + 1 == self.len => self.tail,
            _ => self.curve.seconds[self.phase][self.first + second],
        }
    }

    /// The needs of all seconds but the first and the last.
    pub fn inner(&self) -> &[u32] {
        let inner = self.first + 1..(self.first + self.len).saturating_sub(1);
        self.curve.seconds[self.phase]
            .get(inner)
            .unwrap_or_default()
    }

    /// No second needs more than this.
    pub fn most(&self) -> u32 {
        self.curve.peak
    }

    /// The curve it is a part of.
    pub fn curve(&self) -> &Arc<Curve> {
        &self.curve
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_play_needs_in_each_second_what_its_bins_add_up_to(
            bins in prop::collection::vec(0u32..1000, 0..60),
            from in 0usize..70, span in 0usize..70, quarter in 0usize..4,
        ) {
            let curve = Arc::new(Curve::new(bins.clone()));
            let to = (from + span).min(bins.len());
            let from = from.min(to);
            let play = Play::new(curve.clone(), from, from + span, quarter);
            let mut wanted = vec![0u32; 40];
            for (nth, bin) in bins[from..to].iter().enumerate() {
                wanted[(quarter + nth) / BINS] += bin;
            }
            let got: Vec<u32> = (0..40).map(|second| play.need(second)).collect();
            prop_assert_eq!(&got, &wanted);
            prop_assert!(play.len() <= 40 && wanted[play.len()..].iter().all(|need| *need == 0));
            prop_assert!(got.iter().all(|need| *need <= play.most()));
            if play.len() > 2 {
                prop_assert_eq!(play.inner(), &wanted[1..play.len() - 1]);
            } else {
                prop_assert!(play.inner().is_empty());
            }
        }
    }

    #[test]
    fn peak_and_mean_are_of_whole_seconds() {
        let curve = Curve::new(vec![1, 2, 3, 4, 5, 0, 0, 0]);
        assert_eq!((curve.peak(), curve.mean(), curve.total()), (14, 8, 15));
        assert_eq!(curve.flattened(14).mean(), 16);
        assert_eq!(curve.bin_at(SECOND / 2), 2);
        assert_eq!(curve.bin_at(-5), 0);
    }
}

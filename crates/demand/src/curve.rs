//! A film's needs second by second: bytes on the wire, bytes from the disk, or anything else that
//! is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reelway_media::{Nanos, SECOND};

/// Bins per second. A play may begin at any moment; its needs are assigned to whole seconds of the
/// calendar, to the quarter second.
pub const BINS: usize = 4;

/// Length of a bin.
pub const BIN: Nanos = SECOND / BINS as Nanos;

/// A film's needs along its own time, summed up once and then only read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    shape: Shape,
    /// Number of bins.
    len: usize,
    peak: u32,
    least: u32,
    total: u64,
    _held: Counted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    /// Bin by bin: for each alignment of bins with seconds, `sums[q][i]` is the sum of the bins
    /// before the bin `4i + q`, as far as there are such bins, modulo 2^32. So a second is a
    /// difference, and the seconds of a play are adjacent.
    Bins([Vec<u32>; BINS]),
    /// Each run of `span` bins has the same need.
    Runs { each: Vec<u32>, span: usize },
}

impl Curve {
    /// The curve of these quarter seconds. A bin of more than a quarter of `u32::MAX` counts as
    /// that.
    pub fn new(mut bins: Vec<u32>) -> Curve {
        for bin in &mut bins {
            *bin = (*bin).min(u32::MAX / BINS as u32);
        }
        let mut sums: [Vec<u32>; BINS] =
            std::array::from_fn(|_| Vec::with_capacity(bins.len() / BINS + 2));
        // The last second may lie beyond the end in part: it needs this many more sums.
        let ends = bins.iter().copied().chain([0; BINS - 1]);
        let mut sum = 0u32;
        sums[0].push(sum);
        for (end, bin) in ends.enumerate().map(|(nth, bin)| (nth + 1, bin)) {
            sum = sum.wrapping_add(bin);
            sums[end % BINS].push(sum);
        }
        let held = sums.iter().map(|sums| sums.capacity() * 4).sum();
        Curve::shaped(Shape::Bins(sums), &bins, held)
    }

    /// The curve of `len` quarter seconds in runs of `span` with the same need, which takes little
    /// memory for a long film.
    ///
    /// # Panics
    /// The number of runs does not match `len`, or `span` is 0.
    pub fn of_runs(mut each: Vec<u32>, span: usize, len: usize) -> Curve {
        assert_eq!(each.len(), len.div_ceil(span), "a run for all bins");
        for bin in &mut each {
            *bin = (*bin).min(u32::MAX / BINS as u32);
        }
        let bins: Vec<u32> = (0..len).map(|bin| each[bin / span]).collect();
        let held = each.capacity() * 4;
        Curve::shaped(Shape::Runs { each, span }, &bins, held)
    }

    fn shaped(shape: Shape, bins: &[u32], held: usize) -> Curve {
        let at = |sum: u64| u32::try_from(sum).unwrap_or(u32::MAX);
        let second = |bins: &[u32]| at(bins.iter().map(|bin| u64::from(*bin)).sum());
        let (mut peak, mut least) = (second(bins), 0);
        if bins.len() >= BINS {
            let seconds = || bins.windows(BINS).map(second);
            peak = seconds().max().unwrap_or(0);
            least = seconds().min().unwrap_or(0);
        }
        Curve {
            shape,
            len: bins.len(),
            peak,
            least,
            total: bins.iter().map(|bin| u64::from(*bin)).sum(),
            _held: Counted::new(held),
        }
    }

    /// The curve of these quarter seconds in as little memory as `self`: bin by bin, or in runs
    /// that need no less.
    pub fn like(&self, bins: Vec<u32>) -> Curve {
        match &self.shape {
            Shape::Bins(_) => Curve::new(bins),
            Shape::Runs { span, .. } => {
                Curve::of_runs(runs(bins.iter().copied(), *span), *span, bins.len())
            }
        }
    }

    /// The same curve in less memory: in runs of `span` quarter seconds, of which no second needs
    /// less. A curve that is in runs already stays as it is.
    pub fn coarse(&self, span: usize) -> Curve {
        match &self.shape {
            Shape::Bins(_) => Curve::of_runs(runs(self.bins().into_iter(), span), span, self.len),
            Shape::Runs { .. } => self.clone(),
        }
    }

    /// A curve as long as `self` that needs `rate` per second at every moment.
    pub fn flattened(&self, rate: u32) -> Curve {
        // Rounded up: four quarters are no less than the whole.
        let bin = rate.div_ceil(BINS as u32);
        Curve::of_runs(vec![bin; self.len.min(1)], self.len.max(1), self.len)
    }

    /// The same curve, followed by `more` quarter seconds in which each second needs as much as its
    /// peak.
    pub fn and_at_its_peak(&self, more: usize) -> Curve {
        let bin = self.peak.div_ceil(BINS as u32);
        let mut bins = self.bins();
        bins.extend(std::iter::repeat_n(bin, more));
        self.like(bins)
    }

    /// The number of quarter seconds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The need of each quarter second.
    pub fn bins(&self) -> Vec<u32> {
        (0..self.len).map(|bin| self.sum(bin, bin + 1)).collect()
    }

    /// The needs of the first quarter seconds, at most `most` of them.
    pub fn first_bins(&self, most: usize) -> Vec<u32> {
        let bins = 0..self.len.min(most);
        bins.map(|bin| self.sum(bin, bin + 1)).collect()
    }

    /// The sum of the bins `from..to`, at most a second of them; bins beyond the end count as 0.
    fn sum(&self, from: usize, to: usize) -> u32 {
        let to = to.min(self.len);
        let from = from.min(to);
        match &self.shape {
            Shape::Bins(sums) => {
                let before = |bin: usize| sums[bin % BINS][bin / BINS];
                before(to).wrapping_sub(before(from))
            }
            Shape::Runs { each, span } => (from..to).map(|bin| each[bin / span]).sum(),
        }
    }

    /// The largest need of any second.
    pub fn peak(&self) -> u32 {
        self.peak
    }

    /// The smallest need of any whole second.
    pub fn least(&self) -> u32 {
        self.least
    }

    /// The need of the whole film.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The mean need of a second, rounded up.
    pub fn mean(&self) -> u32 {
        let bins = self.len.max(1) as u64;
        u32::try_from((self.total * BINS as u64).div_ceil(bins)).unwrap_or(u32::MAX)
    }

    /// The bin that holds the film time `at`.
    pub fn bin_at(&self, at: Nanos) -> usize {
        usize::try_from(at.max(0) / BIN)
            .unwrap_or(usize::MAX)
            .min(self.len)
    }
}

/// Needs of runs of `span` bins, such that no whole second needs less than it does by `bins`.
pub(crate) fn runs(bins: impl Iterator<Item = u32>, span: usize) -> Vec<u32> {
    let mut each = Vec::new();
    let mut last = [0u32; BINS];
    let mut count = 0usize;
    let mut ends = |second: &[u32; BINS], end: usize| {
        let sum: u64 = second.iter().map(|bin| u64::from(*bin)).sum();
        let most = u32::try_from(sum.div_ceil(BINS as u64)).unwrap_or(u32::MAX);
        // All runs that the second lies in.
        for run in end.saturating_sub(BINS - 1) / span..=end / span {
            if run == each.len() {
                each.push(0);
            }
            each[run] = each[run].max(most);
        }
    };
    for (end, bin) in bins.enumerate() {
        last.rotate_left(1);
        last[BINS - 1] = bin;
        ends(&last, end);
        count = end + 1;
    }
    // Shorter than a second: each run gets the largest need, whichever bins are looked at.
    if let (1..BINS, Some(most)) = (count, last.iter().max()) {
        each.fill(*most);
    }
    each
}

/// Bytes of memory that all curves of the process take.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Bytes of memory that all curves and demands of this process take. Each viewer of a film of their
/// own books its needs, which takes some hundred kilobytes for a film of hours. The makers of
/// curves bound this.
pub fn memory_held() -> usize {
    HELD.load(Ordering::Relaxed)
}

/// Counts memory for as long as it lives.
#[derive(Debug)]
pub(crate) struct Counted(usize);

impl Counted {
    pub fn new(bytes: usize) -> Counted {
        HELD.fetch_add(bytes, Ordering::Relaxed);
        Counted(bytes)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Ordering::Relaxed);
    }
}

impl Clone for Counted {
    fn clone(&self) -> Counted {
        Counted::new(self.0)
    }
}

/// Curves are equal whatever memory they take.
impl PartialEq for Counted {
    fn eq(&self, _: &Counted) -> bool {
        true
    }
}

impl Eq for Counted {}

/// A curve, or a part of it, aligned with the seconds of a clock.
#[derive(Clone, Debug)]
pub struct Play {
    curve: Arc<Curve>,
    phase: usize,
    /// The play's first second ends before the bin `4 * first + phase`.
    first: usize,
    /// Needs of the first and the last second, which hold only what lies within the play.
    head: u32,
    tail: u32,
    len: usize,
    /// The arguments of `new`: `from`, `to` and `quarter`.
    made_of: (usize, usize, usize),
}

impl Play {
    /// The bins `from..to` of a curve, the first of which begins at quarter `quarter` (0 to 3) of its
    /// second.
    pub fn new(curve: Arc<Curve>, from: usize, to: usize, quarter: usize) -> Play {
        let to = to.min(curve.len);
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
        let head = curve.sum(from, end.min(to));
        let last = end + BINS * (len - 1);
        let tail = curve.sum(last.saturating_sub(BINS).max(from), to);
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

    /// The same bins of another curve, in the same seconds.
    pub fn of(&self, curve: Arc<Curve>) -> Play {
        let (from, to, quarter) = self.made_of;
        Play::new(curve, from, to, quarter)
    }

    /// The number of seconds that it touches.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it touches no second at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The need of its second number `second`.
    pub fn need(&self, second: usize) -> u32 {
        match second {
            _ if second >= self.len => 0,
            0 => self.head,
            _ if second + 1 == self.len => self.tail,
            _ => {
                let end = (self.first + second) * BINS + self.phase;
                self.curve.sum(end - BINS, end)
            }
        }
    }

    /// Fills `needs` with the needs of its seconds from number `from` on, several at once. Neither
    /// its first second nor its last may be among them.
    pub fn inner(&self, from: usize, needs: &mut [u32]) {
        debug_assert!(from > 0 && from + needs.len() < self.len);
        let first = self.first + from;
        match &self.curve.shape {
            Shape::Bins(sums) => {
                let sums = &sums[self.phase][first - 1..first + needs.len()];
                for (need, pair) in needs.iter_mut().zip(sums.windows(2)) {
                    *need = pair[1].wrapping_sub(pair[0]);
                }
            }
            Shape::Runs { .. } => {
                for (second, need) in needs.iter_mut().enumerate() {
                    *need = self.need(from + second);
                }
            }
        }
    }

    /// An upper bound of the need of any second.
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
                let mut inner = vec![0; play.len() - 2];
                play.inner(1, &mut inner);
                prop_assert_eq!(&inner, &wanted[1..play.len() - 1]);
            }
        }

        #[test]
        fn runs_need_no_less_than_the_bins_in_any_second_and_add_up(
            bins in prop::collection::vec(0u32..1000, 1..60),
            span in 1usize..20, from in 0usize..70, quarter in 0usize..4,
        ) {
            let each = runs(bins.iter().copied(), span);
            let curve = Arc::new(Curve::of_runs(each, span, bins.len()));
            let fine = Curve::new(bins.clone());
            prop_assert_eq!(curve.len(), fine.len());
            prop_assert!(curve.peak() >= fine.peak());
            prop_assert!(curve.peak() < fine.peak() + BINS as u32 || bins.len() < BINS);
            let (of_runs, of_bins) = (curve.bins(), fine.bins());
            prop_assert_eq!(&of_bins, &bins);
            for (more, less) in of_runs.windows(BINS).zip(of_bins.windows(BINS)) {
                prop_assert!(more.iter().sum::<u32>() >= less.iter().sum::<u32>());
            }
            prop_assert_eq!(fine.like(bins.clone()), fine);
            prop_assert_eq!(&curve.like(bins.clone()), &*curve);
            // A play of runs equals a play of the bins that they stand for.
            let (play, same) = (
                Play::new(curve.clone(), from, usize::MAX, quarter),
                Play::new(Arc::new(Curve::new(of_runs)), from, usize::MAX, quarter),
            );
            for second in 0..20 {
                prop_assert_eq!(play.need(second), same.need(second));
            }
            if play.len() > 2 {
                let (mut some, mut others) = (vec![0; play.len() - 2], vec![0; play.len() - 2]);
                play.inner(1, &mut some);
                same.inner(1, &mut others);
                prop_assert_eq!(some, others);
            }
        }
    }

    #[test]
    fn a_second_is_exact_however_much_the_film_has() {
        // More than 2^32 in all.
        let curve = Curve::new(vec![700_000_000; 40]);
        assert_eq!(curve.total(), 28_000_000_000);
        assert_eq!(
            (curve.peak(), curve.least()),
            (2_800_000_000, 2_800_000_000)
        );
        let play = Play::new(Arc::new(curve), 3, usize::MAX, 1);
        let mut inner = [0; 8];
        play.inner(1, &mut inner);
        assert_eq!(inner, [2_800_000_000; 8]);
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

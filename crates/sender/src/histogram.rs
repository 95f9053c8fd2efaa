//! A histogram of packet lateness.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reelway_playout as playout;

/// Upper bound of the first class, ns; lateness below it counts as on time.
const FIRST: u64 = 1 << SHIFT;
const SHIFT: u32 = 12;
/// Four classes per octave, from 4 µs to 34 s.
const CLASSES: usize = 1 + 4 * 23;

/// A histogram that one thread writes and others read: no lock, no read-modify-write.
#[derive(Debug)]
pub(crate) struct Histogram {
    classes: [AtomicU64; CLASSES],
    max: AtomicU64,
}

/// Lateness of packets against the timetable. Percentiles are the upper bounds of classes that grow
/// by up to a quarter; within the first class (4 µs) they are exactly zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Median.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// 99.9th percentile.
    pub p999: Duration,
    /// Maximum.
    pub max: Duration,
}

/// Packets per lateness class up to some moment; the difference of two covers the time between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatenessCounts([u64; CLASSES]);

impl Default for LatenessCounts {
    fn default() -> Self {
        LatenessCounts([0; CLASSES])
    }
}

impl Lateness {
    /// Returns the lateness of one stream's packets, which are counted in few classes.
    pub(crate) fn of_stream(late: &playout::Lateness) -> Lateness {
        let micros = |micros: u32| Duration::from_micros(micros.into());
        Lateness {
            p50: micros(late.percentile(500)),
            p99: micros(late.percentile(990)),
            p999: micros(late.percentile(999)),
            max: micros(late.max),
        }
    }
}

impl LatenessCounts {
    /// Returns the lateness of packets that left after `before` was taken. The maximum is the upper
    /// bound of its class, up to a quarter too high.
    pub fn since(&self, before: &LatenessCounts) -> Lateness {
        let mut counts = self.0;
        for (count, before) in counts.iter_mut().zip(&before.0) {
            *count = count.saturating_sub(*before);
        }
        let max = counts.iter().rposition(|count| *count > 0).map_or(0, bound);
        lateness(&counts, max)
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            classes: [const { AtomicU64::new(0) }; CLASSES],
            max: AtomicU64::new(0),
        }
    }
}

fn class(nanos: u64) -> usize {
    if nanos < FIRST {
        return 0;
    }
    let octave = 63 - nanos.leading_zeros();
    let quarter = (nanos >> (octave - 2)) & 3;
    (1 + (octave - SHIFT) as usize * 4 + quarter as usize).min(CLASSES - 1)
}

/// Returns the first value above a class.
fn bound(class: usize) -> u64 {
    if class == 0 {
        return 0;
    }
    let (octave, quarter) = ((class - 1) / 4, (class - 1) % 4);
    (FIRST << octave) / 4 * (5 + quarter as u64)
}

impl Histogram {
    /// Counts `packets` that left `nanos` late. Only one thread may call this.
    pub fn note(&self, nanos: u64, packets: u32) {
        let class = &self.classes[class(nanos)];
        let count = class.load(Ordering::Relaxed) + u64::from(packets);
        class.store(count, Ordering::Relaxed);
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.store(nanos, Ordering::Relaxed);
        }
    }

    /// Returns the counts of all `histograms` so far.
    pub fn counts<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> LatenessCounts {
        let mut counts = LatenessCounts::default();
        for histogram in histograms {
            for (sum, class) in counts.0.iter_mut().zip(&histogram.classes) {
                *sum += class.load(Ordering::Relaxed);
            }
        }
        counts
    }

    /// Returns the lateness over all `histograms` so far.
    pub fn summary<'a>(histograms: impl Iterator<Item = &'a Histogram> + Clone) -> Lateness {
        let greatest = histograms
            .clone()
            .map(|histogram| histogram.max.load(Ordering::Relaxed));
        let max = greatest.max().unwrap_or(0);
        lateness(&Self::counts(histograms).0, max)
    }
}

fn lateness(counts: &[u64; CLASSES], max: u64) -> Lateness {
    let total: u64 = counts.iter().sum();
    if total == 0 {
        return Lateness::default();
    }
    let percentile = |thousandths: u64| {
        let rank = (total * thousandths).div_ceil(1000);
        let mut seen = 0;
        let class = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        Duration::from_nanos(class.map_or(0, bound).min(max))
    };
    Lateness {
        p50: percentile(500),
        p99: percentile(990),
        p999: percentile(999),
        max: Duration::from_nanos(max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_meet_without_a_gap() {
        for nanos in [
            0,
            1,
            4095,
            4096,
            5000,
            5120,
            1_000_000,
            999_999_999,
            30_000_000_000,
        ] {
            let class = class(nanos);
            assert!(nanos < bound(class).max(FIRST), "{nanos}");
            assert!(
                class == 0 || nanos >= bound(class - 1).max(FIRST),
                "{nanos}"
            );
        }
    }

    #[test]
    fn percentiles_are_of_packets() {
        let histogram = Histogram::default();
        histogram.note(0, 985);
        histogram.note(1_000_000, 14);
        histogram.note(7_000_000, 1);
        let Lateness {
            p50,
            p99,
            p999,
            max,
        } = Histogram::summary([&histogram].into_iter());
        assert_eq!(p50, Duration::ZERO);
        assert!(p99 >= Duration::from_millis(1) && p99 < Duration::from_micros(1250));
        assert!(p999 < Duration::from_micros(1250));
        assert_eq!(max, Duration::from_millis(7));
    }

    #[test]
    fn two_counts_tell_of_the_time_between() {
        let histogram = Histogram::default();
        histogram.note(500_000_000, 100);
        let before = Histogram::counts([&histogram].into_iter());
        histogram.note(1_000_000, 10);
        let late = Histogram::counts([&histogram].into_iter()).since(&before);
        assert!(late.max >= Duration::from_millis(1) && late.max < Duration::from_micros(1250));
        assert_eq!(before.since(&before), Lateness::default());
    }
}

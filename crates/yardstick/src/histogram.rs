//! A histogram of durations, of fixed size, with a relative error of 1/16.

use std::time::Duration;

/// Number of buckets: 16 for each power of two of microseconds up to 2^40.
const SUB: u64 = 16;
const BUCKETS: usize = 16 * 38;

/// Counts of durations, from which percentiles are computed.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    max: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS].into(),
            total: 0,
            max: Duration::ZERO,
        }
    }
}

fn bucket(micros: u64) -> usize {
    if micros < SUB {
        return micros as usize;
    }
    let power = u64::from(63 - micros.leading_zeros());
    let fine = (micros >> (power - 4)) & (SUB - 1);
    (((power - 3) * SUB + fine) as usize).min(BUCKETS - 1)
}

/// Returns the lower bound of the next bucket, to which percentiles round up.
fn upper(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    if next <= SUB {
        return next;
    }
    let (power, fine) = (next / SUB + 3, next % SUB);
    (SUB + fine) << (power - 4)
}

impl Histogram {
    /// Counts a duration.
    pub fn add(&mut self, duration: Duration) {
        self.counts[bucket(duration.as_micros() as u64)] += 1;
        self.total += 1;
        self.max = self.max.max(duration);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// Returns what was added since `earlier`, a previous state of this histogram. Its maximum is
    /// rounded up to that of the bucket.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let counts = self.counts.iter().zip(&earlier.counts);
        let counts: Box<[u64]> = counts
            .map(|(now, then)| now.saturating_sub(*then))
            .collect();
        let max = counts.iter().rposition(|count| *count > 0);
        Histogram {
            total: self.total.saturating_sub(earlier.total),
            max: max.map_or(Duration::ZERO, |bucket| {
                Duration::from_micros(upper(bucket)).min(self.max)
            }),
            counts,
        }
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Returns the exact maximum.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the duration that `share` (0 to 1) of all do not exceed, rounded up by at most 1/16.
    pub fn percentile(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (number, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return Duration::from_micros(upper(number)).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_err_upwards_by_a_sixteenth_at_most() {
        let mut histogram = Histogram::default();
        for micros in 1..=100_000 {
            histogram.add(Duration::from_micros(micros));
        }
        for share in [0.01, 0.5, 0.99, 0.999] {
            let exact = 100_000.0 * share;
            let said = histogram.percentile(share).as_micros() as f64;
            assert!(
                said >= exact && said <= exact * 1.07 + 1.0,
                "{share}: {said} for {exact}"
            );
        }
        assert_eq!(histogram.percentile(1.0), Duration::from_millis(100));
        assert_eq!(Histogram::default().percentile(0.5), Duration::ZERO);
    }
}

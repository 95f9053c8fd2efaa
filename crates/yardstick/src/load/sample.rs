//! A sample of a run or of one viewer: one second, or more than one in a long run.

use serde::Serialize;

/// A sample of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at_s: f64,
    /// Viewers who have arrived so far.
    pub came: usize,
    /// Viewers at present.
    pub playing: usize,
    /// Viewers refused so far.
    pub refused: usize,
    /// Viewers harmed so far.
    pub harmed: usize,
    /// Packets (or segments) since the previous sample.
    pub packets: u64,
    /// Payload bytes since the previous sample.
    pub bytes: u64,
    /// Packets lost since the previous sample.
    pub lost: i64,
    /// Lateness in milliseconds of the access units judged since the previous sample: median.
    pub late_p50_ms: f64,
    /// 99th percentile.
    pub late_p99_ms: f64,
    /// 99.9th percentile.
    pub late_p999_ms: f64,
    /// Maximum.
    pub late_max_ms: f64,
    /// Packets that the yardstick's own sockets had no room for so far.
    pub dropped: u64,
    /// CPU time of this process as a share of one core.
    pub cpu: f64,
}

impl Sample {
    /// Merges this sample with the next: counts are added, and the worse lateness counts for both.
    /// `before_s` is the start of this one.
    fn and(self, next: Sample, before_s: f64) -> Sample {
        let (first, second) = (self.at_s - before_s, next.at_s - self.at_s);
        let cpu = self.cpu * first + next.cpu * second;
        Sample {
            packets: self.packets + next.packets,
            bytes: self.bytes + next.bytes,
            lost: self.lost + next.lost,
            late_p50_ms: self.late_p50_ms.max(next.late_p50_ms),
            late_p99_ms: self.late_p99_ms.max(next.late_p99_ms),
            late_p999_ms: self.late_p999_ms.max(next.late_p999_ms),
            late_max_ms: self.late_max_ms.max(next.late_max_ms),
            cpu: cpu / (first + second).max(1e-3),
            ..next
        }
    }
}

/// The samples of a run, bounded in number; in a longer run each covers two, four, … seconds.
#[derive(Debug)]
pub struct Samples {
    most: usize,
    kept: Vec<Sample>,
    /// Seconds per sample.
    each: u32,
    /// Seconds in the last sample.
    last: u32,
}

impl Samples {
    /// Keeps at most `most` samples, an even number.
    pub fn new(most: usize) -> Samples {
        Samples {
            most,
            kept: Vec::new(),
            each: 1,
            last: 1,
        }
    }

    /// Adds the sample of the next second.
    pub fn add(&mut self, sample: Sample) {
        if self.last < self.each {
            self.last += 1;
            self.join(sample);
            return;
        }
        if self.kept.len() == self.most {
            let all = std::mem::take(&mut self.kept);
            for (number, one) in all.into_iter().enumerate() {
                match number % 2 {
                    0 => self.kept.push(one),
                    _ => self.join(one),
                }
            }
            self.each *= 2;
        }
        self.last = 1;
        self.kept.push(sample);
    }

    /// Merges the last sample with the next.
    fn join(&mut self, next: Sample) {
        let last = self.kept.pop().unwrap_or_default();
        let before_s = self.kept.last().map_or(0.0, |before| before.at_s);
        self.kept.push(last.and(next, before_s));
    }

    /// Returns the samples.
    pub fn into_vec(self) -> Vec<Sample> {
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_long_run_hold_all_that_was_counted() {
        for seconds in [1, 7, 8, 9, 16, 17, 100, 1000] {
            let mut samples = Samples::new(8);
            for at in 1..=seconds {
                samples.add(Sample {
                    at_s: f64::from(at),
                    came: at as usize,
                    packets: 10,
                    late_max_ms: f64::from(at % 10),
                    cpu: 0.5,
                    ..Sample::default()
                });
            }
            let kept = samples.into_vec();
            assert!(kept.len() <= 8, "{} of {seconds}", kept.len());
            assert!(seconds < 8 || kept.len() > 4, "{} of {seconds}", kept.len());
            let mut began = 0.0;
            for sample in &kept {
                assert_eq!(sample.packets as f64, 10.0 * (sample.at_s - began));
                assert_eq!(sample.came as f64, sample.at_s);
                assert!((sample.cpu - 0.5).abs() < 1e-9);
                began = sample.at_s;
            }
            assert_eq!(began, f64::from(seconds));
            let latest = kept.iter().map(|sample| sample.late_max_ms);
            assert_eq!(latest.fold(0.0, f64::max), f64::from(seconds.min(9)));
        }
    }
}

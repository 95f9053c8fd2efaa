//! Deviation of our clocks from the kernel's on a machine whose processors are all busy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reelway_clock::{KernelClock, now, real};
use serde::Serialize;

/// Samples whose bracketing readings lie further apart are discarded: the thread was interrupted.
const WIDEST: Duration = Duration::from_micros(2);

/// Deviations of both clocks.
#[derive(Debug, Serialize)]
pub struct Errors {
    /// Deviation of `now()`.
    pub monotonic: Percentiles,
    /// Deviation of `real()`.
    pub real: Percentiles,
}

/// Absolute deviations from the kernel's clock, nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
    pub max: u64,
    /// Number of valid samples.
    pub samples: u64,
    /// Share of samples that were discarded, since their bracketing readings lay too far apart.
    pub discarded: f64,
}

/// Samples both clocks for `seconds` in all, while two threads per processor keep it busy.
pub fn measure(seconds: f64) -> Errors {
    let done = AtomicBool::new(false);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..2 * cores {
            scope.spawn(|| {
                // Readings, memory accesses and system calls, like a server's threads.
                let mut memory = vec![0u8; 1 << 20];
                while !done.load(Ordering::Relaxed) {
                    for _ in 0..1000 {
                        std::hint::black_box(now());
                    }
                    let next = memory[0].wrapping_add(1);
                    memory.fill(next);
                    std::thread::yield_now();
                }
            });
        }
        let half = Duration::from_secs_f64(seconds / 2.0);
        let errors = Errors {
            monotonic: sample(half, || {
                let before = KernelClock.now();
                let ours = now();
                let after = KernelClock.now();
                let width = after.since(before);
                (width, ours.offset_from(before + width / 2))
            }),
            real: sample(half, || {
                let before = KernelClock.real();
                let ours = real();
                let after = KernelClock.real();
                let width = after.since(before);
                (width, ours.offset_from(before + width / 2))
            }),
        };
        done.store(true, Ordering::Relaxed);
        errors
    })
}

/// Deviations below this are counted by nanosecond; of larger ones, only the maximum is kept.
const FINE: usize = 10_000;

fn sample(time: Duration, mut look: impl FnMut() -> (Duration, i64)) -> Percentiles {
    let mut counts = vec![0u64; FINE + 1];
    let (mut samples, mut discarded, mut max) = (0u64, 0u64, 0u64);
    let end = KernelClock.now() + time;
    while KernelClock.now() < end {
        for _ in 0..1000 {
            let (width, error) = look();
            if width > WIDEST {
                discarded += 1;
                continue;
            }
            let error = error.unsigned_abs();
            samples += 1;
            max = max.max(error);
            counts[usize::try_from(error).unwrap_or(FINE).min(FINE)] += 1;
        }
    }
    let at = |share: f64| {
        let wanted = (samples as f64 * share).ceil() as u64;
        let mut sum = 0;
        counts
            .iter()
            .position(|count| {
                sum += count;
                sum >= wanted
            })
            .map_or(max, |nanos| (nanos as u64).min(max))
    };
    Percentiles {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max,
        samples,
        discarded: discarded as f64 / (samples + discarded).max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_counted_over_what_was_not_interrupted() {
        let mut nth = 0;
        let found = sample(Duration::from_millis(1), || {
            nth += 1;
            match nth % 10 {
                0 => (Duration::from_micros(3), 1_000_000),
                1 => (Duration::from_nanos(40), -900),
                _ => (Duration::from_nanos(40), 7),
            }
        });
        assert_eq!((found.p50, found.max), (7, 900));
        assert!((found.discarded - 0.1).abs() < 0.01);
    }
}

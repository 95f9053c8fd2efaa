//! Readings that step back: ordered ones compared with the latest of any thread, unordered ones
//! with the thread's own last.

use std::sync::atomic::{AtomicU64, Ordering};

use reelway_clock::{now, now_unordered};
use serde::Serialize;

/// Results for both kinds of reading.
#[derive(Debug, Serialize)]
pub struct Steps {
    /// Ordered readings, over all threads.
    pub ordered: Count,
    /// Unordered readings, within each thread.
    pub unordered: Count,
    /// Number of reading threads.
    pub threads: usize,
}

/// Number of readings, and of those earlier than one already seen.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Count {
    /// All readings.
    pub readings: u64,
    /// Readings that stepped back.
    pub back: u64,
    /// The largest step back, nanoseconds.
    pub deepest: u64,
}

/// Counts over `readings` readings of each kind, in two threads per processor, so that they change
/// processors and are interrupted anywhere.
pub fn count(readings: u64) -> Steps {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = 2 * cores;
    let each = readings.div_ceil(threads as u64);
    let latest = AtomicU64::new(0);
    Steps {
        ordered: all(threads, || {
            let mut count = Count {
                readings: each,
                ..Count::default()
            };
            for _ in 0..each {
                let seen = latest.load(Ordering::Acquire);
                let nanos = now().nanos();
                count.note(seen, nanos);
                if nanos > seen {
                    latest.fetch_max(nanos, Ordering::AcqRel);
                }
            }
            count
        }),
        unordered: all(threads, || {
            let mut count = Count {
                readings: each,
                ..Count::default()
            };
            let mut last = 0;
            for _ in 0..each {
                let nanos = now_unordered().nanos();
                count.note(last, nanos);
                last = nanos;
            }
            count
        }),
        threads,
    }
}

impl Count {
    fn note(&mut self, seen: u64, nanos: u64) {
        if nanos < seen {
            self.back += 1;
            self.deepest = self.deepest.max(seen - nanos);
        }
    }
}

/// Returns the sum of the counts of `threads` threads.
fn all(threads: usize, work: impl Fn() -> Count + Sync) -> Count {
    std::thread::scope(|scope| {
        let counting: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let mut sum = Count::default();
        for one in counting {
            // A thread that panicked counts as zero; its panic has been printed.
            let one = one.join().unwrap_or_default();
            sum.readings += one.readings;
            sum.back += one.back;
            sum.deepest = sum.deepest.max(one.deepest);
        }
        sum
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_back_are_counted_with_their_depth() {
        let mut count = Count::default();
        count.note(10, 10);
        count.note(10, 12);
        count.note(12, 5);
        assert_eq!((count.back, count.deepest), (1, 7));
    }

    #[test]
    fn no_reading_steps_back() {
        let steps = super::count(100_000);
        assert_eq!((steps.ordered.back, steps.unordered.back), (0, 0));
    }
}

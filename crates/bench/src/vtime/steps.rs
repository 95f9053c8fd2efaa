//! Readings that step back: ordered ones against the latest that any thread has seen, unordered
//! ones against the thread's own last.

use std::sync::atomic::{AtomicU64, Ordering};

use reelway_clock::{now, now_unordered};
use serde::Serialize;

/// What was counted.
#[derive(Debug, Serialize)]
pub struct Steps {
    /// Over all threads.
    pub ordered: Count,
    /// Within each thread.
    pub unordered: Count,
    /// Threads that read.
    pub threads: usize,
}

/// Readings and those that lay before what was seen already.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Count {
    /// Readings in all.
    pub readings: u64,
    /// How many stepped back.
    pub back: u64,
    /// The deepest step back, nanoseconds.
    pub deepest: u64,
}

/// Counts over `readings` readings of each kind, by two threads a processor: so they change
/// processors, and are interrupted anywhere.
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

/// The sum of what `threads` threads count.
fn all(threads: usize, work: impl Fn() -> Count + Sync) -> Count {
    std::thread::scope(|scope| {
        let counting: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let mut sum = Count::default();
        for one in counting {
            // A thread that panicked has counted nothing, and the panic has been printed.
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

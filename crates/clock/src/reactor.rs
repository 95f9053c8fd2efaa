//! How long a task occupies its reactor thread: the CPU time of each poll, and the bytes that a
//! poll serialised or compressed. The reactor's threads serve all viewers, so all of them feel a
//! slow poll; slow work belongs on a thread of its own.
//!
//! CPU time rather than elapsed time: a task is not to blame for what other programs use of the
//! machine.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use reelway_sys::time::thread_cpu_ns;

/// Upper bounds of the histogram's buckets, in microseconds.
const BOUNDS: [u64; 10] = [50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 100_000];

/// Totals over all metered tasks of this process.
struct Meter {
    buckets: [AtomicU64; BOUNDS.len()],
    polls: AtomicU64,
    cpu_ns: AtomicU64,
    longest_ns: AtomicU64,
    most_bytes: AtomicU64,
}

static METER: Meter = Meter {
    buckets: [const { AtomicU64::new(0) }; BOUNDS.len()],
    polls: AtomicU64::new(0),
    cpu_ns: AtomicU64::new(0),
    longest_ns: AtomicU64::new(0),
    most_bytes: AtomicU64::new(0),
};

thread_local! {
    /// Bytes that the current poll has processed; `None` outside a metered poll.
    static BYTES: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Totals over all metered tasks of this process since its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Polls {
    /// Number of polls.
    pub count: u64,
    /// Their total CPU time.
    pub cpu: Duration,
    /// CPU time of the longest poll.
    pub longest: Duration,
    /// The maximum number of bytes that a single poll serialised or compressed.
    pub most_bytes: u64,
    /// The number of polls that took no longer than each bound (cumulative).
    pub histogram: Vec<(Duration, u64)>,
}

/// Returns the totals so far.
pub fn polls() -> Polls {
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut below = 0;
    let mut histogram = Vec::with_capacity(BOUNDS.len());
    for (bound, count) in BOUNDS.iter().zip(&METER.buckets) {
        below += load(count);
        histogram.push((Duration::from_micros(*bound), below));
    }
    Polls {
        // The counters are read one after the other; the total must not be below the sum of the
        // buckets.
        count: load(&METER.polls).max(below),
        cpu: Duration::from_nanos(load(&METER.cpu_ns)),
        longest: Duration::from_nanos(load(&METER.longest_ns)),
        most_bytes: load(&METER.most_bytes),
        histogram,
    }
}

/// Records that `bytes` were serialised or compressed. Counts only within a metered poll: other
/// threads may take their time.
pub fn worked_on(bytes: usize) {
    BYTES.with(|worked| worked.set(worked.get().map(|so_far| so_far + bytes as u64)));
}

/// A task with measured polls.
#[derive(Debug)]
pub struct Metered<F>(Pin<Box<F>>);

/// Measures the polls of a task.
pub fn metered<F: Future>(task: F) -> Metered<F> {
    Metered(Box::pin(task))
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let began = thread_cpu_ns();
        let outer = BYTES.replace(Some(0));
        let polled = self.0.as_mut().poll(cx);
        let bytes = BYTES.replace(outer).unwrap_or(0);
        let took = thread_cpu_ns().saturating_sub(began);
        METER.polls.fetch_add(1, Ordering::Relaxed);
        METER.cpu_ns.fetch_add(took, Ordering::Relaxed);
        METER.longest_ns.fetch_max(took, Ordering::Relaxed);
        METER.most_bytes.fetch_max(bytes, Ordering::Relaxed);
        if let Some(bucket) = BOUNDS.iter().position(|bound| took <= bound * 1000) {
            METER.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A single test, because the meter is shared by the process.
    #[test]
    fn the_longest_poll_and_the_bytes_of_a_poll_are_seen_and_nothing_outside_of_polls() {
        worked_on(1 << 40);
        let mut turns = 0;
        let mut task = metered(std::future::poll_fn(|_| {
            turns += 1;
            worked_on(700);
            worked_on(turns);
            let until = thread_cpu_ns() + 3_000_000;
            while thread_cpu_ns() < until {}
            match turns {
                2 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut task).poll(&mut cx).is_pending());
        assert!(Pin::new(&mut task).poll(&mut cx).is_ready());
        let seen = polls();
        assert_eq!((seen.count, seen.most_bytes), (2, 702));
        assert!(seen.longest >= Duration::from_millis(3) && seen.cpu >= seen.longest);
        let short = seen
            .histogram
            .iter()
            .find(|(bound, _)| bound.as_micros() == 2500);
        assert_eq!(short.map(|(_, count)| *count), Some(0));
        assert_eq!(seen.histogram.last().map(|(_, count)| *count), Some(2));
    }
}

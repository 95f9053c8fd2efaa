//! Comparison of all processors' counters with each other.
//!
//! Two threads on two processors hand a stamp back and forth. Each reads its counter after it has
//! seen the other's stamp: a smaller count means that its counter lags. What the test cannot detect
//! (lags shorter than the time that a cache line takes from one processor to the other), no program
//! can detect either.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use reelway_sys::tsc::{self, CpuSet};

/// Hand-overs in each direction per pair of processors: they take a fraction of a millisecond.
const ROUNDS: u64 = 2_000;
/// The time limit for a pair on a busy machine, in nanoseconds.
const LONGEST: u64 = 20_000_000;
/// The maximum number of processors tested; with more, every n-th.
const MOST: usize = 64;

/// The resolution of a hop, in nanoseconds.
const BENT: u64 = 1_000;

/// The test's result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Crossing {
    /// Processors on which this process may run.
    pub cpus: usize,
    /// How many of these were compared with the first.
    pub compared: usize,
    /// The largest lag of a counter behind another, in counts; it must be zero.
    pub apart: u64,
}

/// Compares the counters of all processors on which this thread may run.
pub fn test() -> Crossing {
    let Some(set) = CpuSet::of_this_thread() else {
        return Crossing::default();
    };
    let cpus: Vec<usize> = set.iter().collect();
    let mut crossing = Crossing {
        cpus: cpus.len(),
        ..Crossing::default()
    };
    let Some((&first, others)) = cpus.split_first() else {
        return crossing;
    };
    let step = others.len().div_ceil(MOST).max(1);
    for &other in others.iter().step_by(step) {
        if let Some(apart) = pair(first, other) {
            crossing.compared += 1;
            crossing.apart = crossing.apart.max(apart);
        }
    }
    crossing
}

/// The stamp that is handed over, and the number of hand-overs.
#[derive(Default)]
struct Stamp {
    count: AtomicU64,
    handed: AtomicU64,
}

/// By how many counts one of two processors lags behind the other; `None` if they did not both run
/// in time.
fn pair(one: usize, other: usize) -> Option<u64> {
    let stamp = Arc::new(Stamp::default());
    let threads = [(one, 0), (other, 1)].map(|(cpu, turn)| {
        let stamp = stamp.clone();
        thread::Builder::new()
            .name("clock-test".into())
            .spawn(move || {
                CpuSet::one(cpu)
                    .bind_this_thread()
                    .then(|| hand_over(&stamp, turn))?
            })
            .ok()
    });
    let mut apart = 0;
    let mut whole = true;
    for thread in threads {
        match thread.and_then(|thread| thread.join().ok().flatten()) {
            Some(behind) => apart = apart.max(behind),
            None => whole = false,
        }
    }
    whole.then_some(apart)
}

/// One side of a pair: takes the stamp whenever the number of hand-overs has parity `turn`.
fn hand_over(stamp: &Stamp, turn: u64) -> Option<u64> {
    let end = tsc::kernel_nanos(tsc::MONOTONIC) + LONGEST;
    let mut apart = 0;
    for round in 0..ROUNDS {
        let mine = 2 * round + turn;
        let mut spins = 0u32;
        while stamp.handed.load(Ordering::Acquire) != mine {
            spins += 1;
            if spins.is_multiple_of(4096) {
                if tsc::kernel_nanos(tsc::MONOTONIC) > end {
                    return None;
                }
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
        let theirs = stamp.count.load(Ordering::Relaxed);
        let count = tsc::counter_ordered();
        if mine > 0 {
            apart = apart.max(theirs.saturating_sub(count));
        }
        stamp.count.store(count, Ordering::Relaxed);
        stamp.handed.store(mine + 1, Ordering::Release);
    }
    Some(apart)
}

/// Compares the counters of all processors with a kernel clock that is not derived from them, with
/// one thread that moves from processor to processor: for a library in a program that is just
/// starting, which must not create threads. Returns by how many counts a counter is off, beyond the
/// precision of the kernel's clock (a few microseconds); it must be zero.
///
/// Allocates nothing. The thread's set of processors is restored afterwards.
pub fn hop() -> u64 {
    let Some(set) = CpuSet::of_this_thread() else {
        return 0;
    };
    let mut cpus = set.iter();
    let Some(first) = cpus.next() else {
        return 0;
    };
    let mut apart = 0;
    for other in cpus.take(MOST) {
        // First, other, first again: this gives the first counter's value at the time of the
        // other's.
        let seen = || match (look(first), look(other), look(first)) {
            (Some(before), Some(there), Some(after)) => before.distance(&there, &after),
            _ => 0,
        };
        // A real difference shows every time, an interruption does not.
        apart = apart.max(seen().min(seen()).min(seen()));
    }
    set.bind_this_thread();
    apart
}

/// A count and the kernel's clock, read together.
#[derive(Clone, Copy, Debug)]
struct Look {
    count: u64,
    nanos: u64,
    /// How far the count may be from the one at the kernel's reading, to either side.
    unsure: u64,
}

/// The tightest of several looks on a processor; `None` if this thread may not run there.
fn look(cpu: usize) -> Option<Look> {
    if !CpuSet::one(cpu).bind_this_thread() {
        return None;
    }
    (0..8)
        .map(|_| {
            let before = tsc::counter_ordered();
            let nanos = tsc::kernel_nanos(tsc::MONOTONIC);
            let width = tsc::counter_ordered().wrapping_sub(before);
            Look {
                count: before.wrapping_add(width / 2),
                nanos,
                unsure: width / 2 + 1,
            }
        })
        .min_by_key(|look| look.unsure)
}

impl Look {
    /// How far `there`'s count lies from the line through this look and `after`, in counts, beyond
    /// the uncertainty of the looks.
    fn distance(&self, there: &Look, after: &Look) -> u64 {
        let nanos = u128::from(after.nanos.saturating_sub(self.nanos));
        let counts = u128::from(after.count.wrapping_sub(self.count));
        let passed = u128::from(there.nanos.saturating_sub(self.nanos));
        let Some(passed) = (counts * passed).checked_div(nanos) else {
            return 0;
        };
        let line = self.count.wrapping_add(passed as u64);
        let away = (there.count.wrapping_sub(line) as i64).unsigned_abs();
        // The kernel may slew its clock between the looks; and a microsecond is the resolution of
        // this method.
        let bent = (counts * u128::from(BENT) / nanos) as u64 + passed as u64 / 1000;
        away.saturating_sub(self.unsure.max(after.unsure) + there.unsure + bent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_finds_a_counter_that_is_apart_and_no_other() {
        let look = |count, nanos| Look {
            count,
            nanos,
            unsure: 500,
        };
        let (before, after) = (look(1_000_000, 10_000), look(3_000_000, 1_010_000));
        // Half way: two million counts per millisecond.
        assert_eq!(before.distance(&look(2_000_000, 510_000), &after), 0);
        assert_eq!(
            before.distance(&look(2_000_900, 510_000), &after),
            0,
            "not sure"
        );
        assert_eq!(before.distance(&look(2_104_000, 510_000), &after), 100_000);
        assert_eq!(before.distance(&look(1_896_000, 510_000), &after), 100_000);
        assert_eq!(
            before.distance(&look(0, 510_000), &before),
            0,
            "no time has passed"
        );
    }

    #[test]
    fn a_hop_leaves_the_thread_where_it_may_run() {
        let before: Vec<usize> = CpuSet::of_this_thread().unwrap().iter().collect();
        hop();
        let after: Vec<usize> = CpuSet::of_this_thread().unwrap().iter().collect();
        assert_eq!(before, after);
    }

    #[test]
    fn the_counters_of_a_machine_whose_kernel_trusts_them_are_not_apart() {
        use crate::trust::{Choice, Why, judge};
        let crossing = test();
        assert!(crossing.cpus >= 1);
        if judge(Choice::Auto) == Why::KernelUsesIt {
            assert_eq!(crossing.apart, 0, "{crossing:?}");
        }
    }
}

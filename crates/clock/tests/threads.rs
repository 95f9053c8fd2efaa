//! The clock of this process with many threads, on the real machine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use reelway_clock::{KernelClock, now, now_unordered, real};

#[test]
fn ordered_readings_never_step_back_over_64_threads() {
    reelway_clock::start();
    let latest = AtomicU64::new(0);
    let end = now() + Duration::from_millis(700);
    std::thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                while now() < end {
                    for _ in 0..1000 {
                        let seen = latest.load(Ordering::Acquire);
                        let nanos = now().nanos();
                        assert!(
                            nanos >= seen,
                            "{nanos} after another thread had seen {seen}"
                        );
                        latest.fetch_max(nanos, Ordering::AcqRel);
                    }
                }
            });
        }
    });
}

#[test]
fn unordered_readings_never_step_back_within_a_thread() {
    reelway_clock::start();
    let end = now() + Duration::from_millis(500);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = now_unordered();
                while last < end {
                    for _ in 0..1000 {
                        let now = now_unordered();
                        assert!(now >= last, "{now:?} after {last:?}");
                        last = now;
                    }
                }
            });
        }
    });
}

#[test]
fn it_stays_within_five_microseconds_of_the_kernels_clock_on_a_busy_machine() {
    reelway_clock::start();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::black_box(now());
                }
            });
        }
        let mut measured = 0;
        for _ in 0..300_000 {
            let before = KernelClock.now();
            let (ours, ours_real) = (now(), real());
            let after = KernelClock.now();
            // A wider interval says more about the scheduler.
            if after - before > Duration::from_micros(2) {
                continue;
            }
            measured += 1;
            assert!(
                ours + Duration::from_micros(5) >= before,
                "behind the kernel's clock"
            );
            assert!(
                ours <= after + Duration::from_micros(5),
                "ahead of the kernel's clock"
            );
            let away = ours_real.offset_from(KernelClock.real());
            assert!(away <= 5_000, "{away} ns ahead of the kernel's real time");
        }
        done.store(true, Ordering::Relaxed);
        assert!(
            measured > 1000,
            "{measured} measurements were not interrupted"
        );
    });
}

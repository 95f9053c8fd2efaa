//! Tests of a followed clock with a simulated counter and a simulated kernel.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;

use super::words::Phase;
use std::sync::atomic::Ordering;

use super::*;

/// A machine whose time advances when it is read.
struct World {
    /// True time, in nanoseconds with a fraction.
    time: Cell<f64>,
    /// Counts per second, and the count at time zero.
    hertz: Cell<f64>,
    offset: Cell<u64>,
    /// The kernel's clock: its time at `kernel_from`, and its rate since.
    kernel_at: Cell<f64>,
    kernel_from: Cell<f64>,
    kernel_rate: Cell<f64>,
    /// The costs of reading the counter and the kernel's clock, in nanoseconds.
    costs: (f64, f64),
    /// Probability and maximum length of an interruption at any reading.
    interrupted: (f64, f64),
    random: Cell<u64>,
    stopped: Cell<bool>,
    events: RefCell<Vec<Event>>,
}

const START: f64 = 5e9;

impl World {
    fn new(hertz: f64, seed: u64) -> World {
        World {
            time: Cell::new(START),
            hertz: Cell::new(hertz),
            offset: Cell::new(0),
            kernel_at: Cell::new(START),
            kernel_from: Cell::new(START),
            kernel_rate: Cell::new(1.0),
            costs: (9.0, 22.0),
            interrupted: (0.0, 0.0),
            random: Cell::new(seed | 1),
            stopped: Cell::new(false),
            events: RefCell::default(),
        }
    }

    fn chance(&self) -> f64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        (x >> 11) as f64 / (1u64 << 53) as f64
    }

    fn pass(&self, nanos: f64) {
        let interruption = if self.chance() < self.interrupted.0 {
            self.interrupted.1 * self.chance()
        } else {
            0.0
        };
        self.time
            .set(self.time.get() + nanos * (0.5 + self.chance()) + interruption);
    }

    fn kernel_now(&self) -> f64 {
        self.kernel_at.get() + (self.time.get() - self.kernel_from.get()) * self.kernel_rate.get()
    }

    /// Changes the rate of the kernel's clock from now on.
    fn slew(&self, ppm: f64) {
        self.kernel_at.set(self.kernel_now());
        self.kernel_from.set(self.time.get());
        self.kernel_rate.set(1.0 + ppm / 1e6);
    }

    fn step(&self, nanos: f64) {
        self.kernel_at.set(self.kernel_at.get() + nanos);
    }

    fn jump(&self, counts: i64) {
        self.offset
            .set(self.offset.get().wrapping_add_signed(counts));
    }
}

impl Source for World {
    fn counter_ordered(&self) -> u64 {
        if !self.stopped.get() {
            self.pass(self.costs.0);
        }
        let count = if self.stopped.get() {
            1e9
        } else {
            self.time.get() * self.hertz.get() / 1e9
        };
        self.offset.get().wrapping_add(count as u64)
    }

    fn kernel(&self) -> u64 {
        self.pass(self.costs.1 / 2.0);
        let now = self.kernel_now();
        self.pass(self.costs.1 / 2.0);
        now.max(0.0) as u64
    }

    fn hear(&self, event: Event) {
        self.events.borrow_mut().push(event);
    }
}

/// The words of a fresh clock.
fn fresh() -> Box<[AtomicU64; TRACK_WORDS]> {
    Box::new([const { AtomicU64::new(0) }; TRACK_WORDS])
}

/// One reading, as programs do it.
fn read(world: &World, track: TrackedClock) -> u64 {
    track
        .nanos(|| world.counter_ordered().into())
        .unwrap_or_else(|| track.slow(world))
}

/// Reads the clock `count` times with pauses of about `pause` nanoseconds, and returns the largest
/// error. Panics if a reading is below the previous one, or its error exceeds the reported bound.
fn run(world: &World, track: TrackedClock, count: usize, pause: f64, last: &mut u64) -> f64 {
    let mut worst = 0.0f64;
    for index in 0..count {
        world.pass(pause);
        let before = world.kernel_now();
        let (nanos, bound) = if index % 7 == 0 {
            let (nanos, error) = track.nanos_with_error(world);
            (nanos, Some(error))
        } else {
            (read(world, track), None)
        };
        let after = world.kernel_now();
        assert!(nanos >= *last, "stepped back from {last} to {nanos}");
        *last = nanos;
        let error = (before - nanos as f64).max(nanos as f64 - after).max(0.0);
        if let Some(bound) = bound {
            assert!(error <= bound as f64 + 1.0, "{error} ns off, said {bound}");
        }
        worst = worst.max(error);
    }
    worst
}

#[test]
fn the_clock_keeps_to_the_kernels() {
    let world = World::new(2.6e9, 1);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    let worst = run(&world, track, 2_000_000, 30.0, &mut 0);
    assert!(track.is_tracking());
    assert!(worst < 60.0, "{worst} ns");
    let hertz = track.hertz() as f64;
    assert!((hertz / 2.6e9 - 1.0).abs() < 5e-6, "{hertz} Hz");
    assert_eq!(track.statistics().falls, 0);
    assert!(matches!(world.events.borrow()[..], [Event::Started(_)]));
}

#[test]
fn it_follows_a_slew_of_500_ppm_within_a_microsecond() {
    let world = World::new(2.6e9, 2);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    let mut last = 0;
    run(&world, track, 300_000, 30.0, &mut last);
    for ppm in [500.0, -500.0, 0.0, -500.0, 500.0] {
        world.slew(ppm);
        let worst = run(&world, track, 300_000, 30.0, &mut last);
        assert!(worst < 1100.0, "{worst} ns off after a change to {ppm} ppm");
        let worst = run(&world, track, 300_000, 30.0, &mut last);
        assert!(worst < 80.0, "{worst} ns off at a steady {ppm} ppm");
    }
    assert_eq!(track.statistics().falls, 0);
}

#[test]
fn a_program_that_reads_rarely_is_told_the_kernels_time() {
    let world = World::new(2.6e9, 3);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    let worst = run(&world, track, 2_000, 5e8, &mut 0);
    assert!(worst < 60.0, "{worst} ns");
}

#[test]
fn a_set_clock_is_followed_in_both_directions() {
    let world = World::new(2.6e9, 4);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Settable);
    run(&world, track, 100_000, 30.0, &mut 0);
    for step in [3600e9, -1800e9, 1e9, -1e9, 50_000.0] {
        world.step(step);
        world.pass(1.2e6);
        let worst = run(&world, track, 300_000, 30.0, &mut 0);
        assert!(worst < 60.0, "{worst} ns off after a step of {step} ns");
    }
    let stepped = |event: &&Event| matches!(event, Event::Stepped(_));
    assert_eq!(world.events.borrow().iter().filter(stepped).count(), 5);
    assert_eq!(track.statistics().falls, 0);
}

#[test]
fn a_thread_that_sets_the_clock_sees_it_at_once() {
    let world = World::new(2.6e9, 5);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Settable);
    run(&world, track, 100_000, 30.0, &mut 0);
    world.step(60e9);
    track.look_again();
    let worst = run(&world, track, 10, 30.0, &mut 0);
    assert!(worst < 60.0, "{worst} ns");
}

#[test]
fn a_counter_that_jumps_is_dropped_and_taken_up_again() {
    for jump in [
        26_000_000_000_000,
        -26_000_000_000_000,
        3_000_000,
        -3_000_000,
        i64::MAX,
    ] {
        let world = World::new(2.6e9, 6);
        let words = fresh();
        let track = TrackedClock::new(&words, Manner::Steady);
        let mut last = 0;
        run(&world, track, 100_000, 30.0, &mut last);
        world.jump(jump);
        // Until the look that shows it, at most a millisecond, the clock is off by as much; then it
        // is the kernel's.
        let count = 100_000;
        for _ in 0..count {
            world.pass(30.0);
            let now = read(&world, track);
            assert!(now >= last, "stepped back after a jump of {jump}");
            assert!(
                (now as f64 - world.kernel_now()).abs() < 2.5e6,
                "after a jump of {jump}"
            );
            last = now;
        }
        assert_eq!(track.statistics().falls, 1, "after a jump of {jump}");
        assert!(!track.is_tracking());
        let worst = run(&world, track, 10_000, 30.0, &mut last);
        assert!(worst < 1.0, "the kernel's clock is the kernel's clock");
        world.time.set(world.time.get() + 150e6);
        run(&world, track, 200_000, 60.0, &mut last);
        assert!(track.is_tracking(), "it comes back after a jump of {jump}");
        assert_eq!(world.events.borrow().last(), Some(&Event::CameBack));
        let worst = run(&world, track, 200_000, 60.0, &mut last);
        assert!(worst < 60.0, "{worst} ns");
    }
}

#[test]
fn a_counter_that_changes_its_frequency_is_dropped_and_measured_anew() {
    let world = World::new(2.6e9, 7);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    let mut last = 0;
    run(&world, track, 100_000, 30.0, &mut last);
    let before = world.counter_ordered();
    world.hertz.set(1.3e9);
    world.jump(before.wrapping_sub(world.counter_ordered()) as i64);
    // A piece of a millisecond at double the time per count: half a millisecond behind.
    for _ in 0..100_000 {
        world.pass(30.0);
        let now = read(&world, track);
        assert!(now >= last);
        assert!((now as f64 - world.kernel_now()).abs() < 1.2e6);
        last = now;
    }
    world.time.set(world.time.get() + 200e6);
    run(&world, track, 300_000, 60.0, &mut last);
    assert!(track.is_tracking());
    assert!((track.hertz() as f64 / 1.3e9 - 1.0).abs() < 1e-4);
}

#[test]
fn a_stopped_counter_leaves_the_clock_behind_no_longer_than_it_is_looked_at() {
    let world = World::new(2.6e9, 8);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    let mut last = 0;
    run(&world, track, 100_000, 30.0, &mut last);
    world.stopped.set(true);
    world.pass(10e6);
    // The stopped count lies before the current piece: a look follows at once.
    let worst = run(&world, track, 100_000, 300.0, &mut last);
    assert!(worst < 1.5e6, "{worst} ns");
    assert!(!track.is_tracking());
    world.stopped.set(false);
    world.time.set(world.time.get() + 100e9);
    run(&world, track, 300_000, 60.0, &mut last);
    assert!(track.is_tracking());
}

#[test]
fn a_counter_that_never_counts_is_never_used() {
    let world = World::new(2.6e9, 9);
    world.stopped.set(true);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    let worst = run(&world, track, 100_000, 10_000.0, &mut 0);
    assert!(worst < 1.0);
    assert!(!track.is_tracking());
}

#[test]
fn a_slow_counter_is_refused_and_said_so() {
    for hertz in [1e3, 32_768.0, 999_000.0] {
        let world = World::new(hertz, 10);
        let words = fresh();
        let track = TrackedClock::new(&words, Manner::Steady);
        let worst = run(&world, track, 100_000, 1_000_000.0, &mut 0);
        assert!(worst < 1.0, "the kernel's clock");
        assert!(
            world
                .events
                .borrow()
                .iter()
                .all(|event| *event == Event::Unfit),
            "{hertz} Hz"
        );
        assert!(!world.events.borrow().is_empty());
    }
}

#[test]
fn a_counter_may_wrap() {
    let world = World::new(2.6e9, 11);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    // Wraps 2 ms from the start.
    world.offset.set(
        0u64.wrapping_sub((START * 2.6) as u64)
            .wrapping_sub(5_200_000),
    );
    let worst = run(&world, track, 300_000, 30.0, &mut 0);
    assert!(worst < 60.0, "{worst} ns");
    assert_eq!(track.statistics().falls, 0);
}

#[test]
fn a_reader_who_finds_the_writer_dead_stays_behind_the_kernels_clock() {
    let world = World::new(2.6e9, 12);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    let mut last = 0;
    run(&world, track, 100_000, 30.0, &mut last);
    // A signal handler has jumped out of the middle of a look, so the lock is never released.
    assert!(track.words.try_lock());
    for _ in 0..100_000 {
        world.pass(100.0);
        let now = read(&world, track);
        assert!(now >= last);
        let error = (now as f64 - world.kernel_now()).abs();
        assert!(error < 2_500.0, "{error} ns");
        last = now;
    }
}

#[test]
fn another_time_namespace_takes_effect() {
    // The kernel's monotonic clock goes back a day: the floor does not hold readers for that long.
    let world = World::new(2.6e9, 13);
    world.step(200_000e9);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    run(&world, track, 100_000, 30.0, &mut 0);
    world.step(-86_400e9);
    world.pass(2e6);
    let worst = run(&world, track, 100_000, 30.0, &mut 0);
    assert!(worst < 1.0, "{worst} ns");
}

#[test]
fn conversions_go_both_ways() {
    let world = World::new(2.6e9, 14);
    let words = fresh();
    let track = TrackedClock::new(&words, Manner::Steady);
    assert_eq!(track.count_at(0), None, "nothing is known yet");
    run(&world, track, 100_000, 30.0, &mut 0);
    let count = world.counter_ordered();
    let nanos = track.time_at(count).unwrap();
    assert!((nanos as f64 - world.kernel_now()).abs() < 60.0);
    let back = track.count_at(nanos).unwrap();
    assert!(back.abs_diff(count) <= 100, "{back} for {count}");
    assert_eq!(
        track.count_at(nanos + 3_600_000_000_000),
        None,
        "too far to be known"
    );
}

/// The real counter and the real monotonic clock.
struct Here;

impl Source for Here {
    fn counter_ordered(&self) -> u64 {
        reelway_sys::tsc::counter_ordered()
    }

    fn kernel(&self) -> u64 {
        reelway_sys::tsc::kernel_nanos(reelway_sys::tsc::MONOTONIC)
    }
}

/// Repeats the moments that are critical between threads: the first piece after the kernel's clock,
/// a fall back to it, a clock that is closed.
#[test]
fn threads_never_see_each_other_in_the_past_while_the_clock_is_born_and_falls() {
    for round in 0..150 {
        let words = fresh();
        let latest = AtomicU64::new(0);
        let track = TrackedClock::new(&words, Manner::Steady);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let latest = &latest;
                scope.spawn(move || {
                    for turn in 0..20_000u32 {
                        let seen = latest.load(Ordering::Acquire);
                        let nanos = track
                            .nanos(reelway_sys::tsc::counter_ordered_halves)
                            .unwrap_or_else(|| track.slow(&Here));
                        assert!(nanos >= seen, "{nanos} after {seen} in round {round}");
                        latest.fetch_max(nanos, Ordering::AcqRel);
                        if thread == 0 && turn % 5_000 == 4_999 && track.words.try_lock() {
                            if track.words.phase() == Phase::Tracking {
                                // As when the counter is found to have jumped.
                                let piece = track.ring().piece(track.ring().head());
                                track.fall(&piece.unwrap_or(NOTHING), Here.kernel(), 300_000);
                            }
                            track.words.unlock();
                        }
                    }
                });
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever the counter's frequency (1 kHz to 10 GHz) and value (it may wrap), the noise of the
    /// machine and the frequency of readings: the clock never steps back, and its error is within
    /// the reported bound (asserted in `run`).
    #[test]
    fn it_never_steps_back_and_knows_its_error(
        exponent in 3.0f64..10.0,
        offset: u64,
        interrupted in 0.0f64..0.02,
        interruption in 0.0f64..5e6,
        pause in 1.0f64..1e6,
        ppm in prop::collection::vec(-500.0f64..500.0, 1..4),
        kernel_cost in 20.0f64..3_000.0,
        seed: u64,
    ) {
        let mut world = World::new(10f64.powf(exponent), seed);
        world.offset.set(offset);
        world.interrupted = (interrupted, interruption);
        world.costs.1 = kernel_cost;
        let words = fresh();
        let track = TrackedClock::new(&words, Manner::Steady);
        let mut last = 0;
        for ppm in ppm {
            world.slew(ppm);
            run(&world, track, 20_000, pause, &mut last);
        }
        prop_assert_eq!(track.statistics().falls, 0);
        prop_assert!(track.words.phase() != Phase::Tracking || track.hertz() >= 1_000_000);
    }

    /// Jumps of the counter at any time: the clock never goes back, and is never off for longer
    /// than a piece and the following look.
    #[test]
    fn jumps_are_survived(
        jumps in prop::collection::vec(any::<i64>(), 1..5),
        pause in 10.0f64..1e5,
        seed: u64,
    ) {
        let world = World::new(2.6e9, seed);
        let words = fresh();
        let track = TrackedClock::new(&words, Manner::Steady);
        let mut last = 0;
        run(&world, track, 20_000, pause, &mut last);
        for jump in jumps {
            world.jump(jump);
            for _ in 0..20_000 {
                world.pass(pause);
                let now = read(&world, track);
                prop_assert!(now >= last);
                let error = (now as f64 - world.kernel_now()).abs();
                prop_assert!(error < 1.2e7, "{} ns off", error);
                last = now;
            }
        }
    }
}

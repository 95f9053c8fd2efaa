//! Reelway's clock compared with those of other libraries: the cost of a reading, and the drift.
//!
//! This is a separate program because some of the others calibrate the counter before `main`, which
//! a server that only links them would pay for at every start. `reelway bench vtime` runs it.
//!
//! ```text
//! clock-peers cost CALLS RUNS     lines: mean RUN WAY NANOSECONDS, ratio RUN WAY RATIO (to the vDSO)
//! clock-peers drift SECONDS       lines: drift SECONDS WAY NANOSECONDS (against the kernel's clock)
//! ```

use std::hint::black_box;
use std::time::Duration;

use reelway_clock::{KernelClock, coarse, now, now_unordered, turn};

/// The clocks, in the order in which a turn reads them.
const NAMES: [&str; 8] = [
    "vdso",
    "now",
    "now_unordered",
    "coarse",
    "quanta",
    "minstant",
    "fastant",
    "counter",
];

fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok());
    match (arguments.get(1).map(String::as_str), number(2), number(3)) {
        (Some("cost"), Some(calls), Some(runs)) => cost(calls, runs),
        (Some("drift"), Some(seconds), _) => drift(seconds),
        _ => {
            eprintln!("clock-peers cost CALLS RUNS | clock-peers drift SECONDS");
            return std::process::ExitCode::from(2);
        }
    }
    std::process::ExitCode::SUCCESS
}

/// Readings of each clock in a turn.
const TURN: u64 = 2_500;

/// Reads libc's clock; the only overhead is the check for an error.
#[inline]
fn vdso() -> (i64, i64) {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()))
}

/// Times a turn of one clock. A macro, so that the reading is inlined into the loop, as in a
/// program.
macro_rules! timed {
    ($reading:expr) => {{
        let begin = KernelClock.now();
        for _ in 0..TURN {
            $reading();
        }
        (KernelClock.now() - begin).as_nanos() as f64 / TURN as f64
    }};
}

fn cost(calls: u64, runs: u64) {
    reelway_clock::start();
    turn();
    let turns = (calls / TURN).max(1);
    for run in 0..runs {
        let mut costs: [Vec<f64>; NAMES.len()] = Default::default();
        for _ in 0..turns {
            costs[0].push(timed!(|| black_box(vdso())));
            costs[1].push(timed!(|| black_box(now())));
            costs[2].push(timed!(|| black_box(now_unordered())));
            costs[3].push(timed!(|| black_box(coarse())));
            costs[4].push(timed!(|| black_box(quanta::Instant::now())));
            costs[5].push(timed!(|| black_box(minstant::Instant::now())));
            costs[6].push(timed!(|| black_box(fastant::Instant::now())));
            costs[7].push(timed!(|| black_box(reelway_sys::tsc::counter())));
        }
        for (way, costs) in NAMES.iter().zip(&costs) {
            println!(
                "mean {run} {way} {:.3}",
                costs.iter().sum::<f64>() / turns as f64
            );
        }
        for (way, of_way) in NAMES.iter().zip(&costs).skip(1) {
            let mut ratios: Vec<f64> = of_way
                .iter()
                .zip(&costs[0])
                .map(|(ours, vdso)| ours / vdso)
                .collect();
            ratios.sort_by(f64::total_cmp);
            println!("ratio {run} {way} {:.5}", ratios[ratios.len() / 2]);
        }
    }
}

/// A clock's name, and a function that returns the nanoseconds that have passed by it.
type Peer = (&'static str, Box<dyn Fn() -> u64>);

/// Prints each clock's drift: its elapsed time against that of the kernel's clock, which is read
/// before and after.
fn drift(seconds: u64) {
    reelway_clock::start();
    let peers: [Peer; 4] = [
        ("now", {
            let begin = now();
            Box::new(move || (now() - begin).as_nanos() as u64)
        }),
        ("quanta", {
            let begin = quanta::Instant::now();
            Box::new(move || begin.elapsed().as_nanos() as u64)
        }),
        ("minstant", {
            let begin = minstant::Instant::now();
            Box::new(move || begin.elapsed().as_nanos() as u64)
        }),
        ("fastant", {
            let begin = fastant::Instant::now();
            Box::new(move || begin.elapsed().as_nanos() as u64)
        }),
    ];
    println!("tsc minstant {}", minstant::is_tsc_available());
    println!("tsc fastant {}", fastant::is_tsc_available());
    // How far a clock is ahead of the kernel's, by the narrowest of nine readings.
    let look = |clock: &dyn Fn() -> u64| -> i64 {
        let one = || {
            let before = KernelClock.now();
            let time = clock();
            let after = KernelClock.now();
            let width = after.since(before);
            let middle = before + width / 2;
            (width, time as i64 - middle.nanos() as i64)
        };
        (0..9)
            .map(|_| one())
            .min_by_key(|look| look.0)
            .map_or(0, |look| look.1)
    };
    let zero = peers.each_ref().map(|(_, clock)| look(clock));
    let begin = KernelClock.now();
    // About 200 points, and one at the end.
    let pause = Duration::from_secs_f64(seconds as f64 / 200.0);
    for nth in 1..=200u32 {
        let left = (begin + pause * nth).since(KernelClock.now());
        std::thread::sleep(left);
        let at = KernelClock.now().since(begin).as_secs_f64();
        for ((way, clock), zero) in peers.iter().zip(zero) {
            println!("drift {at:.3} {way} {}", look(clock) - zero);
        }
    }
}

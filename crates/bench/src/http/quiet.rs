//! The load of the machine without a server, and undisturbed runs.

use std::time::Duration;

use anyhow::Context;

use crate::bed::machine::{Idle, cpu_of_others};

/// The load of each core without a server.
pub struct Quiet {
    /// Busy share of each core, 0 to 1.
    pub shares: Vec<f64>,
    /// CPU time of other programs during the measurement, as a share of a core.
    pub disturbed: f64,
}

impl Quiet {
    /// Measures for 3 s, at most `tries` times.
    pub fn look(tries: usize) -> anyhow::Result<Quiet> {
        let ours = [std::process::id()];
        let (disturbed, shares) = undisturbed(&ours, tries, || {
            let before = Idle::now()?;
            std::thread::sleep(Duration::from_secs(3));
            let now = Idle::now()?;
            let elapsed = now.seconds_since(&before);
            let shares = now.busy_since(&before).into_iter();
            Ok(shares.map(|busy| busy / elapsed).collect())
        })?;
        Ok(Quiet { shares, disturbed })
    }
}

/// The most that other programs may use of a core in a run that is not repeated.
const QUIET: f64 = 0.02;

/// Repeats a run until programs other than `ours` do not disturb it; returns the least disturbed
/// one, and the disturbance as a share of a core.
pub fn undisturbed<T>(
    ours: &[u32],
    tries: usize,
    mut run: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<(f64, T)> {
    let mut best: Option<(f64, T)> = None;
    for _ in 0..tries.max(1) {
        let (before, began) = (cpu_of_others(ours)?, reelway_clock::now());
        let outcome = run()?;
        let seconds = reelway_clock::now().since(began).as_secs_f64();
        // The time of a program that has ended counts nowhere until its parent waits for it.
        let others = (cpu_of_others(ours)? - before).abs() / seconds.max(1e-9);
        if best.as_ref().is_none_or(|(least, _)| others < *least) {
            best = Some((others, outcome));
        }
        if others <= QUIET {
            break;
        }
    }
    best.context("no run")
}

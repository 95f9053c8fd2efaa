//! What the machine does without any server, and runs that nothing else disturbs.

use std::time::Duration;

use anyhow::Context;

use crate::bed::machine::{Idle, cpu_of_others};

/// How busy each core is as long as there is no server.
pub struct Quiet {
    /// Of each core, 0 to 1.
    pub shares: Vec<f64>,
    /// What other programs took meanwhile, as a share of a core.
    pub disturbed: f64,
}

impl Quiet {
    /// Looks for some seconds, so many times at the most.
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

/// What other programs may take of a core in a run that counts at once.
const QUIET: f64 = 0.02;

/// Tries until a run is not disturbed by programs other than `ours`; the least disturbed one, and by how much
/// of a core.
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
        // A program that has ended is in nobody's account until its parent looks.
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

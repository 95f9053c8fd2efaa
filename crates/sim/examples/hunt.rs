//! Finds the first seed in which a rule is broken.
//!
//! ```text
//! cargo run --release -p reelway-sim --example hunt -- [SEEDS]
//! ```
//!
//! Exit code 0: a seed was found, and is printed with the violation. 1: none of the seeds (1,000 by
//! default) breaks a rule.

use std::process::ExitCode;

use reelway_sim::{Config, run};

fn main() -> ExitCode {
    let seeds = std::env::args().nth(1).and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(1000) {
        let outcome = run(seed, &Config::default());
        if let Some(violation) = outcome.violations.first() {
            println!("seed {seed}: {violation}");
            return ExitCode::SUCCESS;
        }
    }
    println!("no seed");
    ExitCode::FAILURE
}

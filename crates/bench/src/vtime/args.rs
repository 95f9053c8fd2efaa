//! The experiment's arguments.

use clap::Parser;

use crate::arguments::{one_or_more, positive};

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench vtime",
    about = "The vtime paper's table: cost and accuracy of a clock reading"
)]
pub struct Args {
    /// Calls per run of each way to read the clock
    #[arg(long, default_value_t = 1_000_000, value_parser = one_or_more::<u64>)]
    pub calls: u64,
    /// Number of runs
    #[arg(long, default_value_t = 4, value_parser = one_or_more::<u64>)]
    pub runs: u64,
    /// Readings of each kind in which backward steps are counted
    #[arg(long, default_value_t = 1_000_000_000, value_parser = one_or_more::<u64>)]
    pub readings: u64,
    /// Seconds for which the deviation from the kernel's clock is sampled on a busy machine
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    pub error_seconds: f64,
    /// Minutes for which the drift from the kernel's clock is tracked
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    pub drift_minutes: f64,
    /// Rounds of PostgreSQL and Redis with and without the preload library; 0 skips them
    #[arg(long, default_value_t = 7)]
    pub program_rounds: u32,
    /// Command that runs the lab, for clock sources without a vDSO and for slewing; "none" skips it
    #[arg(long, default_value = "lab/run")]
    pub lab: String,
    /// Run few and short measurements: a quick check, not for publication
    #[arg(long)]
    pub quick: bool,
}

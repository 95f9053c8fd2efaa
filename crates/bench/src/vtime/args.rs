//! The experiment's arguments.

use clap::Parser;

use crate::arguments::{one_or_more, positive};

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench vtime",
    about = "The vtime paper's table again: what a reading of the clock costs, and how right it is"
)]
pub struct Args {
    /// Calls of each way in a run
    #[arg(long, default_value_t = 1_000_000, value_parser = one_or_more::<u64>)]
    pub calls: u64,
    /// Runs
    #[arg(long, default_value_t = 4, value_parser = one_or_more::<u64>)]
    pub runs: u64,
    /// Readings in which backward steps are counted, of each kind
    #[arg(long, default_value_t = 1_000_000_000, value_parser = one_or_more::<u64>)]
    pub readings: u64,
    /// Seconds for which the distance from the kernel's clock is sampled on a busy machine
    #[arg(long, default_value_t = 30.0, value_parser = positive)]
    pub error_seconds: f64,
    /// Minutes over which the drift against the kernel's clock is followed
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    pub drift_minutes: f64,
    /// Rounds in which PostgreSQL and Redis run with and without; 0 leaves them out
    #[arg(long, default_value_t = 7)]
    pub program_rounds: u32,
    /// The lab's command, for clock sources without a vDSO and for slewing; "none" leaves it out
    #[arg(long, default_value = "lab/run")]
    pub lab: String,
    /// Few of everything: for a look, not for figures
    #[arg(long)]
    pub quick: bool,
}

//! The arguments of the experiment.

use crate::arguments::one_or_more;

/// What films that are read through a view cost, against the same films in MP4
#[derive(clap::Parser)]
pub struct Args {
    /// Number of viewers: all of one film, and then each of a different film
    #[arg(long, default_value_t = 100, value_parser = one_or_more::<usize>)]
    pub viewers: usize,
    /// Seconds that they watch
    #[arg(long, default_value_t = 20, value_parser = one_or_more::<u32>)]
    pub seconds: u32,
    /// Number of rounds, in each of which every case runs once
    #[arg(long, default_value_t = 3, value_parser = one_or_more::<usize>)]
    pub rounds: usize,
    /// Length of the long recording, in hours
    #[arg(long, default_value_t = 24, value_parser = one_or_more::<u32>)]
    pub hours: u32,
}

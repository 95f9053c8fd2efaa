//! The experiment's arguments.

use clap::{Parser, ValueEnum};

use crate::arguments::{one_or_more, positive};

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench mssc",
    about = "The MSSC paper's experiment: ten sessions on an idle and an overloaded machine, film traffic, cost of a packet"
)]
pub struct Args {
    /// Packets per session
    #[arg(long, default_value_t = 1000, value_parser = one_or_more::<u32>)]
    pub packets: u32,
    /// Rounds in which the ways to send are compared
    #[arg(long, default_value_t = 3, value_parser = one_or_more::<u32>)]
    pub runs: u32,
    /// Seconds of film traffic measured in each run
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    pub seconds: f64,
    /// Numbers of streams of film traffic, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [50, 200, 500, 1000, 2000, 3000])]
    pub streams: Vec<u32>,
    /// Run only this half
    #[arg(long)]
    pub only: Option<Half>,
    /// Send few packets and streams in short runs: a quick check, not for publication
    #[arg(long)]
    pub quick: bool,
    /// A task for this process (the command starts itself with it)
    #[arg(long, hide = true)]
    pub task: Option<String>,
}

/// Halves of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Half {
    /// The paper's sessions
    Sessions,
    /// Film traffic
    Films,
}

impl Args {
    pub fn film_seconds(&self) -> f64 {
        if self.quick { 2.0 } else { self.seconds }
    }

    pub fn streams(&self) -> Vec<u32> {
        if self.quick {
            vec![50, 200]
        } else {
            self.streams.clone()
        }
    }

    pub fn wants(&self, half: Half) -> bool {
        self.only.is_none_or(|only| only == half)
    }

    /// Prints a line of progress.
    pub fn say(&self, line: &str) {
        eprintln!("{line}");
    }
}

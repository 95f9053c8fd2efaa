//! The experiment's arguments.

use std::path::PathBuf;

use clap::Parser;

use crate::arguments::{one_or_more, positive};

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench density",
    about = "Viewers per core, compared with gst-rtsp-server, VLC and others"
)]
pub struct Args {
    /// Install the Debian packages of the compared servers first (needs root)
    #[arg(long)]
    pub install: bool,
    /// Path of a live555MediaServer to compare with
    #[arg(long, value_name = "PROGRAM")]
    pub live555: Option<PathBuf>,
    /// Path of a mediamtx to compare with
    #[arg(long, value_name = "PROGRAM")]
    pub mediamtx: Option<PathBuf>,
    /// Measure only these servers, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Number of viewers at which CPU time is compared
    #[arg(long, default_value_t = 50, value_parser = one_or_more::<u32>)]
    pub viewers: u32,
    /// Number of trials with that many viewers
    #[arg(long, default_value_t = 3, value_parser = one_or_more::<u32>)]
    pub runs: u32,
    /// Seconds of a trial that are judged
    #[arg(long, default_value_t = 15.0, value_parser = positive)]
    pub seconds: f64,
    /// Maximum number of viewers to try
    #[arg(long, default_value_t = 4000, value_parser = one_or_more::<u32>)]
    pub most: u32,
    /// Maximum duration of the search for the largest number of viewers, in minutes per server
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    pub minutes: f64,
    /// Run short trials and no search: a quick check, not for publication
    #[arg(long)]
    pub quick: bool,
    /// What this process does (the command starts itself with it)
    #[arg(long, hide = true)]
    pub task: Option<String>,
}

//! The experiment's arguments.

use std::path::PathBuf;

use clap::Parser;

use crate::arguments::{one_or_more, positive};

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench density",
    about = "Viewers a core, against gst-rtsp-server, VLC and others"
)]
pub struct Args {
    /// Install Debian's packages of the servers compared first
    #[arg(long)]
    pub install: bool,
    /// A live555MediaServer to compare with
    #[arg(long, value_name = "PROGRAM")]
    pub live555: Option<PathBuf>,
    /// A mediamtx to compare with
    #[arg(long, value_name = "PROGRAM")]
    pub mediamtx: Option<PathBuf>,
    /// Only servers of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Viewers at which CPU is compared
    #[arg(long, default_value_t = 50, value_parser = one_or_more::<u32>)]
    pub viewers: u32,
    /// Trials of that
    #[arg(long, default_value_t = 3, value_parser = one_or_more::<u32>)]
    pub runs: u32,
    /// Seconds judged in a trial
    #[arg(long, default_value_t = 15.0, value_parser = positive)]
    pub seconds: f64,
    /// Most viewers tried
    #[arg(long, default_value_t = 4000, value_parser = one_or_more::<u32>)]
    pub most: u32,
    /// Minutes that the search for the largest number may take, for each server
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    pub minutes: f64,
    /// Short trials and no search: for a look, not for figures
    #[arg(long)]
    pub quick: bool,
    /// What this process does (the command starts itself with it)
    #[arg(long, hide = true)]
    pub task: Option<String>,
}

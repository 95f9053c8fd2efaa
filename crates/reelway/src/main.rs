//! The `reelway` binary: the command line.
//!
//! Exit codes: 0 success, 1 failure, 2 wrong usage.
#![forbid(unsafe_code)]

mod bench;
mod cache;
mod cachesim;
mod calibrate;
mod check;
mod cli;
mod director;
mod index;
mod serve;
mod sim;
mod trial;
mod yardstick;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // On wrong usage, clap exits with code 2 itself.
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("reelway: {error:#}");
            ExitCode::from(1)
        }
    }
}

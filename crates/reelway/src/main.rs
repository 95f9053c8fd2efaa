//! The `reelway` binary: command line, configuration, wiring.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage.
#![forbid(unsafe_code)]

mod bench;
mod cachesim;
mod capacity;
mod check;
mod cli;
mod config;
mod disks;
mod index;
mod lan;
mod node;
mod serve;
mod sim;
mod sources;
mod wire;
mod yardstick;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // clap leaves with code 2 on wrong usage by itself.
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("reelway: {error:#}");
            ExitCode::from(1)
        }
    }
}

//! `reelway bench lvscache`: the LVS-cache paper again, in the lab's kernel: caches behind one
//! virtual address, with more and more clients. An instruction takes a nanosecond there, so a run
//! is the same on every machine, however busy.
//!
//! Machines are network namespaces. Rates, links and processors are a tenth of the paper's (10
//! Mbit/s, a film of 70 kbit/s, 90 million instructions per second), so that the whole network fits
//! into one emulated processor.
//!
//! | file | content |
//! |---|---|
//! | `lab.rs` | runs: settings of the guest, results of machines and viewers |
//! | `text.rs` | texts common to all pages |
//! | `drawn.rs` | Figures 2 to 5 |
//! | `schedulers.rs` | every forwarding method with every scheduler |
//! | `seeds.rs` | how much runs with different seeds differ, and why |
//! | `costs.rs` | traffic through the director, and its cost there |
//! | `films.rs` | many films: how much caches fetch, by scheduler and locality of films |
//! | `servers.rs` | Squid, Varnish and nginx as the caches |

mod costs;
mod drawn;
mod films;
mod lab;
mod schedulers;
mod seeds;
mod servers;
mod text;

use clap::{Parser, ValueEnum};

use self::lab::{Lab, Run, Setup};
use crate::arguments::{arguments, one_or_more};
use crate::bed::{Folder, packages};
use crate::report::Report;

/// Its arguments.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench lvscache",
    about = "The LVS-cache paper's experiment: caches behind one virtual address, with more and more clients"
)]
struct Args {
    /// Part of the experiment to run
    #[arg(long, default_value = "drawn")]
    only: Part,
    /// Number of concurrent runs; each takes a core
    #[arg(long, default_value_t = 2, value_parser = one_or_more::<usize>)]
    jobs: usize,
    /// Command that runs the lab
    #[arg(long, default_value = "lab/run")]
    lab: String,
    /// Keep the guests' output in DIR, and reuse the runs there that this build made
    #[arg(long, value_name = "DIR")]
    results: Option<std::path::PathBuf>,
    /// Install the Debian packages of missing servers (needs root)
    #[arg(long)]
    install: bool,
}

/// A part of the experiment, with a page of its own.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// The paper's figures
    Drawn,
    /// Every forwarding method with every scheduler
    Schedulers,
    /// How much runs with different seeds differ
    Seeds,
    /// Traffic through the director, and its cost
    Costs,
    /// Many films
    Films,
    /// Squid, Varnish and nginx as the caches
    Servers,
}

impl Part {
    fn setups(self) -> Vec<Setup> {
        match self {
            Part::Drawn => drawn::setups(),
            Part::Schedulers => schedulers::setups(),
            Part::Seeds => seeds::setups(),
            Part::Costs => costs::setups(),
            Part::Films => films::setups(),
            Part::Servers => servers::setups(),
        }
    }

    fn report(self, runs: &[Run]) -> Report {
        match self {
            Part::Drawn => drawn::report(runs),
            Part::Schedulers => schedulers::report(runs),
            Part::Seeds => seeds::report(runs),
            Part::Costs => costs::report(runs),
            Part::Films => films::report(runs),
            Part::Servers => servers::report(runs),
        }
    }
}

/// Runs the experiment with its own arguments.
///
/// # Errors
/// The lab was not found, or a run failed.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let args: Args = arguments("lvscache", args);
    if args.install {
        packages::install(&["squid", "varnish", "nginx"])?;
    }
    let folder = Folder::make("lvscache")?;
    let results = args.results.as_deref().unwrap_or(folder.path());
    let lab = Lab {
        command: args.lab,
        jobs: args.jobs,
        // Absolute, since the lab's tests run in their own folders.
        results: std::path::absolute(results)?,
    };
    Ok(args.only.report(&lab.run(&args.only.setups())?))
}

//! `reelway bench mssc`: the MSSC paper's experiments again, and the same with films.
//!
//! | file | what lives there |
//! |---|---|
//! | `paper.rs` | what the paper measured |
//! | `task.rs`, `run.rs` | what a process is told to do and says of it; starting it |
//! | `sessions.rs`, `traffic.rs` | the ways of others: a packet a call, `sendfile`, batches |
//! | `reel.rs` | Reelway's sender at the same tasks |
//! | `receive.rs` | when the kernel got each packet |
//! | `load.rs` | the overloaded machine |
//! | `count.rs` | system calls by name, as `strace` counts them |
//! | `toy.rs`, `film.rs` | the two halves of the experiment: the paper's sessions, film traffic |
//! | `page.rs` | the page and the charts |

mod load;
mod receive;
mod reel;
mod run;
mod sessions;
mod task;
mod toy;
mod traffic;

use clap::Parser;

use crate::Report;
use crate::bed::{Folder, cores};

/// What the experiment can be told.
#[derive(Debug, Parser)]
#[command(name = "reelway bench mssc", about = "The MSSC paper again: ten sessions idle and overloaded, film traffic, what a packet costs")]
pub struct Args {
    /// Packets of a session
    #[arg(long, default_value_t = 1000)]
    packets: u32,
    /// A tenth of the packets and of the time: for a look, not for figures
    #[arg(long)]
    quick: bool,
    /// A task for this process (the command starts itself with it)
    #[arg(long, hide = true)]
    task: Option<String>,
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let name = "reelway bench mssc".to_owned();
    let mut args = Args::try_parse_from(std::iter::once(&name).chain(args)).unwrap_or_else(|error| error.exit());
    if let Some(task) = &args.task {
        task::work(task)?;
        std::process::exit(0);
    }
    if args.quick {
        args.packets = args.packets.min(100);
    }
    let folder = Folder::make("mssc")?;
    cores::leave_the_servers();
    let mut report = Report::new("mssc");
    let (rows, load) = toy::measure(&args, folder.path())?;
    report.details.insert("sessions".into(), serde_json::to_value(&rows)?);
    report.details.insert("load".into(), serde_json::to_value(&load)?);
    Ok(report)
}

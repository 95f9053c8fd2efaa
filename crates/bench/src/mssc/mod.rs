//! `reelway bench mssc`: the MSSC paper's experiments again, and the same with films.
//!
//! | file | what lives there |
//! |---|---|
//! | `paper.rs` | what the paper measured |
//! | `toy.rs`, `film.rs` | the two halves: the paper's sessions, film traffic |
//! | `count.rs` | system calls by name, as `strace` counts them; sources that work |
//! | `task.rs`, `run.rs` | what a process is told to do and says of it; starting it |
//! | `sessions.rs`, `traffic.rs` | the ways of others: a packet a call, `sendfile`, batches |
//! | `reel.rs` | Reelway's sender at the same tasks |
//! | `receive.rs`, `load.rs` | when the kernel got each packet; the overloaded machine |
//! | `goals.rs` | figures held against their goals |
//! | `page.rs`, `draw.rs` | the page, and its charts |

mod count;
mod draw;
mod film;
mod goals;
mod load;
mod page;
mod paper;
mod receive;
mod reel;
mod run;
mod sessions;
mod task;
mod toy;
mod traffic;

use clap::{Parser, ValueEnum};
use serde::Serialize;

use crate::Report;
use crate::bed::machine::Disturbance;
use crate::bed::{Folder, cores};

/// Arguments of the experiment.
#[derive(Debug, Parser)]
#[command(
    name = "reelway bench mssc",
    about = "The MSSC paper again: ten sessions idle and overloaded, film traffic, what a packet costs"
)]
pub struct Args {
    /// Packets of a session
    #[arg(long, default_value_t = 1000)]
    packets: u32,
    /// Rounds in which the ways are compared
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Seconds of film traffic measured in each run
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Numbers of streams of film traffic
    #[arg(long, value_delimiter = ',', default_values_t = [50, 200, 500, 1000, 2000, 3000])]
    streams: Vec<u32>,
    /// One half only
    #[arg(long)]
    only: Option<Half>,
    /// Few packets, few streams, short runs: for a look, not for figures
    #[arg(long)]
    quick: bool,
    /// A task for this process (the command starts itself with it)
    #[arg(long, hide = true)]
    task: Option<String>,
}

/// Halves of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Half {
    /// The paper's sessions
    Sessions,
    /// Film traffic
    Films,
}

impl Args {
    fn film_seconds(&self) -> f64 {
        if self.quick { 2.0 } else { self.seconds }
    }

    fn streams(&self) -> Vec<u32> {
        if self.quick {
            vec![50, 200]
        } else {
            self.streams.clone()
        }
    }

    fn wants(&self, half: Half) -> bool {
        self.only.is_none_or(|only| only == half)
    }

    /// Tells how far it is.
    fn say(&self, line: &str) {
        eprintln!("{line}");
    }
}

/// Everything measured.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    /// What else the machine did.
    pub disturbance: String,
    /// The paper's sessions.
    pub sessions: Vec<toy::Row>,
    /// What overloaded the machine.
    pub load: Vec<String>,
    /// System calls a packet.
    pub calls: Vec<count::Calls>,
    /// Sources that work.
    pub sources: Vec<count::Sources>,
    /// Film traffic.
    pub films: Option<film::Films>,
}

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let mut args: Args = crate::arguments("mssc", args);
    if let Some(task) = &args.task {
        task::work(task)?;
        std::process::exit(0);
    }
    if args.quick {
        args.packets = args.packets.min(100);
        args.runs = 1;
    }
    // The sessions have a page of their own when they are measured alone.
    let mut report = Report::new(match args.only {
        Some(Half::Sessions) => "mssc-sessions",
        Some(Half::Films) | None => "mssc",
    });
    let disturbance = Disturbance::watch()?;
    let folder = Folder::make("mssc")?;
    cores::leave_the_servers();
    let mut results = Results::default();
    if args.wants(Half::Sessions) {
        let file = folder.path().join("stored-media");
        // Whole blocks, as direct reads want them.
        let bytes = (usize::from(toy::BYTES) * args.packets as usize).next_multiple_of(4096);
        std::fs::write(&file, vec![0x5a; bytes.max(1 << 16)])?;
        results.calls = count::calls(folder.path(), &file)?;
        results.sources = count::sources(folder.path(), &file)?;
        (results.sessions, results.load) = toy::measure(&args, folder.path(), &file)?;
    }
    if args.wants(Half::Films) {
        results.films = Some(film::measure(&args, folder.path())?);
    }
    results.disturbance = disturbance.describe()?;
    goals::judge(&mut report, &results);
    let charts = draw::charts(&results);
    report.title = "The MSSC paper again".into();
    report.note = page::note(&results, &args);
    report.page = page::page(&results, &args, charts.iter().map(|chart| chart.0));
    report.charts = charts
        .into_iter()
        .map(|(name, chart)| (format!("mssc/{name}"), chart))
        .collect();
    if let serde_json::Value::Object(map) = serde_json::to_value(&results)? {
        report.details = map;
    }
    report.text = page::summary(&results);
    Ok(report)
}

//! `reelway bench mssc`: the MSSC paper's experiments again, and the same with films.
//!
//! | file | content |
//! |---|---|
//! | `paper.rs` | the paper's measurements |
//! | `toy.rs`, `film.rs` | the two halves: the paper's sessions, film traffic |
//! | `count.rs` | system calls by name, counted by `strace`; sources that work |
//! | `task.rs`, `work.rs`, `run.rs` | tasks and their results; execution; start of processes |
//! | `sessions.rs`, `traffic.rs` | the ways of others: one packet per call, `sendfile`, batches |
//! | `reel.rs` | Reelway's sender with the same tasks |
//! | `receive.rs`, `load.rs` | when the kernel received each packet; the overloaded machine |
//! | `goals.rs` | figures compared with their goals |
//! | `args.rs`, `results.rs` | the arguments; all results |
//! | `page/`, `draw.rs` | the page, its texts and its charts |

mod args;
mod count;
mod draw;
mod film;
mod goals;
mod load;
mod page;
mod paper;
mod receive;
mod reel;
mod results;
mod run;
mod sessions;
mod task;
mod toy;
mod traffic;
mod work;

use self::args::{Args, Half};
use self::results::Results;
use crate::arguments::arguments;
use crate::bed::machine::Disturbance;
use crate::bed::{Folder, cores};
use crate::report::Report;

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let mut args: Args = arguments("mssc", args);
    if let Some(task) = &args.task {
        work::work(task)?;
        std::process::exit(0);
    }
    if args.quick {
        args.packets = args.packets.min(100);
        args.runs = 1;
    }
    // Sessions that are measured alone have their own page.
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
        // Whole blocks, as direct reads require.
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

//! `reelway bench views`: the cost of views, which transport streams need because their samples are
//! not stored as they are sent, and the cost of indexing a long recording.
//!
//! | file | content |
//! |---|---|
//! | `args.rs` | its arguments |
//! | `day.rs` | a recording of a day: indexing it, opening it from its index file, and seeking |
//! | `asked.rs` | how much of a Matroska file is read to index it |
//! | `serving.rs` | a film served through a view, and the same film in MP4 |

mod args;
mod asked;
mod day;
mod serving;

use self::args::Args;
use crate::arguments::arguments;
use crate::bed::{Folder, packages};
use crate::report::Report;

/// Runs the experiment.
pub fn run(args: &[String]) -> anyhow::Result<Report> {
    let args: Args = arguments("views", args);
    packages::install(&["ffmpeg"])?;
    let mut report = Report::new("views");
    report.title = "Films that are read through a view".into();
    let folder = Folder::make("bench-views")?;
    day::measure(&mut report, folder.path(), args.hours)?;
    asked::measure(&mut report, folder.path())?;
    serving::measure(&mut report, folder.path(), &args)?;
    Ok(report)
}

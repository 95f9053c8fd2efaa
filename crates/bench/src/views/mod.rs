//! `reelway bench views`: what it costs that the samples of transport streams do not lie in their files as they are sent, and
//! what the index of a long recording costs.
//!
//! | file | what lives there |
//! |---|---|
//! | `args.rs` | its arguments |
//! | `day.rs` | a recording of a day: indexed, opened from its index, and sought in |
//! | `asked.rs` | how much of a Matroska file its index is made of |
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

//! `reelway bench views`: what it costs that the samples of transport streams do not lie in their files as they are sent, and
//! what the index of a long recording costs.
//!
//! | file | what lives there |
//! |---|---|
//! | `day.rs` | a recording of a day: indexed, opened from its index, and sought in |
//! | `asked.rs` | how much of a Matroska file its index is made of |
//! | `serving.rs` | a film served through a view, and the same film in MP4 |
//! | `made.rs` | films made by ffmpeg |

mod asked;
mod day;
mod made;
mod serving;

use crate::arguments::arguments;
use crate::bed::{Folder, packages};
use crate::report::Report;

/// What films that are read through a view cost, against the same films in MP4
#[derive(clap::Parser)]
struct Args {
    /// Viewers of one film, and then of as many films
    #[arg(long, default_value_t = 100)]
    viewers: usize,
    /// Seconds that they watch
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Rounds, in each of which every case comes once
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Hours of the long recording
    #[arg(long, default_value_t = 24)]
    hours: u32,
}

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

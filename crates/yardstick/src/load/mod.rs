//! Virtual viewers (the VODCA paper's virtual load): as many as possible on a core. They request
//! films as people do (arrivals, choice of films, watching times, pauses, seeks, fast play), count
//! and time packets, and decode nothing.
//!
//! | file | content |
//! |---|---|
//! | `arrivals.rs`, `plan.rs` | the arrivals and actions of viewers, from a seed; pure |
//! | `run.rs` | the run: starts viewers at their times, and takes a sample every second |
//! | `rtsp.rs` | one viewer's control connection |
//! | `receiver.rs`, `viewing.rs` | threads that receive for thousands; results of one viewer |
//! | `probe.rs` | the error of the yardstick's own timestamps |
//! | `sources.rs` | the source addresses of viewers; pure |
//! | `limit.rs` | the search for the largest number of viewers; pure |
//! | `sample.rs`, `story.rs` | the results of each second, and of the whole run |

mod arrivals;
mod limit;
mod plan;
mod probe;
mod receiver;
mod rtsp;
mod run;
pub(crate) mod sample;
mod sources;
mod story;
mod viewing;

pub use arrivals::{Arrivals, PlannedVisit};
pub use limit::{Bisection, Limit};
pub use plan::{Choice, Deed, Habits, Plan, Visit, Watch};
pub use run::{Options, run};
pub use sample::Sample;
pub use sources::Sources;
pub use story::{LoadStory, ViewerStory};

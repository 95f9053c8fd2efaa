//! Virtual viewers (the VODCA paper's virtual load): as many as possible on a core. They ask for films
//! as people do (who comes when, which film, for how long, who pauses, seeks, plays fast), count and time
//! what comes, and decode nothing.
//!
//! | file | what lives there |
//! |---|---|
//! | `arrivals.rs`, `plan.rs` | who comes when and does what, from a seed; pure |
//! | `run.rs` | the run: viewers begin when they are due, a sample is taken every second |
//! | `rtsp.rs` | one viewer's control connection |
//! | `receiver.rs`, `viewing.rs` | threads that receive for thousands; what one viewer got |
//! | `probe.rs` | how wrong the yardstick's own times are |
//! | `sources.rs` | which addresses they come from; pure |
//! | `limit.rs` | the search for the largest number; pure |
//! | `sample.rs`, `story.rs` | what is told of each second, and in the end |

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

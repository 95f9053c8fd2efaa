//! The simulator: what each policy would have missed of the same requests.
//!
//! | file | what lives there |
//! |---|---|
//! | `requests.rs` | requests in the order of time, from wherever they come |
//! | `workload.rs` | made requests: films, viewers, seeks |
//! | `run.rs` | a policy, or Belady's optimum, through all requests |
//! | `random.rs` | random numbers from a seed |

mod random;
mod requests;
mod run;
mod workload;

pub use requests::{Event, Requests};
pub use run::{Outcome, belady, run};
pub use workload::{Workload, WorkloadError};

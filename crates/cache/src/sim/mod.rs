//! The simulator: what each policy would have missed of the same requests.
//!
//! | file | what lives there |
//! |---|---|
//! | `requests.rs` | requests in the order of time, from wherever they come |
//! | `workload.rs` | made requests: films, viewers, seeks |
//! | `trace.rs` | requests from a file and into one |
//! | `run.rs` | a policy, or Belady's optimum, through all requests |
//! | `random.rs` | random numbers from a seed |

mod random;
mod requests;
mod run;
mod trace;
mod workload;

pub use requests::{Event, Requests};
pub use run::{Outcome, belady, run, told};
pub use trace::{TraceError, read_csv, read_oracle_general, write_csv};
pub use workload::{Workload, WorkloadError};

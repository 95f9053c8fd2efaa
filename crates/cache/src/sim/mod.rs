//! The simulator: what each policy would have missed of the same requests.
//!
//! | file | content |
//! |---|---|
//! | `requests.rs` | requests ordered by time, from any source |
//! | `workload.rs` | generated requests: films, viewers, seeks |
//! | `trace.rs` | requests read from and written to files |
//! | `run.rs` | runs a policy, or Belady's optimum, over all requests |
//! | `bound.rs` | a bound for policies that do not know the future |

mod bound;
mod requests;
mod run;
mod trace;
mod workload;

pub use bound::bound;
pub use requests::{Event, Requests};
pub use run::{Outcome, belady, run, told};
pub use trace::{TraceError, read_csv, read_oracle_general, read_vscsi, write_csv};
pub use workload::{Workload, WorkloadError};

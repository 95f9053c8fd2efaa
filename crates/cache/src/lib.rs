//! Replacement policies: which cached block to evict.
//!
//! The policies share one small trait ([`Policy`]). The store uses them in a running server, the
//! simulator on simulated time. Pure: no I/O, no clock, no randomness of its own; the time is
//! passed with each call.
//!
//! | file | content |
//! |---|---|
//! | `policy.rs` | the trait, and the information about viewers that a policy receives |
//! | `spec.rs` | policies by name, with their parameters |
//! | `lists.rs` | blocks in linked lists whose links are indices: the basis of most policies |
//! | `ghosts.rs`, `sketch.rs` | evicted blocks that are remembered; how often any block was used |
//! | `lru.rs` … | the policies, one per file |
//! | `timetable/` | the policy that knows the viewers |
//! | `sim/` | generated requests, and how many of them each policy or Belady's optimum misses |
#![forbid(unsafe_code)]

mod arc;
mod fbr;
mod ghosts;
mod lfu;
mod lists;
mod lru;
mod lru_k;
mod ons;
mod policy;
mod s3_fifo;
mod sieve;
pub mod sim;
mod sketch;
mod slru;
mod spec;
mod timetable;
mod two_q;
mod w_tiny_lfu;

pub use policy::{BlockId, Film, FilmId, Policy, Slot, ViewerId, Watching};
pub use spec::{Spec, SpecError};

//! Which cached block to evict.
//!
//! What lives here: replacement policies behind one small trait ([`Policy`]). The store asks them in a
//! running server, the simulator on simulated time. Pure: no I/O, no clock, no randomness of its own;
//! time comes in with each call.
//!
//! | file | what lives there |
//! |---|---|
//! | `policy.rs` | the trait, and the information about viewers that a policy may get |
//! | `spec.rs` | policies by name, with their parameters |
//! | `lists.rs` | blocks in linked lists whose links are indices: what most policies are made of |
//! | `ghosts.rs`, `sketch.rs` | blocks remembered after they left; how often any block was used |
//! | `lru.rs` … | the policies, one per file |
//! | `timetable/` | the policy that knows the viewers |
//! | `sim/` | generated requests, and what each policy or Belady's optimum misses of them |
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

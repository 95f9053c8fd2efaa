//! The time: the only place in Reelway that reads a clock.
//!
//! All other crates take [`now`] or [`real`] from here (a lint forbids `Instant::now` and
//! `SystemTime::now` elsewhere), so that the sender's deadlines, admission's calendar and the
//! yardstick's judgement share one time scale. Code that must run on simulated time takes the time
//! as an argument instead.
//!
//! The time is read from the processor's counter, without the kernel, and kept in step with the
//! kernel's clock; if the counter cannot be trusted, the kernel's clock is used. Which function to
//! use:
//!
//! | | for | never goes back |
//! |---|---|---|
//! | [`now`], [`real`], [`boot`] | everything | across all threads |
//! | [`now_unordered`] | intervals of one thread's own work | within the thread |
//! | [`turn`], [`coarse`] | many decisions in one turn of a loop | constant within a turn |
//! | [`now_with_error`] | measuring | across all threads |
//!
//! | file | content |
//! |---|---|
//! | `system.rs` | the clock of this process, as other crates use it |
//! | `process.rs` | the same, as used by the preload library |
//! | `trust.rs`, `cross.rs` | whether the counter can be trusted; the comparison of all processors' counters |
//! | `track/` | following a kernel clock with the counter |
//! | `ring.rs`, `piece.rs` | the pieces of the followed clock in shared memory: a sequence lock |
//! | `kernel.rs` | the kernel's clock |
//! | `reactor.rs` | how long tasks occupy the reactor's threads |
//!
//! The time types are those of `reelway-time`. `docs/design/clock.md` explains how it works and how
//! accurate it is.
#![forbid(unsafe_code)]

mod cross;
mod kernel;
mod piece;
pub mod process;
pub mod reactor;
mod ring;
mod system;
mod track;
pub mod trust;

pub use cross::Crossing;
pub use kernel::KernelClock;
pub use reelway_time::{Boot, Monotonic, Real};
pub use system::{
    Conversion, Report, Words, boot, coarse, now, now_unordered, now_with_error, on_change, real,
    report, start, turn, words,
};
pub use track::{Event, Statistics};

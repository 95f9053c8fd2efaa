//! Moments of the machine's clocks, and pure functions on them.
//!
//! No clock is read here, so pure crates may take moments as arguments; `reelway-clock` returns the
//! current moment.
//!
//! | file | content |
//! |---|---|
//! | `moment.rs` | moments of the monotonic, real and boot-time clocks |
//! | `listening.rs` | standstills of the server, during which silence does not count |
#![forbid(unsafe_code)]

mod listening;
mod moment;

pub use listening::{Listening, excused};
pub use moment::{Boot, Monotonic, Real};

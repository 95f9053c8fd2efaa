//! Moments of the machine's clocks, and what follows from them alone.
//!
//! No clock is read here, so a pure crate may have moments as arguments; `reelway-clock` says what the moment is.
//!
//! | file | contents |
//! |---|---|
//! | `moment.rs` | moments of the monotonic, the real and the boot time |
//! | `listening.rs` | a standstill of the server, during which nobody's silence counts |
#![forbid(unsafe_code)]

mod listening;
mod moment;

pub use listening::{Listening, excused};
pub use moment::{Boot, Monotonic, Real};

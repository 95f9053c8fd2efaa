//! A lane: all streams of one thread, processed turn by turn.
//!
//! In each turn the streams that are due are walked in the order of their places in memory, some at
//! a time, and the packets that they may send are handed to the caller:
//!
//! ```text
//!  turn ─▶ poll ─▶ packets to be sent ─▶ taken ─▶ settle ─┐      next_lost ─▶ resent ─┐
//!           ▲                                             │         ▲                 │
//!           └──────────── until nothing is due ───────────┘         └─────────────────┘
//! ```
//!
//! After each call, the caller fetches the effects to be carried out with [`Lane::effect`].
//!
//! | file | content |
//! |---|---|
//! | `body.rs` | the lane's state: places, and when streams are due |
//! | `state.rs` | the state of a turn, of waiting streams and of retransmission |
//! | `commands.rs` | the caller's commands for streams |
//! | `walk.rs` | a turn |
//! | `waiting.rs` | streams that wait for room on a limited link |
//! | `lost.rs` | retransmission, after all packets that are due |

mod body;
mod commands;
mod lost;
mod state;
mod waiting;
mod walk;

pub use body::Lane;
pub use lost::Lost;
pub use walk::{JOBS, Job};

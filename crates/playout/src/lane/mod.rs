//! A lane: all streams of one thread, turn by turn.
//!
//! In each turn the streams that are due in it are walked in the order of their places in memory, some at a time, and what
//! they may send is handed to the caller:
//!
//! ```text
//!  turn ─▶ poll ─▶ packets to be sent ─▶ taken ─▶ settle ─┐      next_lost ─▶ resent ─┐
//!           ▲                                             │         ▲                 │
//!           └──────────── until nothing is due ───────────┘         └─────────────────┘
//! ```
//!
//! Whatever is called, what is to be done outside is asked for afterwards with [`Lane::effect`].
//!
//! | file | what lives there |
//! |---|---|
//! | `body.rs` | the lane's memory: places, who is due when |
//! | `state.rs` | what it keeps of a turn, and of who waits |
//! | `commands.rs` | what the caller tells of streams |
//! | `walk.rs` | a turn |
//! | `waiting.rs` | streams that wait for room on a limited link |
//! | `lost.rs` | packets that are sent again, behind all that is due |

mod body;
mod commands;
mod lost;
mod state;
mod waiting;
mod walk;

pub use body::Lane;
pub use lost::Lost;
pub use walk::{JOBS, Job};

//! What leaves next of which stream, and when.
//!
//! Pure: the moment comes in with each call, bytes of films are whatever the caller keeps in memory ([`InMemory`]), and
//! nobody is called back. The crate `sender` gives it threads, sockets and the block pool.
//!
//! | file | what lives there |
//! |---|---|
//! | `outline.rs`, `cut.rs` | what is sent, group by group: a film, or a plain file cut into packets |
//! | `making.rs` | which bytes a group needs, and how it becomes packets |
//! | `group.rs` | a group in memory |
//! | `kept.rs` | plans of groups that nobody sends at the moment |
//! | `cursor.rs` | where a viewer stands in a track |
//! | `again.rs` | lost packets, found on the timetable |
//! | `pacing.rs` | which packets may leave when |
//! | `wheel.rs` | which streams are due in which turn |
#![forbid(unsafe_code)]

mod again;
mod cursor;
mod cut;
mod error;
mod group;
mod kept;
mod making;
mod outline;
mod pacing;
mod wheel;

pub use again::{Again, PacketPlace, Resend, Trail};
pub use cursor::{Cursor, Head, Unit};
pub use cut::Cut;
pub use error::StreamError;
pub use group::{Group, InMemory};
pub use kept::Kept;
pub use making::{GroupPlan, Wanted};
pub use outline::{GroupId, Outline};
pub use pacing::{MOST_IN_TURN, Pace, Slice, TURN, Window};
pub use wheel::Wheel;

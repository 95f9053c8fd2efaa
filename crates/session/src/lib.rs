//! A viewer of any protocol.
//!
//! What lives here: who watches what, since when, how far; when a viewer without a sign of life is
//! given up; whether a newcomer may come in ([`Gate`], which asks [`reelway_admission`]), and as whom ([`Users`]; access
//! rules will find their place beside it); and the one line of the log that tells a session's story. Protocols
//! open a [`Session`], say signs of life, and are called when it is ended by somebody else.
#![forbid(unsafe_code)]

mod following;
mod gate;
mod identity;
mod links;
mod listing;
mod members;
mod needs;
mod patience;
mod registry;
mod session;
mod sharing;
mod unplayed;
mod users;
mod view;

pub use gate::{Gate, GateConfig};
pub use identity::{new_connection, new_token};
pub use links::{Link, Links};
pub use listing::Wanted;
pub use members::Members;
pub use needs::{WHOLE_NETWORK, Wants};
pub use patience::{in_patience, last_look, patience};
pub use reelway_admission::Resource;
pub use registry::{Limits, NewSession, Protocol, Refusal, Sessions};
pub use session::{EndReason, Session};
pub use users::Users;
pub use view::{Moment, Progress, SessionView, State};

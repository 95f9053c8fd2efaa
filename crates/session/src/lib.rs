//! Viewers of all protocols.
//!
//! This crate tracks who watches what, since when and how far, and when a viewer without a sign of
//! life is given up. It has the shell of admission ([`Gate`]: the lock, clock and thread around
//! [`reelway_admission::Desk`]), users' identities ([`Users`]; access rules will be added beside
//! it), and the log line that summarises each session. Protocols open a [`Session`], report signs
//! of life, and are called when others end it. Verdicts are made by admission.
#![forbid(unsafe_code)]

mod end_reason;
mod gate;
mod identity;
mod indexes;
mod links;
mod listing;
mod metrics;
mod newcomer;
mod patience;
mod protocol;
mod register;
mod session;
mod sessions;
mod users;
mod view;

pub use end_reason::EndReason;
pub use gate::{Books, Gate, GateConfig};
pub use identity::{new_connection, new_token};
pub use links::{Link, Links};
pub use listing::Wanted;
pub use newcomer::NewSession;
pub use patience::{in_patience, last_look, patience};
pub use protocol::Protocol;
pub use reelway_admission::{Members, Refusal, Resource, WHOLE_NETWORK, Wants};
pub use session::Session;
pub use sessions::{Limits, Sessions};
pub use users::Users;
pub use view::{Moment, Progress, SessionView, State};

//! A viewer of any protocol.
//!
//! What lives here: who watches what, since when, how far; when a viewer without a sign of life is
//! given up; whether a newcomer may come in ([`Admit`], where admission by resources and access
//! rules find their place); and the one line of the log that tells a session's story. Protocols
//! open a [`Session`], say signs of life, and are called when it is ended by somebody else.
#![forbid(unsafe_code)]

mod identity;
mod registry;
mod session;
mod view;

pub use identity::new_token;
pub use registry::{Admit, Limits, NewSession, Protocol, Refusal, Sessions};
pub use session::{EndReason, Session};
pub use view::{Progress, SessionView, State};

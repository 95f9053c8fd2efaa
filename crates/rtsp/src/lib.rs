//! RTSP 1.0 (RFC 2326): how players of the older kind ask for a film.
//!
//! Two parts. The pure one understands messages ([`parser`], [`target`], [`header`]) and decides
//! what to do ([`machine`]); it is told what happens and when, and says what is to be done. The thin
//! one has the sockets and the timers. What the machine needs of the other rooms is named in
//! [`seam`].
#![forbid(unsafe_code)]

pub mod config;
pub mod header;
pub mod machine;
pub mod message;
pub mod parser;
pub mod response;
pub mod seam;
mod shell;
pub mod target;
pub mod watch;

pub use config::RtspConfig;
pub use shell::{BindError, RtspServer};

//! RTSP 1.0 (RFC 2326): how players of the older kind ask for a film.
//!
//! Two parts. The pure one understands messages ([`parser`], [`target`], [`header`]) and decides
//! what to do; it is told what happens and when, and says what is to be done. The thin one has the
//! sockets and the timers.
#![forbid(unsafe_code)]

pub mod config;
pub mod header;
pub mod message;
pub mod parser;
pub mod response;
pub mod target;

pub use config::RtspConfig;

//! RTSP 1.0 (RFC 2326): how players of the older kind ask for a film.
//!
//! Pure: no sockets, threads or clock. It understands messages ([`parser`], [`target`], [`header`]) and decides what to
//! do ([`machine`]): what happens comes in with its time, what is to be done comes out. Both sides speak in the values
//! of [`seam`]. The server around it is the crate `reelway-rtsp-server`.
#![forbid(unsafe_code)]

pub mod config;
pub mod film;
pub mod header;
pub mod machine;
pub mod message;
pub mod parser;
pub mod response;
pub mod seam;
pub mod target;

pub use config::RtspConfig;

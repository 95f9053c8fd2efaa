//! RTSP 1.0 (RFC 2326), for players that request films over RTSP.
//!
//! The crate is pure: no sockets, threads or clock. It parses messages ([`parser`], [`target`],
//! [`header`]) and decides what to do ([`machine`]): events with their times come in, actions come
//! out. Both are made of the values of [`seam`]. The server around it is the crate
//! `reelway-rtsp-server`.
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

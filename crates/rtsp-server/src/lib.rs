//! The RTSP server: sockets, timers, and the code that carries out the state machine's actions.
//!
//! The pure machine of [`reelway_rtsp`] decides what is done and in which order; this crate carries
//! it out.
//!
//! | file | content |
//! |---|---|
//! | `server.rs` | listeners, connection limits, the tick once a second |
//! | `connection.rs` | one connection: reading, deadlines, closing |
//! | `hub.rs` | the machine, and the execution of its actions and jobs |
//! | `services.rs` | films and streams in the machine's terms, backed by the real ones |
//! | `stream.rs` | a stream of the sender |
//! | `watch.rs` | a session's progress as the register sees it |
#![forbid(unsafe_code)]

mod connection;
mod hub;
mod server;
mod services;
mod stream;
mod watch;

pub use reelway_rtsp::RtspConfig;
pub use server::{BindError, RtspServer};

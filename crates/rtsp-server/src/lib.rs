//! The RTSP server: sockets, timers, and the way from the state machine's actions to the rest of the server.
//!
//! What is decided, and in which order, is decided by the pure machine of [`reelway_rtsp`]; here it is carried out.
//!
//! | file | contents |
//! |---|---|
//! | `server.rs` | listeners, limits of connections, the second's tick |
//! | `connection.rs` | one connection: reading, deadlines, the end |
//! | `hub.rs` | the machine, and what carries out its actions and jobs |
//! | `services.rs` | films and streams as the machine knows them, made of the real ones |
//! | `stream.rs` | a stream of the sender |
//! | `watch.rs` | what others see of a session |
#![forbid(unsafe_code)]

mod connection;
mod hub;
mod server;
mod services;
mod stream;
mod watch;

pub use reelway_rtsp::RtspConfig;
pub use server::{BindError, RtspServer};

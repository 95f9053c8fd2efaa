//! The thin part: sockets, timers, and the way from the machine's actions to the other rooms.
//!
//! | file | what lives there |
//! |---|---|
//! | `server.rs` | listeners, who may connect, the second's tick |
//! | `connection.rs` | one connection: reading, deadlines, the end |
//! | `hub.rs` | the machine and those who carry out what it says |
//! | `library.rs` | films and streams as the machine knows them, made of the real ones |
//! | `guests.rs` | how many connections there are, and of whom |

mod connection;
mod guests;
mod hub;
mod library;
mod server;

pub use server::{BindError, RtspServer};

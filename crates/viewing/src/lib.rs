//! Viewers over HTTP: who they are, where they are in a film, which windows of it they are sent, and how fast.
//!
//! Pure: no clock, no lock, no socket, and nobody is called back. The moment comes in with each call, and what follows comes
//! out as values. The crate `http` has the sockets and carries them out.
//!
//! | file | what lives there |
//! |---|---|
//! | `pace.rs` | how fast media leave |
#![forbid(unsafe_code)]

mod pace;

pub use pace::{Beyond, Pace, Pacer};

//! Viewers over HTTP: who they are, where they are in a film, which windows of it they are sent, and how fast.
//!
//! Pure: no clock, no lock, no socket, and nobody is called back. The moment comes in with each call, and what follows comes
//! out as values. The crate `http` has the sockets and carries them out.
//!
//! | file | what lives there |
//! |---|---|
//! | `viewer.rs`, `flow.rs` | a viewer: where they are in the film, and what they ask for |
//! | `pace.rs` | how fast media leave |
//! | `window.rs` | how much is read, pinned and sent at once |
#![forbid(unsafe_code)]

mod flow;
mod pace;
mod viewer;
mod window;

pub use pace::{Beyond, Pace, Pacer};
pub use viewer::{Doing, FILE, Moved, Piece, Progress, Viewer};
pub use window::{Budget, COPIED, LONGEST_WAIT, Leave, WIDE, pinned_blocks};

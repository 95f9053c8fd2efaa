//! Viewers over HTTP: who they are, where they are in a film, which windows of it they are sent,
//! and how fast.
//!
//! Pure: no clock, locks, sockets or callbacks. The current time is passed to each call, and
//! results are returned as values. The crate `http` owns the sockets and carries them out.
//!
//! | file | content |
//! |---|---|
//! | `viewers.rs`, `token.rs` | who the viewers are, and how they are recognised |
//! | `viewer.rs`, `flow.rs` | one viewer: position in the film, and requests |
//! | `pace.rs` | how fast media is sent |
//! | `spare.rs`, `wire.rs` | how downloads share unbooked capacity |
//! | `windows.rs`, `budget.rs` | what is read, pinned and sent at once, and how much of it |
//! | `copies.rs` | which blocks have copies that sockets may keep |
#![forbid(unsafe_code)]

mod budget;
mod copies;
mod flow;
mod pace;
mod spare;
mod token;
mod viewer;
mod viewers;
mod windows;
mod wire;

pub use budget::{Budget, COPIED, LONGEST_WAIT, Leave, WIDE, pinned_blocks};
pub use copies::{Copies, Epoch, FrameNumber, Sent};
pub use pace::{Beyond, Pace, Pacer, Standing};
pub use spare::{Download, Spares};
pub use token::{TOKEN_LENGTH, bearer, is_secret, is_token};
pub use viewer::{Doing, FlowKind, Moved, Piece, Progress, Viewer};
pub use viewers::{
    Caller, Delivery, Denied, End, Entry, Film, Key, KnownCaller, Mismatch, Present, Viewers,
};
pub use windows::{Gather, Next, Window, Windows};
pub use wire::on_wire;

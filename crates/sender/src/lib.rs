//! Streams: handed over once, then sent packet by packet at their times while their owner sleeps.
//!
//! [`Sender::play`] takes a [`Stream`] (a film on its timetable, or any file at an interval) and gives
//! a [`StreamHandle`] that pauses, seeks, stops and reports. What happens in between is this room's:
//!
//! ```text
//!  play ─▶ planner threads ──plans──▶ sender threads, 1 ms turns ──▶ UDP, or the one FrameWriter
//!             ▲    │ bytes                  │ next group, just in time     of an RTSP connection
//!             │    ▼                        │
//!             │  store ◀────────────────────┘
//! ```
//!
//! A sender thread never waits for a disk, an index or another viewer: what is not there when it is
//! due makes that one stream late. **Within any millisecond a UDP stream sends at most `burst` packets,
//! or what its frame's rate needs if that is more**, whatever happened before. Streams go over to
//! another thread when that has many fewer. A fault of ours in a thread ends its streams with a word;
//! the thread goes on with new ones.
//!
//! | file | what lives there |
//! |---|---|
//! | `stream.rs`, `config.rs`, `handle.rs`, `sender.rs` | what others see |
//! | `plans.rs`, `planner.rs` | groups, made once, shared by all viewers |
//! | `active.rs`, `active/`, `shared.rs` | a stream as a sender thread has it; what others see of it |
//! | `resend.rs`, `resending.rs` | lost packets, sent again from the timetable |
//! | `share.rs`, `active/slow.rs` | what viewers who do not read, or ask for lost packets, may pin |
//! | `thread.rs`, `thread/`, `inbox.rs` | the turns, what a thread is told, who goes over to another |
//! | `send.rs`, `backend.rs` | packets put together, and the ways to the kernel |
//! | `link.rs`, `active/on_link.rs`, `thread/waiting.rs` | limited links: one pacer each, for all threads |
//! | `departure.rs` | where the kernel holds packets until their time |
//! | `histogram.rs` | how late packets left |
//! | `writer.rs` | the one writer of a TCP connection |
//! | `rtcp.rs` | reports from viewers |
//!
//! What leaves next and when (places in groups, pacing, the wheel of turns) is worked out by the pure crate `playout`.
#![forbid(unsafe_code)]

mod active;
mod backend;
mod config;
mod departure;
mod handle;
mod histogram;
mod inbox;
mod link;
mod planner;
mod plans;
mod resend;
mod resending;
mod rtcp;
mod send;
mod sender;
mod share;
mod shared;
mod stream;
mod thread;
mod writer;

pub use config::{BackendChoice, SenderConfig, SenderError};
pub use handle::StreamHandle;
pub use histogram::{Lateness, LatenessCounts};
pub use link::LinkConfig;
pub use reelway_playout::{Again, StreamError};
pub use sender::Sender;
pub use share::reserved_blocks;
pub use stream::{
    FileStream, FilmStream, Out, PlayInfo, Progress, Reception, SenderStats, State, Stream,
    StreamEvent, TrackInfo, TrackOut, What,
};
pub use writer::{FrameWriter, WriterError};

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
//! | `streams.rs`, `path.rs`, `shared.rs` | what is kept with a stream; what others see of it |
//! | `route.rs` | the way to a viewer |
//! | `share.rs` | what viewers who do not read, or ask for lost packets, may pin |
//! | `thread/`, `inbox.rs`, `counters.rs` | the turns, what a thread is told and has done |
//! | `packets.rs`, `backend.rs` | packets put together, and the ways to the kernel |
//! | `links.rs` | limited links: one pacer each, for all threads |
//! | `departure.rs` | where the kernel holds packets until their time |
//! | `histogram.rs` | how late packets left |
//! | `stats.rs` | the counts of all threads, rates of the last seconds, metrics |
//! | `writer.rs` | the one writer of a TCP connection |
//! | `rtcp.rs`, `reporter.rs` | reports from viewers, and to them |
//!
//! What leaves next and when is worked out by the pure crate `playout`: each thread has one of its lanes.
#![forbid(unsafe_code)]

mod backend;
mod config;
mod counters;
mod departure;
mod handle;
mod histogram;
mod inbox;
mod links;
mod packets;
mod path;
mod planner;
mod plans;
mod reporter;
mod route;
mod rtcp;
mod sender;
mod share;
mod shared;
mod stats;
mod stream;
mod streams;
mod thread;
mod writer;

pub use config::{BackendChoice, SenderConfig, SenderError};
pub use handle::StreamHandle;
pub use histogram::{Lateness, LatenessCounts};
pub use links::LinkConfig;
pub use reelway_playout::{Again, PlayInfo, State, StreamError, TrackInfo};
pub use sender::Sender;
pub use share::reserved_blocks;
pub use stats::{Activity, Recent, SenderStats};
pub use stream::{
    FileStream, FilmStream, Out, Progress, Reception, Stream, StreamEvent, StreamKind, TrackOut,
};
pub use writer::{FrameWriter, WriterError};

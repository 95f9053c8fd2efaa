//! Sends streams: handed over once, a stream is sent packet by packet on time while its owner
//! sleeps.
//!
//! [`Sender::play`] takes a [`Stream`] (a film on its timetable, or any file at a fixed interval)
//! and returns a [`StreamHandle`] that pauses, seeks, stops and reports. This crate does everything
//! in between:
//!
//! ```text
//!  play ─▶ planner threads ──plans──▶ sender threads, 1 ms turns ──▶ UDP, or the one FrameWriter
//!             ▲    │ bytes                  │ next group, just in time     of an RTSP connection
//!             │    ▼                        │
//!             │  store ◀────────────────────┘
//! ```
//!
//! A sender thread never waits for a disk, an index or another viewer: data that is missing when it
//! is due delays only that stream. **Within any millisecond a UDP stream sends at most `burst`
//! packets, or as many as its frame's rate needs if that is more**, whatever happened before.
//! Streams move to another thread if it has far fewer. A panic in a thread ends its streams with an
//! error, and the thread continues with new ones.
//!
//! | file | contents |
//! |---|---|
//! | `stream.rs`, `config.rs`, `handle.rs`, `sender.rs` | the public interface |
//! | `plans.rs`, `planner.rs` | groups, made once, shared by all viewers |
//! | `streams.rs`, `path.rs`, `shared.rs` | what is kept with a stream, and its public state |
//! | `route.rs` | the socket and address for a viewer |
//! | `share.rs` | memory for viewers who do not read and for retransmission |
//! | `thread/`, `inbox.rs`, `counters.rs` | turns, commands and counters of a thread |
//! | `packets.rs`, `backend.rs` | building packets, and passing them to the kernel |
//! | `links.rs` | limited links: one pacer each, for all threads |
//! | `departure.rs` | whether the kernel holds packets until their departure times |
//! | `histogram.rs` | packet lateness |
//! | `stats.rs` | counts of all threads, rates over the last seconds, metrics |
//! | `writer.rs` | the only writer of a TCP connection |
//! | `rtcp.rs`, `reporter.rs` | reports from viewers, and to them |
//!
//! The pure crate `playout` computes what leaves next and when: each thread has one of its lanes.
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

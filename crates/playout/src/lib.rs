//! Decides which packets of which stream leave next, and when.
//!
//! A [`Lane`] holds all streams of one sender thread. The crate is pure: the time is an argument of
//! each call, the bytes of films are of a type of the caller's ([`InMemory`]), and work outside of
//! the lane is returned as an [`Effect`]. The crate `sender` provides threads, sockets and the
//! block pool.
//!
//! | file | content |
//! |---|---|
//! | `beginning.rs` | where playback begins for a requested position |
//! | `outline.rs`, `cut.rs` | the content, group by group: a film, or a plain file cut into packets |
//! | `making.rs` | which bytes a group needs, and how it becomes packets |
//! | `group.rs`, `groups.rs` | a group in memory; which groups are ready, and which streams wait for the others |
//! | `kept.rs` | plans of groups that no stream sends at the moment |
//! | `cursor.rs` | a viewer's position in a track |
//! | `again.rs` | lost packets, looked up in the timetable |
//! | `stream/` | a stream: all tracks of one viewer |
//! | `lane/` | the streams of a thread, processed turn by turn |
//! | `host.rs`, `effect.rs` | the types that the caller supplies; what the caller has to do |
//! | `play.rs`, `rules.rs`, `frames.rs`, `lateness.rs` | inputs and results |
//! | `link/` | limited links: one pacer each, shared by all lanes |
//! | `pacing.rs` | how many packets may leave when |
//! | `wheel.rs` | which streams are due in which turn |
#![forbid(unsafe_code)]

mod again;
mod beginning;
mod cursor;
mod cut;
mod effect;
mod error;
mod frames;
mod group;
mod groups;
mod host;
mod kept;
mod lane;
mod lateness;
mod link;
mod making;
mod outline;
mod pacing;
mod play;
mod rules;
mod stream;
mod wheel;

pub use again::{Again, PacketPlace, Resend, Trail};
pub use beginning::{Beginning, PRIMING, TrackBeginning};
pub use cursor::{Cursor, Head, Unit};
pub use cut::Cut;
pub use effect::{Effect, Want};
pub use error::StreamError;
pub use frames::{Frame, TCP_PACKETS};
pub use group::{Group, InMemory};
pub use groups::{GroupKey, Groups, Lookup};
pub use host::{Host, Prefetch, Script, Share};
pub use kept::Kept;
pub use lane::{JOBS, Job, Lane, Lost};
pub use lateness::{LATENESS_BOUNDS, Lateness};
pub use link::{Link, Others, Way};
pub use making::{GroupPlan, Wanted};
pub use outline::{GroupId, Outline};
pub use pacing::{HOLD, MOST_IN_TURN, Pace, Slice, TURN, Window};
pub use play::{Mishaps, PlayInfo, State, StreamId, Tally, TrackInfo};
pub use rules::{Due, Rules};
pub use stream::{NewStream, OnLink, Stream, Track};
pub use wheel::Wheel;

//! What leaves next of which stream, and when.
//!
//! A [`Lane`] is all streams of one sender thread. Pure: the moment comes in with each call, bytes of films are whatever the
//! caller keeps in memory ([`InMemory`]), and what is to be done outside is told as an [`Effect`]. The crate `sender` gives it
//! threads, sockets and the block pool.
//!
//! | file | what lives there |
//! |---|---|
//! | `beginning.rs` | where a play begins that is wished for |
//! | `outline.rs`, `cut.rs` | what is sent, group by group: a film, or a plain file cut into packets |
//! | `making.rs` | which bytes a group needs, and how it becomes packets |
//! | `group.rs`, `groups.rs` | a group in memory; which are ready, and who waits for which |
//! | `kept.rs` | plans of groups that nobody sends at the moment |
//! | `cursor.rs` | where a viewer stands in a track |
//! | `again.rs` | lost packets, found on the timetable |
//! | `stream/` | a stream: all tracks of a viewer |
//! | `lane/` | the streams of a thread, turn by turn |
//! | `host.rs`, `effect.rs` | what the caller keeps, and does |
//! | `play.rs`, `rules.rs`, `frames.rs`, `lateness.rs` | what goes in and out |
//! | `link/` | limited links: one pacer each, for all lanes |
//! | `pacing.rs` | which packets may leave when |
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

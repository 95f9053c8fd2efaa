//! A stream in its lane: its state, its position, and the packets that it may send now.
//!
//! | file | content |
//! |---|---|
//! | `body.rs` | the stream's state and common accessors |
//! | `track.rs` | a track of the stream |
//! | `beginning.rs` | beginning, pausing, seeking, ending |
//! | `playing.rs` | which packets may leave now, and when to look again |
//! | `behind.rs` | leaving out frames and moving the timetable when the stream is late |
//! | `connection.rs`, `slow.rs` | a TCP connection, and what is kept while it takes no more |
//! | `over_link.rs`, `on_link.rs` | a stream on limited links, and its share of them |
//! | `lost.rs` | retransmission |
//! | `near.rs` | prefetching what a turn will read |

mod beginning;
mod behind;
mod body;
mod connection;
mod lost;
mod near;
mod on_link;
mod over_link;
mod playing;
mod slow;
mod track;

pub use body::{NewStream, Stream};
pub use on_link::OnLink;
pub use track::Track;

//! A stream as its lane has it: what it does, where it stands, what it may send now.
//!
//! | file | what lives there |
//! |---|---|
//! | `body.rs` | the stream's memory, and what is asked of it everywhere |
//! | `track.rs` | a track of it |
//! | `beginning.rs` | beginning, standing still, going elsewhere, ending |
//! | `playing.rs` | which packets may leave now, and when to look again |
//! | `behind.rs` | what is left out, or moved, when the stream is late |
//! | `connection.rs`, `slow.rs` | a connection, and what is kept while it takes no more |
//! | `over_link.rs`, `on_link.rs` | a stream on limited links, and what it takes of them |
//! | `lost.rs` | packets that are sent again |
//! | `near.rs` | what a turn will read, fetched before |

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

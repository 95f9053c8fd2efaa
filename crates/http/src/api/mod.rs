//! The control API, as described in docs/reference/api.md.
//!
//! | file | content |
//! |---|---|
//! | `reply.rs` | requests for texts: their client, and the desk that makes the text |
//! | `json.rs` | JSON values |
//! | `films.rs`, `film.rs`, `tracks.rs` | the list of films, one film, its tracks |
//! | `sessions.rs` | viewers of all protocols |
//! | `node.rs` | the server as a whole |
//! | `admission.rs`, `cache.rs` | bookings; contents of the cache |
//! | `events.rs`, `feed.rs` | changes as they happen |

pub(crate) mod admission;
pub(crate) mod cache;
pub(crate) mod events;
mod feed;
pub(crate) mod film;
pub(crate) mod films;
mod json;
pub(crate) mod node;
pub(crate) mod reply;
pub(crate) mod sessions;
mod tracks;

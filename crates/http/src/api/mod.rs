//! The control API: docs/reference/api.md, put into practice.
//!
//! | file | what lives there |
//! |---|---|
//! | `reply.rs` | a request for a text: who asks, and the desk that makes it |
//! | `json.rs` | values as JSON |
//! | `films.rs`, `film.rs`, `tracks.rs` | the list of films, one film, its tracks |
//! | `sessions.rs` | viewers of all protocols |
//! | `node.rs` | the server as a whole |
//! | `admission.rs`, `cache.rs` | what is booked; what the cache holds |
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

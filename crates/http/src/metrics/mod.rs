//! Counters of this side, and all of the server's in Prometheus' text format.
//!
//! | file | what lives there |
//! |---|---|
//! | `text.rs` | the format |
//! | `page.rs` | the page, put together of the others' sections |
//! | `counters.rs` | requests, connections, bytes |
//! | `answers.rs` | answers in the making, and what making them costs |
//! | `server.rs` | the server itself, its sender, films, viewers and who is let in |
//! | `store.rs` | the pool, the cache, the disks and the tier |

pub(crate) mod answers;
pub(crate) mod counters;
pub(crate) mod page;
pub(crate) mod server;
pub(crate) mod store;
pub(crate) mod text;

//! Uploading and deleting films: `PUT` and `DELETE` of `/TITLE/file`.
//!
//! Off unless configured, and only with the token. A film arrives whole or in parts
//! (`Content-Range`); if the connection breaks, received data is kept for an hour. The film gets
//! its name only when it is completely on the disk and is known to be a film: at any time there is
//! either the old film or the new one.
//!
//! | file | content |
//! |---|---|
//! | `handler.rs` | the path of a request |
//! | `part.rs` | which part of a film a request carries |
//! | `slots.rs` | uploads in progress, one per film |
//! | `receive.rs` | writes a body to blocks on the disk |
//! | `shelf.rs` | turns a complete file into a film of the catalogue; deletes films |
//! | `refused.rs` | refusals as answers |
//! | `clean_up.rs` | removal of unfinished uploads of a server that crashed |

pub(crate) mod clean_up;
pub(crate) mod handler;
mod part;
mod receive;
mod refused;
pub(crate) mod shelf;
pub(crate) mod slots;

//! Films that are put and deleted: `PUT` and `DELETE` of `/TITLE/file`.
//!
//! Off unless configured, and only with the token. A film arrives whole or in parts (`Content-Range`);
//! what has come of it is kept for an hour when the connection breaks. It takes its name only when
//! all of it is on the disk and it is a film: whoever looks sees the old film, or the new one.
//!
//! | file | what lives there |
//! |---|---|
//! | `handler.rs` | a request's way |
//! | `part.rs` | which part of a film a request brings |
//! | `slots.rs` | uploads under way, one for each film |
//! | `receive.rs` | a body becomes blocks on the disk |
//! | `shelf.rs` | a whole file becomes a film of the catalogue; films are taken away |
//! | `refused.rs` | what cannot be done, as its answer |
//! | `clean_up.rs` | unfinished uploads of a server that died |

pub(crate) mod clean_up;
pub(crate) mod handler;
mod part;
mod receive;
mod refused;
pub(crate) mod shelf;
pub(crate) mod slots;

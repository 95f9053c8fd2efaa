//! Films to be played: found by name, opened, and checked against the index.
//!
//! [`Library::open`] returns an [`OpenFilm`] for a title, whether its bytes are in a local file or
//! at an origin. This is the only place where an opened file is compared with the index. Anything
//! derived from an open film is kept by its users for as long as the file's bytes are the same: the
//! sender keeps a script for each film being watched over RTP, and HTTP keeps the packages of the
//! most recently played films.
#![forbid(unsafe_code)]

mod library;
mod open;
mod view;

pub use library::Library;
pub use open::{OpenError, OpenFilm};

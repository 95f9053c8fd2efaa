//! Films to be played: found by name, opened, and known to be those that were indexed.
//!
//! What lives here: [`Library::open`], which gives an [`OpenFilm`] for a title, wherever its bytes lie: in a local file or at
//! an origin. It is the one place where an opened file is compared with the index. What is made of an open film is kept by
//! whoever makes it, as long as the same bytes are meant: the sender keeps a script for each film that somebody watches over
//! RTP, and HTTP keeps the packages of the films played last.
#![forbid(unsafe_code)]

mod library;
mod open;
mod view;

pub use library::Library;
pub use open::{OpenError, OpenFilm};

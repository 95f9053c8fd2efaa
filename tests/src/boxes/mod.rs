//! A box writer for tests: takes an ordinary MP4 apart and reassembles it in ways that ffmpeg does
//! not support.
//!
//! [`tree`] reads and writes boxes, [`movie`] turns the tables of a film into plain lists of
//! samples, [`mod@write`] lays the lists out again ([`Layout`]), and [`entry`] rewrites the codec
//! configuration in sample entries. The writer shares no code with the server's own reader, so that
//! both cannot contain the same mistake.

pub mod entry;
pub mod movie;
pub mod tree;
pub mod write;

pub use movie::{Edit, Movie, Sample, Track};
pub use tree::{Body, Node};
pub use write::{Ctts, Layout, Order, Sizes, write};

//! A box writer for tests: takes an ordinary MP4 apart and puts it together again in ways that
//! ffmpeg cannot be told to.
//!
//! [`tree`] reads and writes boxes, [`movie`] turns the tables of a film into plain lists of
//! samples, [`mod@write`] lays the lists out again ([`Layout`]), [`entry`] rewrites what sample
//! entries say of their codec. It shares no line with the server's own reader: two that make the same mistake
//! would prove nothing.

pub mod entry;
pub mod movie;
pub mod tree;
pub mod write;

pub use movie::{Edit, Movie, Sample, Track};
pub use tree::{Body, Node};
pub use write::{Ctts, Layout, Order, Sizes, write};

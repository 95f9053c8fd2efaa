//! Elements that the walk over a file is inside of.

use super::block::Block;
use super::text::Text;

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    pub end: Option<u64>,
    /// Of its blocks, in ticks.
    pub time: i64,
}

/// A block with what is said of it.
#[derive(Debug)]
pub struct Group {
    pub end: u64,
    pub block: Option<Found>,
    pub duration: Option<i64>,
    pub is_referring: bool,
}

/// A block that was found in the file.
#[derive(Debug)]
pub struct Found {
    pub block: Block,
    /// First byte of its body.
    pub from: u64,
    /// What its frame holds, of a track of text.
    pub text: Option<Text>,
}

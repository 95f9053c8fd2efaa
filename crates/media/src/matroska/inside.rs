//! The elements that enclose the current position while a file is walked.

use super::block::Block;
use super::text::Text;

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    pub end: Option<u64>,
    /// The time of its blocks, in ticks.
    pub time: i64,
}

/// A block and the elements that describe it.
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
    /// The offset of its body.
    pub from: u64,
    /// The contents of its frame, for a text track.
    pub text: Option<Text>,
}

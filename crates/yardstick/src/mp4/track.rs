//! What a movie header says of one track.

use super::coding::Coding;

/// A track as `moov` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    /// track_ID.
    pub id: u32,
    /// Whether it is picture.
    pub is_video: bool,
    /// Ticks a second.
    pub timescale: u32,
    /// How its access units are compared.
    pub coding: Coding,
    /// Of fragments that say nothing else: ticks of a sample.
    pub default_duration: u32,
    /// And bytes.
    pub default_size: u32,
    /// Where its edit list begins in the track's times, ticks; and an empty edit before, in ns.
    pub edit: (i64, i64),
}

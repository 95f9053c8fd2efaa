//! A track according to the movie header.

use super::coding::Coding;

/// A track of a `moov`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    /// track_ID.
    pub id: u32,
    /// Whether it is video.
    pub is_video: bool,
    /// Ticks per second.
    pub timescale: u32,
    /// How its access units are compared.
    pub coding: Coding,
    /// Default duration of a fragment's samples in ticks.
    pub default_duration: u32,
    /// Default size of a fragment's samples in bytes.
    pub default_size: u32,
    /// Start of its edit list in the track's time, in ticks, and the length of an empty edit before
    /// it, in nanoseconds.
    pub edit: (i64, i64),
}

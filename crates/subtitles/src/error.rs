//! Why a file cannot be used.

use thiserror::Error;

use crate::bounds::MOST_BYTES;

/// Why a file cannot be used as subtitles.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubtitleError {
    /// The file is larger than [`MOST_BYTES`].
    #[error("{bytes} bytes are more than the {MOST_BYTES} that a file of subtitles may have")]
    TooLarge {
        /// The file's size in bytes.
        bytes: usize,
    },
    /// The file contains nothing that looks like a cue.
    #[error("there is no cue in it")]
    NoCue,
    /// All cues were skipped.
    #[error("{first}; there is no other cue in it")]
    AllPassedOver {
        /// The first problem, with its line: `line 3: …`.
        first: String,
    },
}

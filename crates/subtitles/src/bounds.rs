//! Limits for subtitle files.

/// The largest file that is read, in bytes. The file that is written from it is not larger, either.
pub const MOST_BYTES: usize = 8 << 20;
/// The maximum number of cues in a file; a film has some two thousand. Later cues are skipped.
pub const MOST_CUES: usize = 100_000;
/// The longest text of a cue, in characters including tags. A longer cue is skipped: it is not
/// really a subtitle.
pub const MOST_CHARS: usize = 10_000;
/// The maximum number of notes about a file. The last one says how many were left out.
pub const MOST_NOTES: usize = 20;

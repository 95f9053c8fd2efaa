//! How much of a file is taken.

/// The largest file that is read, in bytes. What is written of it is not larger either.
pub const MOST_BYTES: usize = 8 << 20;
/// The most cues of a file; a film has some two thousand. Those after them are passed over.
pub const MOST_CUES: usize = 100_000;
/// The longest text of a cue, in characters with its tags. A cue with more is passed over: something else is in it.
pub const MOST_CHARS: usize = 10_000;
/// The most notes about a file; the last one says how many more there would be.
pub const MOST_NOTES: usize = 20;

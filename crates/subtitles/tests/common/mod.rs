//! Helpers for short test files.

use reelway_subtitles::{Format, Subtitles, read};

/// A cue in short form: start, end, settings, text.
pub type Short<'a> = (u64, u64, &'a str, &'a str);

/// Reads a file that has cues.
pub fn subtitles(format: Format, file: &str) -> Subtitles {
    read(format, file.as_bytes()).unwrap_or_else(|error| panic!("{error}:\n{file}"))
}

/// Compares the cues of a file, and returns its notes.
#[track_caller]
pub fn expect(format: Format, file: &str, expected: &[Short<'_>]) -> Vec<String> {
    let subtitles = subtitles(format, file);
    let cues: Vec<Short<'_>> = subtitles
        .cues
        .iter()
        .map(|cue| (cue.start, cue.end, &*cue.settings, &*cue.text))
        .collect();
    assert_eq!(cues, expected);
    subtitles.notes
}

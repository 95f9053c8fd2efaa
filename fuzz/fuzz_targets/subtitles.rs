//! Reads arbitrary bytes as a subtitle file. The result must be an error, or bounded cues in order,
//! which are the same when they are written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reelway_subtitles::{Format, MOST_CHARS, MOST_CUES, MOST_NOTES, read};

fuzz_target!(|bytes: &[u8]| {
    // The first byte selects the format of the rest.
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let format = [Format::SubRip, Format::WebVtt, Format::Ass][usize::from(first % 3)];
    let Ok(subtitles) = read(format, rest) else {
        return;
    };
    assert!(subtitles.cues.len() <= MOST_CUES && subtitles.notes.len() <= MOST_NOTES);
    assert!(subtitles.cues.is_sorted_by_key(|cue| cue.start));
    for cue in &subtitles.cues {
        assert!(cue.start < cue.end && cue.text.chars().count() <= MOST_CHARS);
    }
    let written = subtitles.to_web_vtt();
    let again = read(Format::WebVtt, written.as_bytes()).expect("what was written");
    assert_eq!(again.cues, subtitles.cues);
});

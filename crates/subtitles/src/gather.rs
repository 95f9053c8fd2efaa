//! Collects cues and notes within limits.

use crate::bounds::{MOST_BYTES, MOST_CHARS, MOST_CUES, MOST_NOTES};
use crate::cue::{Cue, Subtitles};
use crate::error::SubtitleError;

/// More than the bytes written for a cue besides its text and settings; also more than the header.
const AROUND: usize = 64;

/// What a reader has found so far.
#[derive(Default)]
pub struct Gathered {
    cues: Vec<Cue>,
    notes: Vec<String>,
    /// Number of notes that were left out.
    more: usize,
    /// The problem of the first cue that was skipped.
    first: Option<String>,
    /// Upper limit of the written file's length, in bytes.
    written: usize,
    full: bool,
}

impl Gathered {
    /// Adds a cue whose times are in `line`, counted from one. Its text is WebVTT without empty
    /// lines, and without blanks around lines.
    pub fn cue(&mut self, line: usize, cue: Cue) {
        if self.full || cue.text.trim().is_empty() {
            return;
        }
        if cue.end <= cue.start {
            return self.passed_over(line, "the cue ends before it begins");
        }
        // Bytes first: their number is known without counting.
        if cue.text.len() > MOST_CHARS && cue.text.chars().count() > MOST_CHARS {
            return self.passed_over(
                line,
                &format!("the cue has more than {MOST_CHARS} characters"),
            );
        }
        let written = self.written + cue.text.len() + cue.settings.len() + AROUND;
        if self.cues.len() == MOST_CUES || written + AROUND > MOST_BYTES {
            self.full = true;
            return self.passed_over(line, "there is too much in the file; the rest");
        }
        self.written = written;
        self.cues.push(cue);
    }

    /// Returns whether further cues would be skipped.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Records that a cue was skipped, and why.
    pub fn passed_over(&mut self, line: usize, why: &str) {
        let note = format!("line {line}: {why}, passed over");
        if self.first.is_none() {
            self.first = Some(note.clone());
        }
        self.note(note);
    }

    /// Records that something was corrected, or that something other than a cue was skipped.
    pub fn note(&mut self, note: String) {
        if self.notes.len() < MOST_NOTES {
            self.notes.push(note);
        } else {
            self.more += 1;
        }
    }

    /// Merges cues with equal text and times: ASS files make shadows from several copies, blurred
    /// and shifted.
    pub fn once_each(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        let first: Vec<bool> = self
            .cues
            .iter()
            .map(|cue| seen.insert((cue.start, cue.end, &cue.text)))
            .collect();
        let mut first = first.into_iter();
        self.cues.retain(|_| first.next().unwrap_or(true));
    }

    /// Returns all cues in the order of their beginnings.
    ///
    /// # Errors
    ///
    /// There are no cues.
    pub fn finish(mut self) -> Result<Subtitles, SubtitleError> {
        if self.cues.is_empty() {
            return Err(match self.first {
                Some(first) => SubtitleError::AllPassedOver { first },
                None => SubtitleError::NoCue,
            });
        }
        // Stable: cues that begin together stay in the order of the file.
        self.cues.sort_by_key(|cue| cue.start);
        if self.more > 0
            && let Some(last) = self.notes.last_mut()
        {
            *last = format!("and {} more of this kind", self.more + 1);
        }
        Ok(Subtitles {
            cues: self.cues,
            notes: self.notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(start: u64, text: &str) -> Cue {
        Cue {
            start,
            end: start + 1000,
            settings: String::new(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn cues_are_sorted_and_those_of_one_moment_stay_in_order() {
        let mut gathered = Gathered::default();
        for (start, text) in [(5, "c"), (1, "a"), (5, "d"), (1, "b")] {
            gathered.cue(1, cue(start, text));
        }
        let texts: Vec<String> = gathered
            .finish()
            .unwrap()
            .cues
            .into_iter()
            .map(|cue| cue.text)
            .collect();
        assert_eq!(texts, ["a", "b", "c", "d"]);
    }

    #[test]
    fn the_last_note_counts_those_left_out() {
        let mut gathered = Gathered::default();
        gathered.cue(1, cue(0, "a"));
        for line in 1..=30 {
            gathered.passed_over(line, "a cue");
        }
        let notes = gathered.finish().unwrap().notes;
        assert_eq!(notes.len(), MOST_NOTES);
        assert_eq!(notes[18], "line 19: a cue, passed over");
        assert_eq!(notes[19], "and 11 more of this kind");
    }

    #[test]
    fn there_are_bounds_to_cues_and_bytes() {
        let mut gathered = Gathered::default();
        for _ in 0..MOST_CUES + 5 {
            gathered.cue(1, cue(0, "a"));
        }
        assert!(gathered.is_full());
        let subtitles = gathered.finish().unwrap();
        assert_eq!(subtitles.cues.len(), MOST_CUES);
        assert_eq!(subtitles.notes.len(), 1);

        let mut gathered = Gathered::default();
        let long = "a".repeat(MOST_CHARS);
        for _ in 0..1000 {
            gathered.cue(1, cue(0, &long));
        }
        assert!(gathered.finish().unwrap().to_web_vtt().len() <= MOST_BYTES);
    }

    #[test]
    fn a_text_that_is_too_long_is_passed_over() {
        let mut gathered = Gathered::default();
        gathered.cue(1, cue(0, &"ä".repeat(MOST_CHARS)));
        gathered.cue(7, cue(0, &"ä".repeat(MOST_CHARS + 1)));
        let subtitles = gathered.finish().unwrap();
        assert_eq!(subtitles.cues.len(), 1);
        assert!(subtitles.notes[0].starts_with("line 7: the cue has more"));
    }
}

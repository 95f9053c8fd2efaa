//! Turns the subtitle cues found in a film into documents.

use std::io::Write;

use crate::text::{Document, TextForm, TextTrack};
use crate::time::{Nanos, SECOND};

/// The maximum number of subtitle tracks kept per film.
pub const MOST_TEXTS: usize = 64;
/// The longest cue text that is read, in bytes.
pub const MOST_CUE: u64 = 32 << 10;
/// The maximum bytes of text kept per film, including the overhead per cue.
const MOST_BYTES: usize = 4 << 20;
/// The approximate overhead of a cue beside its text: number, times, line ends.
const AROUND: usize = 64;
/// A cue without an end time lasts until the next one, but no longer than this.
const LONGEST: Nanos = 10 * SECOND;

/// A cue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cue {
    /// The time when it appears, on the container's timeline.
    pub start: Nanos,
    /// The time when it disappears, if the container states it.
    pub end: Option<Nanos>,
    /// WebVTT cue settings, usually empty.
    pub settings: String,
    /// The text as stored: one or several lines; for ASS, the fields of a Matroska block.
    pub text: Vec<u8>,
}

/// All subtitle tracks of a film while their cues are being collected.
#[derive(Debug, Default)]
pub struct Texts {
    tracks: Vec<(TextTrack, Vec<Cue>)>,
    bytes: usize,
    full: bool,
}

impl Texts {
    /// Adds a track without cues and returns its number for `add`, or `None` if there are too many.
    pub fn add_track(&mut self, track: TextTrack) -> Option<usize> {
        (self.tracks.len() < MOST_TEXTS).then(|| {
            self.tracks.push((track, Vec::new()));
            self.tracks.len() - 1
        })
    }

    /// Adds a cue to a track, as long as there is room.
    pub fn add(&mut self, track: usize, cue: Cue) {
        let bytes = cue.text.len() + cue.settings.len() + AROUND;
        if self.full || self.bytes + bytes > MOST_BYTES {
            self.full = true;
            return;
        }
        if let Some((_, cues)) = self.tracks.get_mut(track) {
            self.bytes += bytes;
            cues.push(cue);
        }
    }

    /// Returns whether the limit is reached, so that no further cues are kept.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the tracks with their documents, on the timeline of a film that begins at `zero` on
    /// the container's. Tracks without text are left out. Irregularities are passed to `note`.
    pub fn finish(self, zero: Nanos, note: &mut dyn FnMut(String)) -> Vec<TextTrack> {
        if self.full {
            let most = MOST_BYTES >> 20;
            note(format!("its subtitles end early: more than {most} MiB"));
        }
        let finished = self.tracks.into_iter().filter_map(|(mut track, cues)| {
            let document = document(track.form, cues, zero);
            if document.is_empty() {
                note(format!(
                    "track {} (subtitles without text) skipped",
                    track.id
                ));
                return None;
            }
            track.document = Document::new(document);
            Some(track)
        });
        finished.collect()
    }
}

/// Builds a document from the cues; empty if there are none.
fn document(form: TextForm, mut cues: Vec<Cue>, zero: Nanos) -> Vec<u8> {
    cues.sort_by_key(|cue| cue.start);
    let mut out = Vec::new();
    let mut number = 0;
    for cue in &cues {
        // Cues that begin at the same time are shown together.
        let later = cues.partition_point(|other| other.start <= cue.start);
        let next = cues.get(later).map_or(Nanos::MAX, |next| next.start);
        let own = next.min(cue.start.saturating_add(LONGEST));
        let end = cue.end.unwrap_or(own).saturating_sub(zero);
        let start = cue.start.saturating_sub(zero).max(0);
        let text = trimmed(&cue.text);
        if end <= start || text.is_empty() {
            continue;
        }
        number += 1;
        if number == 1 {
            out.extend(match form {
                TextForm::SubRip => &b""[..],
                TextForm::WebVtt => b"WEBVTT\n\n",
                TextForm::Ass => b"[Events]\n",
            });
        }
        // Writing to memory never fails.
        let _ = match form {
            TextForm::SubRip => sub_rip(&mut out, number, (start, end), text),
            TextForm::WebVtt => web_vtt(&mut out, (start, end), &cue.settings, text),
            TextForm::Ass => ass(&mut out, (start, end), text),
        };
    }
    out
}

/// Strips the trailing NULs, line ends and spaces that some writers leave.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, 0 | b'\r' | b'\n' | b' ');
    let end = text.iter().rposition(is_text).map_or(0, |last| last + 1);
    &text[..end]
}

fn sub_rip(
    out: &mut Vec<u8>,
    number: usize,
    (start, end): (Nanos, Nanos),
    text: &[u8],
) -> std::io::Result<()> {
    let (start, end) = (time(start, ','), time(end, ','));
    write!(out, "{number}\n{start} --> {end}\n")?;
    out.extend(text);
    write!(out, "\n\n")
}

/// Empty lines are left out because they would end a WebVTT cue, and arrows are escaped.
fn web_vtt(
    out: &mut Vec<u8>,
    (start, end): (Nanos, Nanos),
    settings: &str,
    text: &[u8],
) -> std::io::Result<()> {
    let (start, end) = (time(start, '.'), time(end, '.'));
    let settings = settings.trim();
    let space = if settings.is_empty() { "" } else { " " };
    writeln!(out, "{start} --> {end}{space}{settings}")?;
    for line in String::from_utf8_lossy(text).lines() {
        if !line.trim().is_empty() {
            writeln!(out, "{}", line.replace("-->", "--&gt;"))?;
        }
    }
    writeln!(out)
}

/// Matroska leaves the times out and puts a number in front:
/// `ReadOrder, Layer, Style, Name, MarginL, MarginR, MarginV, Effect, Text`.
fn ass(out: &mut Vec<u8>, (start, end): (Nanos, Nanos), text: &[u8]) -> std::io::Result<()> {
    let mut fields = text.splitn(3, |byte| *byte == b',');
    let (Some(_), Some(layer), Some(rest)) = (fields.next(), fields.next(), fields.next()) else {
        return Ok(());
    };
    out.extend(b"Dialogue: ");
    out.extend(layer);
    write!(out, ",{},{},", time(start, '.'), time(end, '.'))?;
    for byte in rest {
        match byte {
            b'\n' => out.extend(b"\\N"),
            b'\r' => {}
            byte => out.push(*byte),
        }
    }
    writeln!(out)
}

/// Formats hours, minutes, seconds and milliseconds.
fn time(at: Nanos, point: char) -> String {
    let milliseconds = at / 1_000_000;
    let (seconds, milliseconds) = (milliseconds / 1000, milliseconds % 1000);
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}{point}{milliseconds:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn cue(start: Nanos, end: Option<Nanos>, text: &str) -> Cue {
        Cue {
            start: start * MS,
            end: end.map(|end| end * MS),
            settings: String::new(),
            text: text.into(),
        }
    }

    fn of(form: TextForm, cues: Vec<Cue>, zero: Nanos) -> String {
        String::from_utf8(document(form, cues, zero * MS)).expect("text")
    }

    #[test]
    fn cues_are_in_order_and_on_the_films_timeline() {
        let cues = vec![
            cue(5000, Some(6000), "Two\0\n"),
            cue(900, Some(1500), "One"),
            cue(100, Some(400), "Before the film"),
        ];
        let expected =
            "1\n00:00:00,000 --> 00:00:00,500\nOne\n\n2\n00:00:04,000 --> 00:00:05,000\nTwo\n\n";
        assert_eq!(of(TextForm::SubRip, cues, 1000), expected);
        assert_eq!(of(TextForm::SubRip, vec![cue(0, Some(10), " \n")], 0), "");
    }

    #[test]
    fn a_cue_without_an_end_lasts_to_the_next_one_or_ten_seconds() {
        let cues = vec![cue(0, None, "a"), cue(3000, None, "b")];
        let expected =
            "1\n00:00:00,000 --> 00:00:03,000\na\n\n2\n00:00:03,000 --> 00:00:13,000\nb\n\n";
        assert_eq!(of(TextForm::SubRip, cues, 0), expected);
    }

    #[test]
    fn cues_without_an_end_that_begin_together_are_shown_together() {
        let cues = vec![cue(0, None, "a"), cue(0, None, "b"), cue(1000, None, "c")];
        let text = of(TextForm::SubRip, cues, 0);
        let first =
            "1\n00:00:00,000 --> 00:00:01,000\na\n\n2\n00:00:00,000 --> 00:00:01,000\nb\n\n";
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn what_would_end_a_text_of_web_vtt_is_left_out() {
        let mut one = cue(0, Some(3_601_000), "a\n\n-->b");
        one.settings = "line:0 ".into();
        let expected = "WEBVTT\n\n00:00:00.000 --> 01:00:01.000 line:0\na\n--&gt;b\n\n";
        assert_eq!(of(TextForm::WebVtt, vec![one], 0), expected);
    }

    #[test]
    fn blocks_of_matroska_become_dialogue() {
        let block = "7,0,Default,,0,0,0,,Hello, {\\i1}world\nagain";
        let expected = "[Events]\nDialogue: 0,00:00:01.000,00:00:02.500,Default,,0,0,0,,Hello, {\\i1}world\\Nagain\n";
        assert_eq!(
            of(TextForm::Ass, vec![cue(1000, Some(2500), block)], 0),
            expected
        );
    }

    #[test]
    fn what_is_kept_of_a_film_is_bounded() {
        let track = TextTrack {
            id: 3,
            form: TextForm::SubRip,
            language: None,
            name: None,
            default: false,
            forced: false,
            sdh: false,
            document: Document::new(Vec::new()),
        };
        let mut texts = Texts::default();
        let number = texts.add_track(track.clone()).expect("room");
        let text = "x".repeat(MOST_CUE as usize);
        for nth in 0..1000 {
            texts.add(number, cue(nth, Some(nth + 1), &text));
        }
        assert!(texts.is_full());
        let mut notes = Vec::new();
        let finished = texts.finish(0, &mut |note| notes.push(note));
        assert!(finished[0].document.bytes() as usize <= MOST_BYTES);
        assert_eq!(notes, ["its subtitles end early: more than 4 MiB"]);
        let mut texts = Texts::default();
        for _ in 0..MOST_TEXTS {
            assert!(texts.add_track(track.clone()).is_some());
        }
        assert_eq!(texts.add_track(track), None);
    }
}

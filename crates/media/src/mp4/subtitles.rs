//! Subtitle tracks. Their samples are read once all tables are known.

use std::collections::VecDeque;
use std::ops::Range;

use super::edits::Edit;
use super::fragments::Gathered;
use super::kept::KeptBox;
use super::timed_text;
use crate::text::{Document, TextForm, TextTrack};
use crate::texts::{Cue, MOST_CUE, Texts};
use crate::{Nanos, ticks_to_nanos};

/// The cue format of a track's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Timed text.
    TimedText {
        /// Whether the whole track covers only speech in a language other than the film's.
        forced: bool,
    },
    /// WebVTT boxes.
    WebVtt,
}

impl Holds {
    /// Returns the format of the first sample entry of `stsd`, or the name of an unsupported one.
    pub fn of(stsd: &KeptBox) -> Result<Holds, String> {
        let entry = stsd.children(8).next().and_then(Result::ok);
        let entry = entry.ok_or("nothing described")?;
        match &entry.kind {
            b"tx3g" => {
                // displayFlags follows six reserved bytes and data_reference_index.
                let mut bytes = Vec::new();
                let head = entry.head(&mut bytes).map_err(|error| error.problem)?;
                let flags = head.body.get(8..12).unwrap_or_default();
                Ok(Holds::TimedText {
                    forced: flags.first().is_some_and(|flags| flags & 0x80 != 0),
                })
            }
            b"wvtt" => Ok(Holds::WebVtt),
            other => Err(format!("subtitles, {}", super::boxes::fourcc(*other))),
        }
    }
}

/// A track whose samples are still to be read.
#[derive(Debug)]
pub struct Pending {
    /// Its number among the texts.
    pub number: usize,
    /// The track_ID.
    pub id: u32,
    /// The cue format of its samples.
    pub holds: Holds,
    /// Ticks per second, never 0.
    pub timescale: u32,
    /// The time at which its media begins.
    pub delay: Nanos,
    /// The part of it that is presented.
    pub edit: Edit,
    /// Its samples.
    pub gathered: Gathered,
}

/// A sample that is still to be read.
#[derive(Debug)]
struct Wanted {
    bytes: Range<u64>,
    track: usize,
    holds: Holds,
    start: Nanos,
    end: Nanos,
}

/// The subtitles of a film.
#[derive(Debug, Default)]
pub struct Subtitles {
    texts: Texts,
    pending: Vec<Pending>,
    wanted: VecDeque<Wanted>,
}

impl Subtitles {
    /// Sets subtitles that the file describes in another way.
    pub fn set(&mut self, texts: Texts) {
        self.texts = texts;
    }

    /// Adds a track and returns its number, or `None` if there are too many.
    pub fn add_track(&mut self, track: TextTrack) -> Option<usize> {
        self.texts.add_track(track)
    }

    /// Schedules the samples of a track for reading.
    pub fn add(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    /// Returns the sample collection of a track, to which fragments add.
    pub fn gathered(&mut self, id: u32) -> Option<&mut Gathered> {
        let mut pending = self.pending.iter_mut();
        Some(&mut pending.find(|pending| pending.id == id)?.gathered)
    }

    /// Starts reading the samples once all tables are known, at most `most` of them. Tracks that
    /// exceed this are skipped and noted.
    pub fn begin(&mut self, most: u32) -> Vec<String> {
        let mut notes = Vec::new();
        let mut wanted = Vec::new();
        for track in std::mem::take(&mut self.pending) {
            let count = track.list().count();
            match wanted.len() + count <= most as usize {
                true => wanted.extend(track.list()),
                false => notes.push(format!(
                    "track {}: its {count} subtitles are not read, one by one",
                    track.id
                )),
            }
        }
        wanted.sort_by_key(|wanted| wanted.bytes.start);
        self.wanted = wanted.into();
        notes
    }

    /// Returns the byte range of the next sample.
    pub fn wanted(&self) -> Option<Range<u64>> {
        let next = self.wanted.front().filter(|_| !self.texts.is_full())?;
        Some(next.bytes.clone())
    }

    /// Takes the bytes of the next sample.
    pub fn feed(&mut self, bytes: &[u8]) {
        let Some(sample) = self.wanted.pop_front() else {
            return;
        };
        let cues = match sample.holds {
            Holds::TimedText { .. } => {
                vec![(String::new(), timed_text::timed_text(bytes).into_bytes())]
            }
            Holds::WebVtt => timed_text::web_vtt(bytes),
        };
        for (settings, text) in cues {
            let cue = Cue {
                start: sample.start,
                end: Some(sample.end),
                settings,
                text,
            };
            self.texts.add(sample.track, cue);
        }
    }

    /// Takes all subtitles.
    pub fn take(&mut self) -> Texts {
        self.wanted = VecDeque::new();
        std::mem::take(&mut self.texts)
    }
}

impl Pending {
    /// Returns the samples that contain text.
    fn list(&self) -> impl Iterator<Item = Wanted> + '_ {
        let least = match self.holds {
            // Nothing but a length of 0.
            Holds::TimedText { .. } => 3,
            // A box without contents.
            Holds::WebVtt => 9,
        };
        let mut at = self.gathered.first_dts.saturating_sub(self.edit.start);
        self.gathered.samples.iter().filter_map(move |sample| {
            let nanos = |at: i64| ticks_to_nanos(at, self.timescale).saturating_add(self.delay);
            let (start, end) = (at, at.saturating_add(sample.duration.into()));
            at = end;
            let is_text = (least..=MOST_CUE).contains(&sample.size.into());
            is_text.then(|| Wanted {
                bytes: sample.bytes(),
                track: self.number,
                holds: self.holds,
                start: nanos(start),
                end: nanos(end),
            })
        })
    }
}

/// Returns the text track with this track_ID, without cues.
pub fn track(id: u32, holds: Holds, default: bool) -> TextTrack {
    TextTrack {
        id,
        form: TextForm::WebVtt,
        language: None,
        name: None,
        default,
        forced: holds == Holds::TimedText { forced: true },
        sdh: false,
        document: Document::new(Vec::new()),
    }
}

//! Tracks of subtitles: their samples are read when all tables are known.

use std::collections::VecDeque;
use std::ops::Range;

use super::edits::Edit;
use super::fragments::Gathered;
use super::kept::KeptBox;
use super::timed_text;
use crate::text::{Document, TextForm, TextTrack};
use crate::texts::{Cue, MOST_CUE, Texts};
use crate::{Nanos, ticks_to_nanos};

/// How the samples of a track hold their cues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Timed text.
    TimedText {
        /// The whole track is only what is said in another language than the film's.
        forced: bool,
    },
    /// Boxes of WebVTT.
    WebVtt,
}

impl Holds {
    /// By the first sample entry of `stsd`; the entry's name where it is none of these.
    pub fn of(stsd: &KeptBox) -> Result<Holds, String> {
        let entry = stsd.children(8).next().and_then(Result::ok);
        let entry = entry.ok_or("nothing described")?;
        match &entry.kind {
            b"tx3g" => {
                // displayFlags, behind six reserved bytes and data_reference_index.
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

/// A track whose samples are to be read.
#[derive(Debug)]
pub struct Pending {
    /// Its number among the texts.
    pub number: usize,
    /// track_ID.
    pub id: u32,
    /// How its samples hold their cues.
    pub holds: Holds,
    /// Ticks a second, never 0.
    pub timescale: u32,
    /// When its media begins.
    pub delay: Nanos,
    /// What of it is shown.
    pub edit: Edit,
    /// Its samples.
    pub gathered: Gathered,
}

/// A sample that is to be read.
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
    /// These, which the file says in another way.
    pub fn set(&mut self, texts: Texts) {
        self.texts = texts;
    }

    /// Adds a track with what is known of it; its number. `None`: there are too many.
    pub fn add_track(&mut self, track: TextTrack) -> Option<usize> {
        self.texts.add_track(track)
    }

    /// Has the samples of a track read later.
    pub fn add(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    /// What fragments bring of a track.
    pub fn gathered(&mut self, id: u32) -> Option<&mut Gathered> {
        let mut pending = self.pending.iter_mut();
        Some(&mut pending.find(|pending| pending.id == id)?.gathered)
    }

    /// All tables are known: now the samples are wanted, at most `most` of them. Tracks with more are passed over, and told.
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

    /// The bytes of the next sample.
    pub fn wanted(&self) -> Option<Range<u64>> {
        let next = self.wanted.front().filter(|_| !self.texts.is_full())?;
        Some(next.bytes.clone())
    }

    /// Reads the next sample.
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

    /// All of them.
    pub fn take(&mut self) -> Texts {
        self.wanted = VecDeque::new();
        std::mem::take(&mut self.texts)
    }
}

impl Pending {
    /// The samples that have a text.
    fn list(&self) -> impl Iterator<Item = Wanted> + '_ {
        let least = match self.holds {
            // Nothing but a length of 0.
            Holds::TimedText { .. } => 3,
            // A box without anything in it.
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

/// The track of text with this track_ID, without cues.
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

//! What is made of a film's bytes, and what an indexer wants of them.

use std::ops::Range;

use crate::index_error::{IndexError, IndexErrorKind};
use crate::samples::SampleTable;
use crate::stored::Lost;
use crate::time::{Nanos, SECOND};
use crate::title::Title;

/// A film understood: its title and the samples of each of its tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Tracks, groups, times.
    pub title: Title,
    /// One table for each of [`Title::recorded`], in the same order; implements [`crate::Samples`].
    pub tables: Vec<SampleTable>,
}

impl Index {
    /// Has all of it in memory, and none in scratch space.
    ///
    /// # Errors
    /// Scratch space cannot be read.
    pub fn bring(&mut self) -> Result<(), Lost> {
        for table in &mut self.tables {
            *table = table.bring()?;
        }
        for track in self.title.recorded_mut() {
            track.groups.bring()?;
            track.places.bring()?;
        }
        if let Some(entries) = &mut self.title.entry_points {
            entries.points.bring()?;
        }
        Ok(())
    }
}

/// Limits on what a film may make us hold, and what it need not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// Longest `moov` or `moof` that is read, in bytes; most of it lies in scratch space.
    pub max_box: u64,
    /// Most samples of all tracks together; each takes 18 bytes.
    pub max_samples: u32,
    /// Most samples of subtitles that are read one by one, as MP4 scatters them over the file.
    pub max_texts: u32,
    /// Longest film, in nanoseconds: what viewers need is planned for each quarter second of it.
    pub max_duration: Nanos,
    /// Pictures a second of streams that are files by themselves and do not state it: a fraction.
    pub frame_rate: (u32, u32),
}

impl Default for IndexOptions {
    /// 256 MiB, 16 million samples (a day of 60 pictures a second with two sound tracks), and 100,000 of subtitles; two
    /// weeks; 25 pictures a second.
    fn default() -> Self {
        IndexOptions {
            max_box: 256 << 20,
            max_samples: 1 << 24,
            max_texts: 100_000,
            max_duration: 14 * 86_400 * SECOND,
            frame_rate: (25, 1),
        }
    }
}

/// Bytes that are wanted first, whatever the file is: they tell.
pub(crate) const FIRST: u64 = 4 << 10;

/// Checks that as much was fed as was wanted.
pub(crate) fn check_whole(wanted: &Range<u64>, fed: &[u8]) -> Result<(), IndexError> {
    let count = wanted.end - wanted.start;
    if fed.len() as u64 == count {
        return Ok(());
    }
    Err(IndexError {
        path: String::new(),
        offset: wanted.start,
        problem: format!(
            "{} of the {count} bytes at byte {} could be read",
            fed.len(),
            wanted.start
        ),
        kind: IndexErrorKind::Incomplete,
    })
}

impl IndexOptions {
    /// Checks that a film is not too long; in words, how long it is and may be.
    pub(crate) fn check_duration(&self, duration: Nanos) -> Result<(), String> {
        let seconds = |time: Nanos| time / SECOND;
        if duration <= self.max_duration {
            return Ok(());
        }
        Err(format!(
            "lasts {} s, more than the {} s that are allowed",
            seconds(duration),
            seconds(self.max_duration)
        ))
    }
}

/// What an [`Indexer`](crate::Indexer) wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is moved once a film, a box would be one more thing to unpack"
)]
pub enum Step {
    /// These bytes of the file, whole, by [`Indexer::feed`](crate::Indexer::feed). Never empty, never past the file's end.
    Need(Range<u64>),
    /// Nothing more: here is the index.
    Done(Index),
}

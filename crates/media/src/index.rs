//! The result of indexing a film, and the requests of an indexer.

use std::ops::Range;

use crate::index_error::{IndexError, IndexErrorKind};
use crate::samples::SampleTable;
use crate::stored::Lost;
use crate::time::{Nanos, SECOND};
use crate::title::Title;

/// An indexed film: its title and the samples of each of its tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Tracks, groups, times.
    pub title: Title,
    /// One table for each of [`Title::recorded`], in the same order; implements [`crate::Samples`].
    pub tables: Vec<SampleTable>,
}

impl Index {
    /// Loads everything into memory, so that nothing is left in scratch space.
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

/// Limits on the resources a film may use, and defaults for what it may omit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// The longest `moov` or `moof` that is read, in bytes; most of it lies in scratch space.
    pub max_box: u64,
    /// The maximum number of samples of all tracks together; each takes 18 bytes.
    pub max_samples: u32,
    /// The maximum number of subtitle samples read one by one, as MP4 scatters them over the file.
    pub max_texts: u32,
    /// The longest film, in nanoseconds: what viewers need is planned per quarter second.
    pub max_duration: Nanos,
    /// Pictures per second, as a fraction, of elementary streams that do not state it.
    pub frame_rate: (u32, u32),
}

impl Default for IndexOptions {
    /// 256 MiB, 16 million samples (a day at 60 pictures per second with two audio tracks) and
    /// 100,000 of subtitles; two weeks; 25 pictures per second.
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

/// The number of bytes that are read first; they identify the container.
pub(crate) const FIRST: u64 = 4 << 10;

/// Checks that as many bytes were fed as were requested.
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
    /// Checks that a film is not too long. The error states its duration and the limit.
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

/// The next step of an [`Indexer`](crate::Indexer).
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is moved once a film, a box would be one more thing to unpack"
)]
pub enum Step {
    /// Feed all of these bytes of the file to [`Indexer::feed`](crate::Indexer::feed). The range is
    /// never empty and never extends past the end of the file.
    Need(Range<u64>),
    /// The index is complete.
    Done(Index),
}

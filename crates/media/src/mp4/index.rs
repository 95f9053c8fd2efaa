//! The indexer: which bytes of a film are wanted next, until its title is known.

use std::io;
use std::ops::Range;

use super::error::{IndexError, Trouble};
use crate::{SampleTable, Title};

/// A film understood: its title and the samples of each of its tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Tracks, groups, times.
    pub title: Title,
    /// One table for each of `title.tracks`, in the same order; implements [`crate::Samples`].
    pub tables: Vec<SampleTable>,
}

/// Limits on what a film may make us hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOptions {
    /// Longest `moov` or `moof` that is read, in bytes.
    pub max_box: u64,
    /// Most samples of all tracks together; each takes 18 bytes.
    pub max_samples: u32,
}

impl Default for IndexOptions {
    /// 256 MiB, and 16 million samples (a day of 60 pictures a second with two sound tracks).
    fn default() -> Self {
        IndexOptions {
            max_box: 256 << 20,
            max_samples: 1 << 24,
        }
    }
}

/// What an [`Indexer`] wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// These bytes of the file, whole, by [`Indexer::feed`]. Never empty, never past the file's end.
    Need(Range<u64>),
    /// Nothing more: here is the index.
    Done(Index),
}

/// Turns an MP4 file into an [`Index`] without reading it: it says which bytes it needs.
///
/// ```
/// # fn film(_: std::ops::Range<u64>) -> Vec<u8> { unreachable!() }
/// # fn index(len: u64) -> Result<reelway_media::Index, reelway_media::IndexError> {
/// use reelway_media::{Indexer, IndexOptions, Step};
/// let mut indexer = Indexer::new(len, IndexOptions::default());
/// loop {
///     match indexer.step()? {
///         Step::Need(range) => indexer.feed(&film(range))?,
///         Step::Done(index) => return Ok(index),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Indexer {
    len: u64,
}

impl Indexer {
    /// For a file of `file_len` bytes.
    pub fn new(file_len: u64, _options: IndexOptions) -> Self {
        Indexer { len: file_len }
    }

    /// What is wanted now. Repeats itself until fed; after `Done` it has no more to give.
    pub fn step(&mut self) -> Result<Step, IndexError> {
        let _ = self.len;
        Err(IndexError {
            path: String::new(),
            offset: 0,
            problem: "not yet".into(),
            kind: Trouble::Unplayable,
        })
    }

    /// The bytes of the range that [`Indexer::step`] asked for.
    pub fn feed(&mut self, _bytes: &[u8]) -> Result<(), IndexError> {
        Ok(())
    }
}

/// Why a film could not be read and indexed.
#[derive(Debug, thiserror::Error)]
pub enum ReadIndexError {
    /// Reading failed.
    #[error("reading bytes {}..{}: {source}", range.start, range.end)]
    Io {
        /// What was to be read.
        range: Range<u64>,
        /// What the reader said.
        source: io::Error,
    },
    /// The film is not as it should be.
    #[error(transparent)]
    Film(#[from] IndexError),
}

/// Indexes a film of `len` bytes; `read` fills the (empty) vector with the bytes of a range.
pub fn index_with(
    mut read: impl FnMut(Range<u64>, &mut Vec<u8>) -> io::Result<()>,
    len: u64,
    options: IndexOptions,
) -> Result<Index, ReadIndexError> {
    let mut indexer = Indexer::new(len, options);
    let mut bytes = Vec::new();
    loop {
        match indexer.step()? {
            Step::Done(index) => return Ok(index),
            Step::Need(range) => {
                bytes.clear();
                read(range.clone(), &mut bytes)
                    .map_err(|source| ReadIndexError::Io { range, source })?;
                indexer.feed(&bytes)?;
            }
        }
    }
}

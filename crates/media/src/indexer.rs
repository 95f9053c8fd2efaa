//! A film file becomes an index, whatever its container.

use std::io;
use std::ops::Range;

use crate::index::{FIRST, Index, IndexOptions, Step};
use crate::index_error::IndexError;
use crate::mpeg::Carrier;
use crate::{matroska, mp4, mpeg};

/// Turns a film file into an [`Index`] without reading it: it says which bytes it needs.
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
pub struct Indexer(Container);

/// Whether a film of `len` bytes that begins with these (4 KiB, or all of it) is read whole to be indexed, and its beginning is
/// a film, too: its container has packets, and no tables.
pub fn is_read_whole(head: &[u8], len: u64) -> bool {
    let carrier = Carrier::of_file(head, len);
    // The last picture of a part of a stream would be cut.
    carrier.is_some_and(|carrier| carrier != Carrier::Nothing)
}

/// What a file is, as far as that is known.
#[derive(Debug)]
enum Container {
    /// Its first bytes tell.
    Unknown(u64, IndexOptions),
    Mp4(mp4::Reader),
    Matroska(matroska::Reader),
    Mpeg(Box<mpeg::Reader>),
}

impl Indexer {
    /// For a file of `file_len` bytes.
    pub fn new(file_len: u64, options: IndexOptions) -> Self {
        Indexer(match file_len {
            // That it is empty is said as of an MP4 file.
            0 => Container::Mp4(mp4::Reader::new(file_len, options)),
            _ => Container::Unknown(file_len, options),
        })
    }

    /// What is wanted now. Repeats itself until fed; after `Done` there is no more to be had.
    ///
    /// # Errors
    /// The film is not as it should be.
    pub fn step(&mut self) -> Result<Step, IndexError> {
        match &mut self.0 {
            Container::Unknown(len, _) => Ok(Step::Need(0..FIRST.min(*len))),
            Container::Mp4(reader) => reader.step(),
            Container::Matroska(reader) => reader.step(),
            Container::Mpeg(reader) => reader.step(),
        }
    }

    /// The bytes of the range that [`Indexer::step`] asked for, all of them.
    ///
    /// # Errors
    /// The film is not as it should be.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        if let Container::Unknown(len, options) = self.0 {
            if let Some(carrier) = Carrier::of_file(bytes, len) {
                // It wants more of the beginning.
                let reader = mpeg::Reader::new(len, carrier, bytes, options);
                self.0 = Container::Mpeg(Box::new(reader));
                return Ok(());
            }
            self.0 = match matroska::begins(bytes) {
                true => Container::Matroska(matroska::Reader::new(len, options)),
                false => Container::Mp4(mp4::Reader::new(len, options)),
            };
        }
        match &mut self.0 {
            Container::Unknown(..) => Ok(()),
            Container::Mp4(reader) => reader.feed(bytes),
            Container::Matroska(reader) => reader.feed(bytes),
            Container::Mpeg(reader) => reader.feed(bytes),
        }
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

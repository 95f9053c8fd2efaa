//! Indexes a film file, whatever its container.

use std::io;
use std::ops::Range;

use crate::index::{FIRST, Index, IndexOptions, Step};
use crate::index_error::{IndexError, IndexErrorKind};
use crate::mpeg::Carrier;
use crate::scratch::Scratch;
use crate::{matroska, mp4, mpeg};

/// Builds the [`Index`] of a film file without doing I/O: it requests the byte ranges it needs.
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
    container: Container,
    options: IndexOptions,
    scratch: Scratch,
}

/// Returns whether a film of `len` bytes is read whole to be indexed and its beginning alone is a
/// film, too: its container has packets and no tables. `head`: the first 4 KiB, or all of the film.
pub fn is_read_whole(head: &[u8], len: u64) -> bool {
    let carrier = Carrier::of_file(head, len);
    // In a bare elementary stream, the last picture of such a part would be truncated.
    carrier.is_some_and(|carrier| carrier != Carrier::Nothing)
}

/// The container, as far as it is known.
#[derive(Debug)]
enum Container {
    /// Not identified yet; the first bytes will show.
    Unknown(u64, IndexOptions),
    Mp4(mp4::Reader),
    Matroska(matroska::Reader),
    Mpeg(Box<mpeg::Reader>),
}

impl Indexer {
    /// Creates an indexer for a file of `file_len` bytes.
    pub fn new(file_len: u64, options: IndexOptions) -> Self {
        Indexer::with_scratch(file_len, options, Scratch::default())
    }

    /// Like `Indexer::new`, but puts data that grows with the film's length, including the tables
    /// of the index, into scratch space.
    pub fn with_scratch(file_len: u64, options: IndexOptions, scratch: Scratch) -> Self {
        let container = match file_len {
            // An empty file is reported as an MP4 file.
            0 => Container::Mp4(mp4::Reader::new(file_len, options, &scratch)),
            _ => Container::Unknown(file_len, options),
        };
        Indexer {
            container,
            options,
            scratch,
        }
    }

    /// Returns what is needed next. Repeats itself until fed; nothing follows `Done`.
    ///
    /// # Errors
    /// The film is damaged or not supported, or scratch space cannot be read.
    pub fn step(&mut self) -> Result<Step, IndexError> {
        let step = match &mut self.container {
            Container::Unknown(len, _) => Ok(Step::Need(0..FIRST.min(*len))),
            Container::Mp4(reader) => reader.step(),
            Container::Matroska(reader) => reader.step(),
            Container::Mpeg(reader) => reader.step(),
        };
        // An index built without some of that data is wrong.
        self.scratch.check()?;
        if let Ok(Step::Done(index)) = &step {
            let length = self.options.check_duration(index.title.duration);
            length.map_err(|problem| IndexError {
                path: "film".to_owned(),
                offset: 0,
                problem,
                kind: IndexErrorKind::TooLarge,
            })?;
        }
        step
    }

    /// Takes the bytes of the range that [`Indexer::step`] requested, all of them.
    ///
    /// # Errors
    /// The film is damaged or not supported, or scratch space cannot be read.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        let scratch = &self.scratch;
        if let Container::Unknown(len, options) = self.container {
            if let Some(carrier) = Carrier::of_file(bytes, len) {
                // The reader requests more of the beginning.
                let reader = mpeg::Reader::new(len, carrier, bytes, options, scratch);
                self.container = Container::Mpeg(Box::new(reader));
                return Ok(());
            }
            self.container = match matroska::begins(bytes) {
                true => Container::Matroska(matroska::Reader::new(len, options, scratch)),
                false => Container::Mp4(mp4::Reader::new(len, options, scratch)),
            };
        }
        let fed = match &mut self.container {
            Container::Unknown(..) => Ok(()),
            Container::Mp4(reader) => reader.feed(bytes),
            Container::Matroska(reader) => reader.feed(bytes),
            Container::Mpeg(reader) => reader.feed(bytes),
        };
        // If scratch data is missing, the film may seem damaged.
        self.scratch.check()?;
        fed
    }
}

/// Reasons why a film could not be read and indexed.
#[derive(Debug, thiserror::Error)]
pub enum ReadIndexError {
    /// Reading failed.
    #[error("reading bytes {}..{}: {source}", range.start, range.end)]
    Io {
        /// The range that was being read.
        range: Range<u64>,
        /// The error of the read.
        source: io::Error,
    },
    /// The film is damaged or not supported.
    #[error(transparent)]
    Film(#[from] IndexError),
}

/// The state of indexing a recording before its last bytes were read. When it has grown, indexing
/// resumes from there.
#[derive(Clone, Debug)]
pub struct Unfinished {
    reader: Box<mpeg::Reader>,
    options: IndexOptions,
    scratch: Scratch,
}

impl Unfinished {
    /// Returns an indexer for the same file, which has grown to `len` bytes and is otherwise
    /// unchanged. It keeps using the same scratch space.
    pub fn go_on(mut self, len: u64) -> Indexer {
        self.reader.grow(len);
        Indexer {
            container: Container::Mpeg(self.reader),
            options: self.options,
            scratch: self.scratch,
        }
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        self.reader.memory()
    }

    /// Returns the use of scratch space in bytes.
    pub fn aside(&self) -> u64 {
        self.reader.aside()
    }
}

/// Indexes a film of `len` bytes; `read` fills the (empty) vector with the bytes of a range.
///
/// # Errors
/// The film cannot be read, or is damaged or not supported.
pub fn index_with(
    read: impl FnMut(Range<u64>, &mut Vec<u8>) -> io::Result<()>,
    len: u64,
    options: IndexOptions,
) -> Result<Index, ReadIndexError> {
    index_by(Indexer::new(len, options), read, None)
}

/// Indexes a film that may still grow. With `keep`, also returns a copy of the state from which
/// indexing can resume, or `None` if this kind of film must be indexed anew. `read` as for
/// [`index_with`].
///
/// # Errors
/// The film cannot be read, or is damaged or not supported.
pub fn index_growing(
    indexer: Indexer,
    keep: bool,
    read: impl FnMut(Range<u64>, &mut Vec<u8>) -> io::Result<()>,
) -> Result<(Index, Option<Unfinished>), ReadIndexError> {
    let mut unfinished = None;
    let index = index_by(indexer, read, keep.then_some(&mut unfinished))?;
    Ok((index, unfinished))
}

/// `unfinished`: where to put the state from which indexing can resume.
fn index_by(
    mut indexer: Indexer,
    mut read: impl FnMut(Range<u64>, &mut Vec<u8>) -> io::Result<()>,
    mut unfinished: Option<&mut Option<Unfinished>>,
) -> Result<Index, ReadIndexError> {
    let mut bytes = Vec::new();
    loop {
        match indexer.step()? {
            Step::Done(index) => return Ok(index),
            Step::Need(range) => {
                if let (Some(unfinished), Container::Mpeg(reader)) =
                    (&mut unfinished, &indexer.container)
                    && reader.is_at_the_last()
                {
                    **unfinished = Some(Unfinished {
                        reader: reader.clone(),
                        options: indexer.options,
                        scratch: indexer.scratch.clone(),
                    });
                }
                bytes.clear();
                read(range.clone(), &mut bytes)
                    .map_err(|source| ReadIndexError::Io { range, source })?;
                indexer.feed(&bytes)?;
            }
        }
    }
}

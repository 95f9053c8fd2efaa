//! A film file becomes an index, whatever its container.

use std::io;
use std::ops::Range;

use crate::index::{FIRST, Index, IndexOptions, Step};
use crate::index_error::{IndexError, IndexErrorKind};
use crate::mpeg::Carrier;
use crate::scratch::Scratch;
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
pub struct Indexer {
    container: Container,
    options: IndexOptions,
    scratch: Scratch,
}

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
        Indexer::with_scratch(file_len, options, Scratch::default())
    }

    /// The same; what grows with the length of the film goes into scratch space, so do the tables of its index.
    pub fn with_scratch(file_len: u64, options: IndexOptions, scratch: Scratch) -> Self {
        let container = match file_len {
            // That it is empty is said as of an MP4 file.
            0 => Container::Mp4(mp4::Reader::new(file_len, options, &scratch)),
            _ => Container::Unknown(file_len, options),
        };
        Indexer {
            container,
            options,
            scratch,
        }
    }

    /// What is wanted now. Repeats itself until fed; after `Done` there is no more to be had.
    ///
    /// # Errors
    /// The film is not as it should be, or scratch space cannot be read.
    pub fn step(&mut self) -> Result<Step, IndexError> {
        let step = match &mut self.container {
            Container::Unknown(len, _) => Ok(Step::Need(0..FIRST.min(*len))),
            Container::Mp4(reader) => reader.step(),
            Container::Matroska(reader) => reader.step(),
            Container::Mpeg(reader) => reader.step(),
        };
        // Whatever was made without some of it is not right.
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

    /// The bytes of the range that [`Indexer::step`] asked for, all of them.
    ///
    /// # Errors
    /// The film is not as it should be, or scratch space cannot be read.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        let scratch = &self.scratch;
        if let Container::Unknown(len, options) = self.container {
            if let Some(carrier) = Carrier::of_file(bytes, len) {
                // It wants more of the beginning.
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
        // What was read without some of it may seem to be damaged.
        self.scratch.check()?;
        fed
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

/// What is known of a recording before its last bytes were read: when it has grown, indexing goes on from there.
#[derive(Clone, Debug)]
pub struct Unfinished {
    reader: Box<mpeg::Reader>,
    options: IndexOptions,
    scratch: Scratch,
}

impl Unfinished {
    /// An indexer of the same file, which has become `len` bytes long and has the same bytes as before. It goes on in the same
    /// scratch space.
    pub fn go_on(mut self, len: u64) -> Indexer {
        self.reader.grow(len);
        Indexer {
            container: Container::Mpeg(self.reader),
            options: self.options,
            scratch: self.scratch,
        }
    }

    /// Bytes of memory that it takes, about.
    pub fn memory(&self) -> usize {
        self.reader.memory()
    }

    /// Bytes of scratch space that it takes.
    pub fn aside(&self) -> u64 {
        self.reader.aside()
    }
}

/// Indexes a film of `len` bytes; `read` fills the (empty) vector with the bytes of a range.
///
/// # Errors
/// The film cannot be read, or is not as it should be.
pub fn index_with(
    read: impl FnMut(Range<u64>, &mut Vec<u8>) -> io::Result<()>,
    len: u64,
    options: IndexOptions,
) -> Result<Index, ReadIndexError> {
    index_by(Indexer::new(len, options), read, None)
}

/// Indexes a film that may still grow. `keep`: with what is needed to go on from there, a copy of all that is known; `None`: this
/// kind of film is indexed anew. `read` as for [`index_with`].
///
/// # Errors
/// The film cannot be read, or is not as it should be.
pub fn index_growing(
    indexer: Indexer,
    keep: bool,
    read: impl FnMut(Range<u64>, &mut Vec<u8>) -> io::Result<()>,
) -> Result<(Index, Option<Unfinished>), ReadIndexError> {
    let mut unfinished = None;
    let index = index_by(indexer, read, keep.then_some(&mut unfinished))?;
    Ok((index, unfinished))
}

/// `unfinished`: where to put what is needed to go on.
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

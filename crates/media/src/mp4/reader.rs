//! Determines which bytes of a file are needed next, until its boxes are known.

use std::ops::Range;

use super::boxes::{Header, Place, fourcc};
use super::fragments;
use super::kept::Kept;
use super::limits::{Limits, MOST_DESCRIBED};
use super::moov::Movie;
use super::timeline::lay_out;
use crate::Container;
use crate::index::{FIRST, IndexOptions, Step, check_whole};
use crate::index_error::{IndexError, IndexErrorKind};
use crate::scratch::Scratch;
use crate::spool::Spool;

/// Walks the boxes of a file: it requests the bytes it needs, and is fed them.
#[derive(Debug)]
pub struct Reader {
    len: u64,
    options: IndexOptions,
    limits: Limits,
    /// The offset of the next box.
    at: u64,
    /// The box at `at`, while it is being collected.
    gathering: Option<Gathering>,
    /// How many bytes to request if only a header may be needed.
    window: u64,
    boxes: u32,
    moofs: u32,
    movie: Option<Movie>,
    /// A fragment whose media may not be complete yet.
    fragment: Option<Fragment>,
    done: bool,
    /// Whether reading of the subtitle texts has begun.
    begun: bool,
}

/// A partly read `moov` or `moof` box.
#[derive(Debug)]
struct Gathering {
    header: Header,
    /// The size of the whole box in bytes.
    size: u64,
    /// The body so far.
    body: Spool<1>,
}

impl Gathering {
    /// Returns the number of bytes of the box that have been read.
    fn known(&self) -> u64 {
        (self.header.len + self.body.bytes()) as u64
    }
}

/// A `moof` box.
#[derive(Debug)]
struct Fragment {
    /// The offset of the box, and the size of its header in bytes.
    at: u64,
    header: usize,
    body: Spool<1>,
}

/// Bytes requested at a box that will probably be skipped.
const SMALL_WINDOW: u64 = FIRST;
/// Bytes requested where several small boxes follow each other.
const LARGE_WINDOW: u64 = 64 << 10;
/// Bytes of `moov` or `moof` requested at once and held in memory; fewer for the fuzzer.
const PIECE: u64 = if cfg!(fuzzing) { 1 << 10 } else { 2 << 20 };
/// The maximum number of boxes in a file.
const MAX_BOXES: u32 = 1 << 22;

impl Reader {
    /// Creates a reader for a file of `file_len` bytes, whose tables go into scratch space.
    pub fn new(file_len: u64, options: IndexOptions, scratch: &Scratch) -> Self {
        Reader {
            len: file_len,
            options,
            limits: Limits {
                file_len,
                samples: options.max_samples,
                unsized_bytes: file_len,
                described: MOST_DESCRIBED,
                scratch: scratch.clone(),
            },
            at: 0,
            gathering: None,
            window: SMALL_WINDOW,
            boxes: 0,
            moofs: 0,
            movie: None,
            fragment: None,
            done: false,
            begun: false,
        }
    }

    /// See [`crate::Indexer::step`].
    pub fn step(&mut self) -> Result<Step, IndexError> {
        if self.wanted().is_none() {
            self.end_fragments()?;
        }
        if self.wanted().is_none()
            && !std::mem::replace(&mut self.begun, true)
            && let Some(movie) = &mut self.movie
        {
            for note in movie.subtitles.begin(self.options.max_texts) {
                movie.note(note);
            }
        }
        if let Some(range) = self.wanted().or_else(|| self.text()) {
            return Ok(Step::Need(range));
        }
        let container = if self.moofs > 0 {
            Container::FragmentedMp4
        } else {
            Container::Mp4
        };
        match self.movie.take() {
            Some(mut movie) => {
                movie.join_units();
                lay_out(movie, container).map(Step::Done)
            }
            None if self.len == 0 => {
                Err(self.error(IndexErrorKind::Incomplete, "the file is empty".into()))
            }
            None => Err(self.error(
                IndexErrorKind::Incomplete,
                "there is no moov box, which describes the tracks".into(),
            )),
        }
    }

    /// See [`crate::Indexer::feed`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        let Some(range) = self.wanted() else {
            if let (Some(text), Some(movie)) = (self.text(), &mut self.movie) {
                check_whole(&text, bytes)?;
                match movie.chapters.wanted() {
                    Some(_) => movie.chapters.feed(bytes),
                    None => movie.subtitles.feed(bytes),
                }
            }
            return Ok(());
        };
        check_whole(&range, bytes)?;
        if let Some(mut gathering) = self.gathering.take() {
            gathering.body.append(bytes);
            return self.gather(gathering).map(|_| ());
        }
        while self.at < range.end && !self.done {
            let have = &bytes[(self.at - range.start) as usize..];
            let Some(header) = Header::parse(have) else {
                if range.end == self.len {
                    self.trailing(self.len - self.at)?;
                }
                break; // requested again from this box on
            };
            if !self.one(header, have)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns the range of the next chapter or subtitle text, once the boxes are known.
    fn text(&self) -> Option<Range<u64>> {
        let movie = self.movie.as_ref()?;
        let chapters = movie.chapters.wanted();
        chapters.or_else(|| movie.subtitles.wanted())
    }

    /// Returns the range to be fed next; `None` at the end.
    fn wanted(&self) -> Option<Range<u64>> {
        let range = match &self.gathering {
            Some(gathering) => {
                let start = self.at + gathering.known();
                start..(start + PIECE).min(self.at + gathering.size)
            }
            None => self.at..self.len.min(self.at.saturating_add(self.window)),
        };
        (!self.done && range.start < range.end).then_some(range)
    }

    /// Handles the box at `self.at`, which begins with `have`. `false`: the rest of it is needed.
    fn one(&mut self, header: Header, have: &[u8]) -> Result<bool, IndexError> {
        let left = self.len - self.at;
        let size = header.size.unwrap_or(left);
        if self.at == 0 && !begins_a_film(header.kind) {
            // Some copying programs first reserve space for the whole file.
            let zeros = have.iter().all(|byte| *byte == 0);
            let (kind, problem) = match zeros {
                true => (
                    IndexErrorKind::Incomplete,
                    "the file begins with zeros".into(),
                ),
                false => (
                    IndexErrorKind::UnknownContainer,
                    format!("the file begins with `{}`", fourcc(header.kind)),
                ),
            };
            return Err(self.error(kind, problem));
        }
        let impossible = size < header.len as u64 || size > left;
        // Anything is accepted after the film: some programs leave scraps there.
        if self.movie.is_some()
            && (impossible || header.kind == [0; 4])
            && !KNOWN.contains(&&header.kind)
        {
            self.trailing(left)?;
            return Ok(true);
        }
        if size > left && self.is_recording(header.kind) {
            self.cut();
            return Ok(true);
        }
        if impossible {
            return match size > left {
                true => self.refuse(
                    header.kind,
                    IndexErrorKind::Incomplete,
                    format!("says it is {size} bytes long; the file ends after {left}"),
                ),
                false => self.refuse(
                    header.kind,
                    IndexErrorKind::Damaged,
                    format!("says it is {size} bytes long, shorter than its header"),
                ),
            };
        }
        // The bytes after a fragment are its media.
        self.take_fragment()?;
        self.boxes += 1;
        if self.boxes > MAX_BOXES {
            return self.refuse(
                header.kind,
                IndexErrorKind::TooLarge,
                format!("is more than the {MAX_BOXES}th box"),
            );
        }
        let wanted = match &header.kind {
            b"moov" => self.movie.is_none(),
            b"moof" => true,
            _ => false,
        };
        if wanted {
            if size > self.options.max_box {
                return self.refuse(
                    header.kind,
                    IndexErrorKind::TooLarge,
                    format!("takes {size} bytes; {} are allowed", self.options.max_box),
                );
            }
            let mut body = Spool::new(&self.limits.scratch);
            let known = have.len().min(size as usize);
            body.append(have.get(header.len..known).unwrap_or_default());
            return self.gather(Gathering { header, size, body });
        }
        self.pass(size, false);
        Ok(true)
    }

    /// Reads a box once it is complete. Returns `false` if its other bytes are needed.
    fn gather(&mut self, found: Gathering) -> Result<bool, IndexError> {
        let size = found.size;
        if found.known() < size {
            self.gathering = Some(found);
            return Ok(false);
        }
        self.tables(found.header, found.body)?;
        self.pass(size, true);
        Ok(true)
    }

    /// Moves past a box.
    fn pass(&mut self, size: u64, wanted: bool) {
        self.at += size;
        // Fragments are similar: request twice the size of the last one, for boxes in between.
        self.window = match size {
            size if wanted => (2 * size).clamp(SMALL_WINDOW, LARGE_WINDOW),
            size if size <= 2 * LARGE_WINDOW && self.moofs > 0 => LARGE_WINDOW,
            _ => self.window,
        };
    }

    /// Reads `moov` or `moof`.
    fn tables(&mut self, header: Header, body: Spool<1>) -> Result<(), IndexError> {
        if header.kind == *b"moof" {
            self.fragment = Some(Fragment {
                at: self.at,
                header: header.len,
                body,
            });
            return Ok(());
        }
        let place = Place {
            kind: header.kind,
            offset: self.at,
            header: header.len,
            number: 0,
            parent: None,
        };
        let body = Kept::new(body);
        let found = body.boxed(place);
        let movie = self.movie.insert(Movie::parse(&found, &mut self.limits)?);
        // If no fragments can follow, the rest of the file is not needed.
        self.done = movie.fragments.is_none();
        Ok(())
    }

    /// Reads the pending fragment, if there is one: its media is complete.
    fn take_fragment(&mut self) -> Result<(), IndexError> {
        let Some(Fragment { at, header, body }) = self.fragment.take() else {
            return Ok(());
        };
        self.moofs += 1;
        let place = Place {
            kind: *b"moof",
            offset: at,
            header,
            number: self.moofs,
            parent: None,
        };
        let body = Kept::new(body);
        let found = body.boxed(place);
        let Some(movie) = &mut self.movie else {
            return Err(found.damaged("comes before the moov box"));
        };
        fragments::read(&found, &mut self.limits, movie)
    }

    /// Returns whether a truncated box of this kind ends a recording, after whole fragments.
    fn is_recording(&self, kind: [u8; 4]) -> bool {
        self.moofs > 0 && matches!(&kind, b"moof" | b"mdat")
    }

    /// Ends the film before the truncated fragment.
    fn cut(&mut self) {
        let at = self.fragment.take().map_or(self.at, |fragment| fragment.at);
        if let Some(movie) = &mut self.movie {
            movie.note(format!(
                "the fragment at byte {at} is cut off; the film ends there"
            ));
        }
        self.at = self.len;
    }

    /// Handles the end of the file: drops an incomplete fragment, unless it is the only one.
    fn end_fragments(&mut self) -> Result<(), IndexError> {
        if self.fragment.is_some() && self.is_recording(*b"moof") {
            self.cut();
        }
        self.take_fragment()
    }

    /// Skips the last `left` bytes of the file, which are not a box.
    fn trailing(&mut self, left: u64) -> Result<(), IndexError> {
        let Some(movie) = &mut self.movie else {
            return Err(self.error(
                IndexErrorKind::Incomplete,
                format!("the last {left} bytes of the file are no box"),
            ));
        };
        movie.note(format!("{left} bytes after the film skipped"));
        self.at = self.len;
        Ok(())
    }

    /// Returns an error that concerns the file itself.
    fn error(&self, kind: IndexErrorKind, problem: String) -> IndexError {
        IndexError {
            path: String::new(),
            offset: self.at,
            problem,
            kind,
        }
    }

    /// Returns an error that concerns the box at `self.at`.
    fn refuse(
        &self,
        of: [u8; 4],
        kind: IndexErrorKind,
        problem: String,
    ) -> Result<bool, IndexError> {
        Err(IndexError {
            path: fourcc(of),
            ..self.error(kind, problem)
        })
    }
}

/// Top-level boxes of a file (ISO/IEC 14496-12 table 1, QuickTime).
const KNOWN: [&[u8; 4]; 18] = [
    b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"uuid", b"styp", b"sidx",
    b"ssix", b"prft", b"emsg", b"moof", b"mfra", b"meta", b"pdin", b"udta",
];

fn begins_a_film(kind: [u8; 4]) -> bool {
    KNOWN.contains(&&kind)
}

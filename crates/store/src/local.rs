//! A film in a local file, or in several that follow each other, and how the reading of one of its blocks goes on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reelway_sys::files::is_fuse;
use reelway_sys::parts::{Part, Parts};
use reelway_sys::{FileIdentity, Mark, open_direct};

use crate::config::ReadBy;
use crate::error::ReadError;

/// Direct reads begin at multiples of so many bytes of a file.
const ALIGNED: u64 = 4096;

/// A film that was opened.
#[derive(Debug)]
pub(crate) struct LocalFile {
    pub path: PathBuf,
    pub identity: FileIdentity,
    /// By what it may be read.
    pub by: ReadBy,
    parts: Parts,
    /// Each of its files, past the page cache, where its file system allows it.
    direct: Vec<Option<Arc<File>>>,
    direct_refused: AtomicBool,
    /// By what it is known to be the same though it has grown; `None`: it must not have changed at all.
    mark: Option<Mark>,
}

impl LocalFile {
    /// Opens a file; and why it cannot be read past the page cache, where that is so.
    ///
    /// Files of FUSE are read by threads: a ring's read that such a file system answers in part (Linux
    /// 6.18, `FOPEN_DIRECT_IO`) comes back as a whole one, with the first bytes again in the rest.
    ///
    /// `known` is what the file was before, where it may have grown since, and its mark: if it has, it is opened as what it
    /// was.
    pub fn open(
        path: &Path,
        known: Option<(FileIdentity, Mark)>,
    ) -> io::Result<(LocalFile, Option<io::Error>)> {
        let parts = Parts::open(path)?;
        let own = parts.identity();
        let known = known.filter(|(known, mark)| is_still(&parts, &own, known, Some(mark)));
        let (identity, mark) = known.map_or((own, None), |(known, mark)| (known, Some(mark)));
        let is_ring = |part: &Part| matches!(is_fuse(&part.file), Ok(false));
        let by = match parts.all().iter().all(is_ring) {
            true => ReadBy::Ring,
            false => ReadBy::Threads,
        };
        let mut refused = None;
        let direct = parts.all().iter().map(|part| {
            let direct = open_same_direct(part, mark.is_some());
            direct.map_err(|error| refused = Some(error)).ok()
        });
        let direct = direct.collect();
        let file = LocalFile {
            path: path.to_path_buf(),
            identity,
            by,
            parts,
            direct,
            direct_refused: AtomicBool::new(false),
            mark,
        };
        Ok((file, refused))
    }

    /// Fails if the file is another than the one opened.
    fn check(&self) -> Result<(), ReadError> {
        match self.parts.identity_now() {
            Ok(now) if is_still(&self.parts, &now, &self.identity, self.mark.as_ref()) => Ok(()),
            Ok(_) => Err(ReadError::Changed {
                path: self.path.clone(),
            }),
            Err(error) => Err(self.error(0, error)),
        }
    }

    /// The file that has this byte of the film, and which of its bytes that is. `direct`: past the page cache, if it can be.
    fn at(&self, offset: u64, direct: bool) -> (Arc<File>, u64) {
        let number = self.parts.number_at(offset);
        let (part, past_cache) = (&self.parts.all()[number], &self.direct[number]);
        let within = offset - part.start;
        let file = match past_cache {
            Some(file) if direct && within.is_multiple_of(ALIGNED) => file,
            _ => &part.file,
        };
        (Arc::clone(file), within)
    }

    fn may_read_direct(&self) -> bool {
        let has_direct = self.direct.iter().any(Option::is_some);
        has_direct && !self.direct_refused.load(Ordering::Relaxed)
    }

    fn error(&self, offset: u64, error: io::Error) -> ReadError {
        ReadError::Io {
            path: self.path.clone(),
            offset,
            error: Arc::new(error),
        }
    }
}

/// Opens a file for direct reads, which is open already. The path may have come to name another one in between; then it is
/// not taken. `may_grow`: it may have become longer.
fn open_same_direct(part: &Part, may_grow: bool) -> io::Result<Arc<File>> {
    let known = FileIdentity::from(&part.file.metadata()?);
    let file = open_direct(&part.path)?;
    let now = FileIdentity::from(&file.metadata()?);
    let same = now == known || (may_grow && known.may_have_grown_into(&now));
    same.then_some(Arc::new(file))
        .ok_or_else(|| io::Error::other("the file was replaced while it was opened"))
}

/// Whether a file, which is `now`, is what it was: `known`, or grown since, where its mark is known.
fn is_still(parts: &Parts, now: &FileIdentity, known: &FileIdentity, mark: Option<&Mark>) -> bool {
    let is_of = |mark: &Mark| {
        parts
            .only()
            .is_some_and(|file| mark.is_of(file, known.size))
    };
    let has_grown = |mark: &Mark| known.may_have_grown_into(now) && is_of(mark);
    now == known || mark.is_some_and(has_grown)
}

/// How far the reading of a block is. Most are one direct read; a short one is continued through the
/// page cache, since what is left is not aligned any more.
pub(crate) struct Progress {
    pub file: Arc<LocalFile>,
    offset: u64,
    wanted: usize,
    have: usize,
    direct: bool,
}

/// What to do after a read.
pub(crate) enum Step {
    /// One more.
    Read,
    /// One more, through the page cache: direct reads are refused here.
    ReadBuffered(io::Error),
    /// The block is done.
    Done(Result<(), ReadError>),
}

impl Progress {
    pub fn new(file: Arc<LocalFile>, offset: u64, wanted: usize) -> Progress {
        let direct = file.may_read_direct();
        Progress {
            file,
            offset,
            wanted,
            have: 0,
            direct,
        }
    }

    /// Whether the file is still the one opened: asked before the first read, and after the last.
    pub fn check(&self) -> Result<(), ReadError> {
        match self.have {
            0 => self.file.check(),
            _ => Ok(()),
        }
    }

    /// From which file, from which of its bytes on, to which byte of the block. Where the film goes on in another file, the
    /// read is a short one.
    pub fn next(&self) -> (Arc<File>, u64, usize) {
        let (file, within) = self.file.at(self.offset + self.have as u64, self.direct);
        (file, within, self.have)
    }

    pub fn read_blocking(&self, into: &mut [u8]) -> io::Result<usize> {
        let (file, offset, from) = self.next();
        file.read_at(&mut into[from..], offset)
    }

    /// Takes what a read gave.
    pub fn took(&mut self, result: io::Result<usize>) -> Step {
        let direct = std::mem::replace(&mut self.direct, false);
        let error = match result {
            Ok(bytes) => {
                self.have += bytes;
                if self.have >= self.wanted {
                    return Step::Done(self.file.check());
                }
                if bytes > 0 || direct {
                    return Step::Read;
                }
                io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the file ends before it should",
                )
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {
                    self.direct = direct;
                    return Step::Read;
                }
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported if direct => {
                    self.file.direct_refused.store(true, Ordering::Relaxed);
                    return Step::ReadBuffered(error);
                }
                _ => error,
            },
        };
        // A file cut short gives an error of reading too; that it changed is the truer reason.
        let result = self
            .file
            .check()
            .and_then(|()| Err(self.file.error(self.offset + self.have as u64, error)));
        Step::Done(result)
    }
}

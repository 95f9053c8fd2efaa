//! A film in one local file, or in several consecutive ones, and the progress of reading one of its
//! blocks.

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

/// Direct reads begin at multiples of this many bytes in a file.
const ALIGNED: u64 = 4096;

/// An opened film.
#[derive(Debug)]
pub(crate) struct LocalFile {
    pub path: PathBuf,
    pub identity: FileIdentity,
    /// How it may be read.
    pub by: ReadBy,
    parts: Parts,
    /// Each of its files for access past the page cache, if its file system allows that.
    direct: Vec<Option<Arc<File>>>,
    direct_refused: AtomicBool,
    /// The mark by which the file is recognised after it has grown. `None`: it must not have
    /// changed at all.
    mark: Option<Mark>,
}

impl LocalFile {
    /// Opens a film. Also returns why it cannot be read past the page cache, if it cannot.
    ///
    /// Files on FUSE are read by threads: if such a file system answers a ring's read only in part
    /// (Linux 6.18, `FOPEN_DIRECT_IO`), the read returns as complete, with its first bytes repeated
    /// in the rest.
    ///
    /// `known` is the earlier identity and mark of a file that may have grown since. If it has, it
    /// is opened as the earlier version.
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

    /// Fails if the file is not the one opened.
    fn check(&self) -> Result<(), ReadError> {
        match self.parts.identity_now() {
            Ok(now) if is_still(&self.parts, &now, &self.identity, self.mark.as_ref()) => Ok(()),
            Ok(_) => Err(ReadError::Changed {
                path: self.path.clone(),
            }),
            Err(error) => Err(self.error(0, error)),
        }
    }

    /// Returns the file that contains this byte of the film, and the offset in it. `direct`: for
    /// access past the page cache, if possible.
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

/// Opens an open file again for direct reads. Fails if its path has come to name another file.
/// `may_grow`: it may have become longer.
fn open_same_direct(part: &Part, may_grow: bool) -> io::Result<Arc<File>> {
    let known = FileIdentity::from(&part.file.metadata()?);
    let file = open_direct(&part.path)?;
    let now = FileIdentity::from(&file.metadata()?);
    let same = now == known || (may_grow && known.may_have_grown_into(&now));
    same.then_some(Arc::new(file))
        .ok_or_else(|| io::Error::other("the file was replaced while it was opened"))
}

/// Returns whether a file, now `now`, is still `known`, or has only grown and still has the mark.
fn is_still(parts: &Parts, now: &FileIdentity, known: &FileIdentity, mark: Option<&Mark>) -> bool {
    let is_of = |mark: &Mark| {
        parts
            .only()
            .is_some_and(|file| mark.is_of(file, known.size))
    };
    let has_grown = |mark: &Mark| known.may_have_grown_into(now) && is_of(mark);
    now == known || mark.is_some_and(has_grown)
}

/// Progress in reading a block. Most blocks take one direct read. A short read is continued through
/// the page cache, since the rest is not aligned any more.
pub(crate) struct Progress {
    pub file: Arc<LocalFile>,
    offset: u64,
    wanted: usize,
    have: usize,
    direct: bool,
}

/// The next step after a read.
pub(crate) enum Step {
    /// Another read.
    Read,
    /// Another read, through the page cache: direct reads are refused here.
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

    /// Checks before the first read whether the file is still the one opened. `took` checks after
    /// the last.
    pub fn check(&self) -> Result<(), ReadError> {
        match self.have {
            0 => self.file.check(),
            _ => Ok(()),
        }
    }

    /// Returns the file, the offset in it, and the offset in the block. If the film continues in
    /// another file, the read is short.
    pub fn next(&self) -> (Arc<File>, u64, usize) {
        let (file, within) = self.file.at(self.offset + self.have as u64, self.direct);
        (file, within, self.have)
    }

    pub fn read_blocking(&self, into: &mut [u8]) -> io::Result<usize> {
        let (file, offset, from) = self.next();
        file.read_at(&mut into[from..], offset)
    }

    /// Processes the result of a read.
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
        // A truncated file causes a read error, too, but the change is the true reason.
        let result = self
            .file
            .check()
            .and_then(|()| Err(self.file.error(self.offset + self.have as u64, error)));
        Step::Done(result)
    }
}

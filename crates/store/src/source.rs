//! An opened film file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reelway_sys::{FileIdentity, open_direct};

use crate::ReadError;

/// An opened film file, shared by all who play it.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    identity: FileIdentity,
    /// Past the page cache, where the file system allows it.
    direct: Option<File>,
    buffered: File,
    direct_refused: AtomicBool,
    changed: AtomicBool,
}

/// Said once for the process: which file system it was does not matter twice.
static SAID_BUFFERED: AtomicBool = AtomicBool::new(false);

fn say_buffered(path: &Path, why: &io::Error) {
    if !SAID_BUFFERED.swap(true, Ordering::Relaxed) {
        tracing::info!(
            file = %path.display(),
            "direct reads are refused here ({why}); films are read through the page cache instead"
        );
    }
}

impl Source {
    pub(crate) fn open(path: &Path) -> io::Result<Source> {
        let buffered = File::open(path)?;
        let metadata = buffered.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let identity = FileIdentity::from(&metadata);
        // The path may have come to name another file in between; then the direct one is not taken.
        let direct = open_direct(path).and_then(|file| {
            let same = FileIdentity::from(&file.metadata()?) == identity;
            same.then_some(file)
                .ok_or_else(|| io::Error::other("the file was replaced while it was opened"))
        });
        let direct = direct.inspect_err(|error| say_buffered(path, error)).ok();
        Ok(Source {
            path: path.to_path_buf(),
            identity,
            direct,
            buffered,
            direct_refused: AtomicBool::new(false),
            changed: AtomicBool::new(false),
        })
    }

    /// Length in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.identity.size
    }

    /// Whether it was empty when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which file it is. Compare it with what an index was made from.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if the file is, or once was, another than the one opened.
    pub(crate) fn check(&self) -> Result<(), ReadError> {
        if !self.changed.load(Ordering::Relaxed) {
            match self.buffered.metadata() {
                Ok(metadata) if FileIdentity::from(&metadata) == self.identity => return Ok(()),
                Ok(_) => self.changed.store(true, Ordering::Relaxed),
                Err(error) => return Err(self.io_error(0, error)),
            }
        }
        Err(ReadError::Changed {
            path: self.path.clone(),
        })
    }

    /// Whether it is known to have changed, without asking the file system.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    /// Reads the block at `offset` (a multiple of the block size) into `into`, a whole block, but not
    /// beyond the file's end. The file is the same before and after, or it is an error.
    pub(crate) fn read_block(&self, offset: u64, into: &mut [u8]) -> Result<(), ReadError> {
        self.check()?;
        let wanted = self.len().saturating_sub(offset).min(into.len() as u64) as usize;
        let result = self.fill(offset, into, wanted);
        // A file cut short gives an error of reading too; that it changed is the truer reason.
        self.check()?;
        result.map_err(|error| self.io_error(offset, error))
    }

    fn fill(&self, offset: u64, into: &mut [u8], wanted: usize) -> io::Result<()> {
        let mut have = 0;
        if let Some(direct) = self
            .direct
            .as_ref()
            .filter(|_| !self.direct_refused.load(Ordering::Relaxed))
        {
            match direct.read_at(into, offset) {
                Ok(bytes) => have = bytes,
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    self.direct_refused.store(true, Ordering::Relaxed);
                    say_buffered(&self.path, &error);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // The rest of a short direct read is not aligned any more.
        while have < wanted {
            match self
                .buffered
                .read_at(&mut into[have..wanted], offset + have as u64)
            {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => have += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn io_error(&self, offset: u64, error: io::Error) -> ReadError {
        ReadError::Io {
            path: self.path.clone(),
            offset,
            error: Arc::new(error),
        }
    }
}

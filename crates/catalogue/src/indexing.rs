//! Indexes files on this machine: `media` asks for byte ranges, this module reads them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reelway_clock::Real;
use reelway_media::{
    Container, Index, IndexError, IndexErrorKind, IndexOptions, Indexer, ReadIndexError, Scratch,
    Unfinished, index_growing, is_read_whole,
};
use reelway_sys::FileIdentity;
use reelway_sys::parts::Parts;

use crate::naming::FILM_EXTENSIONS;
use crate::progress::Progress;
use crate::scratch::scratch;

/// If a file changed more recently than this cannot be read, it may still be being written.
pub(crate) const YOUNG: Duration = Duration::from_secs(5);

/// Returns whether a film was changed less than `time` before or after `now`. A date far in the
/// future does not count as recent.
pub(crate) fn is_changed_within(now: Real, identity: &FileIdentity, time: Duration) -> bool {
    let age = i128::from(now.nanos()) - i128::from(identity.mtime_ns);
    age.unsigned_abs() < time.as_nanos()
}

/// Why indexing a file failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexingError {
    /// The file could not be opened or read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The container is invalid, or contains nothing that can be played.
    #[error("{}: {error}", path.display())]
    Container {
        /// The file.
        path: PathBuf,
        /// Box, offset, and the problem.
        error: IndexError,
    },
    /// The container is known but not supported yet.
    #[error("{}: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Which container it is, and what to do.
        reason: String,
    },
    /// A panic of this program ended indexing.
    #[error("{}: indexing it was ended by a fault of this program; the log has the details", path.display())]
    Fault {
        /// The file.
        path: PathBuf,
    },
    /// A remote film could not be read now.
    #[error("{}: {reason}", path.display())]
    Elsewhere {
        /// The film's address.
        path: PathBuf,
        /// The reason, as a message.
        reason: String,
    },
}

impl IndexingError {
    /// Returns the problem without the path.
    pub fn reason(&self) -> String {
        match self {
            IndexingError::Io { error, .. } => error.to_string(),
            IndexingError::Container { error, .. } => error.to_string(),
            IndexingError::Foreign { reason, .. } | IndexingError::Elsewhere { reason, .. } => {
                reason.clone()
            }
            IndexingError::Fault { .. } => {
                "indexing it was ended by a fault of this program; the log has the details"
                    .to_owned()
            }
        }
    }

    /// Returns whether the error may be temporary: the file is incomplete, for example because it
    /// is still being copied, it could not be read, or the film is remote and cannot be reached.
    pub fn may_pass(&self) -> bool {
        match self {
            IndexingError::Container { error, .. } => {
                matches!(
                    error.kind,
                    IndexErrorKind::Incomplete | IndexErrorKind::Scratch
                )
            }
            IndexingError::Io { .. } | IndexingError::Elsewhere { .. } => true,
            IndexingError::Foreign { .. } | IndexingError::Fault { .. } => false,
        }
    }

    /// Returns whether indexing ended in a panic.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, IndexingError::Fault { .. })
    }
}

/// Indexes a film in one file or in several consecutive ones. Its first bytes determine the
/// container. If the container has tables, they are read, not the media.
pub fn index_path(
    path: &Path,
    options: IndexOptions,
) -> Result<(FileIdentity, Index), IndexingError> {
    index_with_scratch(path, options, Scratch::default())
}

/// Like `index_path`, but data that grow with the length of the film go into a scratch file in
/// `directory`, which exists for as long as the returned index.
pub fn index_path_with_scratch(
    path: &Path,
    options: IndexOptions,
    directory: &Path,
) -> Result<(FileIdentity, Index), IndexingError> {
    index_with_scratch(path, options, scratch(directory))
}

fn index_with_scratch(
    path: &Path,
    options: IndexOptions,
    scratch: Scratch,
) -> Result<(FileIdentity, Index), IndexingError> {
    let parts = open(path)?;
    let indexer = Indexer::with_scratch(parts.identity().size, options, scratch);
    let (index, _) = index_parts(&parts, path, indexer, false, &Progress::default())?;
    Ok((parts.identity(), index))
}

/// Opens a film. Fails if its extension is that of an unsupported container.
pub(crate) fn open(path: &Path) -> Result<Parts, IndexingError> {
    let parts = Parts::open(path).map_err(|error| IndexingError::Io {
        path: path.to_owned(),
        error,
    })?;
    let foreign = parts
        .all()
        .iter()
        .find_map(|part| foreign_container(&part.path));
    if let Some(reason) = foreign {
        return Err(IndexingError::Foreign {
            path: path.to_owned(),
            reason,
        });
    }
    Ok(parts)
}

/// Indexes an open film. With `may_grow`, also returns what is needed to continue after it has
/// grown.
pub(crate) fn index_parts(
    parts: &Parts,
    path: &Path,
    indexer: Indexer,
    may_grow: bool,
    progress: &Progress,
) -> Result<(Index, Option<Unfinished>), IndexingError> {
    let read = |range: Range<u64>, bytes: &mut Vec<u8>| {
        bytes.resize((range.end - range.start) as usize, 0);
        parts.read_exact_at(bytes, range.start)?;
        progress.report(range.end, parts.identity().size);
        Ok(())
    };
    let (index, unfinished) = indexed(index_growing(indexer, may_grow, read), path)?;
    let follow = matches!(
        index.title.container,
        Container::TransportStream | Container::ProgramStream
    );
    if parts.only().is_none() && !follow {
        return Err(IndexingError::Foreign {
            path: path.to_owned(),
            reason: "its parts have tables of their own, so they do not follow each other; only transport and program \
                     streams can be in parts (to make one file of others: ffmpeg -f concat)"
                .to_owned(),
        });
    }
    Ok((index, unfinished))
}

/// Indexes an open film file; `path` is its name in error messages.
pub(crate) fn index_file(
    file: &File,
    path: &Path,
    options: IndexOptions,
    scratch: Scratch,
) -> Result<(FileIdentity, Index), IndexingError> {
    let io = |error| IndexingError::Io {
        path: path.to_owned(),
        error,
    };
    let metadata = file.metadata().map_err(io)?;
    if metadata.is_dir() {
        return Err(io(io::Error::new(
            io::ErrorKind::IsADirectory,
            "a folder, not a film",
        )));
    }
    let identity = FileIdentity::from(&metadata);
    let indexer = Indexer::with_scratch(identity.size, options, scratch);
    let (index, _) = indexed(index_growing(indexer, false, reader(file)), path)?;
    Ok((identity, index))
}

/// Converts an error of indexing the film at `path`.
fn indexed<T>(index: Result<T, ReadIndexError>, path: &Path) -> Result<T, IndexingError> {
    let path = path.to_owned();
    index.map_err(|error| match error {
        ReadIndexError::Film(error) => IndexingError::Container { path, error },
        error @ ReadIndexError::Io { .. } => IndexingError::Io {
            path,
            error: io::Error::other(error),
        },
    })
}

/// Returns a function that reads parts of a file, for an indexer.
fn reader(file: &File) -> impl FnMut(Range<u64>, &mut Vec<u8>) -> io::Result<()> {
    |range, bytes| {
        bytes.resize((range.end - range.start) as usize, 0);
        file.read_exact_at(bytes, range.start)
    }
}

/// Indexes the first `bytes` of a film file, if films of its format are read whole to be indexed.
/// The identity is that of a file that had only these bytes and has grown since. `None`: the film
/// is to be indexed whole at once.
pub(crate) fn index_beginning(
    path: &Path,
    whole: &FileIdentity,
    bytes: u64,
    scratch: Scratch,
) -> Option<(FileIdentity, Index)> {
    let file = File::open(path).ok()?;
    if FileIdentity::from(&file.metadata().ok()?) != *whole || whole.size <= bytes {
        return None;
    }
    let mut head = [0; 4 << 10];
    file.read_exact_at(&mut head, 0).ok()?;
    if !is_read_whole(&head, bytes) {
        return None;
    }
    let indexer = Indexer::with_scratch(bytes, IndexOptions::default(), scratch);
    let (index, _) = index_growing(indexer, false, reader(&file)).ok()?;
    let identity = FileIdentity {
        size: bytes,
        ..*whole
    };
    Some((identity, index))
}

/// Returns a message for users about a file whose extension is that of an unsupported container.
pub(crate) fn foreign_container(path: &Path) -> Option<String> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let name = match extension.as_str() {
        "avi" => "AVI",
        "flv" => "Flash video",
        _ => return None,
    };
    debug_assert!(FILM_EXTENSIONS.contains(&extension.as_str()));
    Some(format!(
        "{name} is not read yet; put its streams into MP4 without transcoding: ffmpeg -i FILE -c copy -movflags +faststart FILE.mp4"
    ))
}

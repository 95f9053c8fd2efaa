//! A file on this machine becomes an index: `media` says which bytes it wants, this reads them.

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

/// A file changed more recently than this that cannot be read may still be in the making.
pub(crate) const YOUNG: Duration = Duration::from_secs(5);

/// Whether a film was changed so lately, by a clock that is right to the same time: one from next year is not new until then.
pub(crate) fn is_changed_within(now: Real, identity: &FileIdentity, time: Duration) -> bool {
    let age = i128::from(now.nanos()) - i128::from(identity.mtime_ns);
    age.unsigned_abs() < time.as_nanos()
}

/// Why a file did not become an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexingError {
    /// The file could not be opened or read.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The container could not be understood, or holds nothing to play.
    #[error("{}: {error}", path.display())]
    Container {
        /// Which file.
        path: PathBuf,
        /// Box, offset, and what is wrong.
        error: IndexError,
    },
    /// The container is a known one that is not read yet.
    #[error("{}: {reason}", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Which container, and what to do.
        reason: String,
    },
    /// A fault of this program ended it.
    #[error("{}: indexing it was ended by a fault of this program; the log has the details", path.display())]
    Fault {
        /// Which file.
        path: PathBuf,
    },
    /// A film elsewhere could not be read now.
    #[error("{}: {reason}", path.display())]
    Elsewhere {
        /// Its address.
        path: PathBuf,
        /// In words.
        reason: String,
    },
}

impl IndexingError {
    /// What is wrong, without the path.
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

    /// Whether time may mend it: the file ends before its contents do, as while it is copied, it could not be read, or the film
    /// lies elsewhere and cannot be reached.
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

    /// Whether a panic ended it.
    pub(crate) fn is_fault(&self) -> bool {
        matches!(self, IndexingError::Fault { .. })
    }
}

/// Indexes a film in one file, or in several that follow each other; reads its tables, not its media. What a container is, its
/// extension tells.
pub fn index_path(
    path: &Path,
    options: IndexOptions,
) -> Result<(FileIdentity, Index), IndexingError> {
    index_with_scratch(path, options, Scratch::default())
}

/// The same; what grows with the length of the film goes into a scratch file in `directory`, which exists for as long as the
/// index that is returned.
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

/// Opens a film, whose name does not say that it is of a kind not read yet.
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

/// Indexes an open film. `may_grow`: with what is needed to go on from there when it has.
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
        progress.tell(range.end, parts.identity().size);
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

/// Indexes a film file that is open; `path` is how it is called in errors.
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

/// The index of the film at `path`, or why there is none.
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

/// Reads parts of a file, for an indexer.
fn reader(file: &File) -> impl FnMut(Range<u64>, &mut Vec<u8>) -> io::Result<()> {
    |range, bytes| {
        bytes.resize((range.end - range.start) as usize, 0);
        file.read_exact_at(bytes, range.start)
    }
}

/// Indexes the first `bytes` of a film file, if such a film is read whole to be indexed. The identity is that of a file which
/// has only these, and has grown since. `None`: it is indexed whole at once.
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

/// What to tell people of a file whose extension says that it is of a kind not read yet.
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

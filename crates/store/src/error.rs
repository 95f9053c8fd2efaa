//! Errors.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a store cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
    /// There is not enough memory.
    #[error(
        "a block pool of {} MiB is more than the {} MiB of memory that this process may have (the machine's, or those of its control group: memory.max); make pool.size smaller",
        bytes >> 20, memory >> 20
    )]
    TooLarge {
        /// The requested size.
        bytes: u64,
        /// The available memory.
        memory: u64,
    },
    /// The memory could not be reserved.
    #[error("{bytes} bytes for the block pool cannot be reserved ({error}); make the pool smaller")]
    Memory {
        /// The requested size.
        bytes: u64,
        /// The kernel's error.
        error: io::Error,
    },
    /// The tier's directory cannot be used.
    #[error("the tier in {}: {error}; choose another directory, or a smaller size", dir.display())]
    Tier {
        /// The tier's directory.
        dir: PathBuf,
        /// The problem.
        error: io::Error,
    },
}

/// The kernel's number for a failed read or write.
const EIO: i32 = 5;

impl StoreError {
    /// Returns whether the tier's disk, which has been usable before, is at fault: it is full,
    /// read-only or cannot be read.
    pub(crate) fn is_of_the_disk(&self) -> bool {
        use io::ErrorKind::{ReadOnlyFilesystem, StorageFull};
        let StoreError::Tier { error, .. } = self else {
            return false;
        };
        let cannot_be_read = error.raw_os_error() == Some(EIO);
        cannot_be_read || matches!(error.kind(), StorageFull | ReadOnlyFilesystem)
    }
}

/// Why bytes of a film cannot be provided.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The disk failed, or the file ends before it should.
    #[error("{}: reading at byte {offset}: {error}", path.display())]
    Io {
        /// The film file.
        path: PathBuf,
        /// First byte of the block that could not be read.
        offset: u64,
        /// The system's error.
        error: Arc<io::Error>,
    },
    /// The file's size or modification time differs from when it was opened.
    #[error("{}: the file was changed or replaced while it was played", path.display())]
    Changed {
        /// The film file.
        path: PathBuf,
    },
    /// The range lies outside the file.
    #[error("{}: bytes {} to {} asked for, the file has {len}", path.display(), range.start, range.end)]
    OutOfRange {
        /// The film file.
        path: PathBuf,
        /// The requested range.
        range: Range<u64>,
        /// Length of the file.
        len: u64,
    },
    /// The range exceeds what one request may take of the pool.
    #[error("{}: bytes {} to {} are requested at once; the pool allows {most} bytes (make it larger)", path.display(), range.start, range.end)]
    TooLarge {
        /// The film file.
        path: PathBuf,
        /// The requested range.
        range: Range<u64>,
        /// Maximum number of bytes in a request.
        most: u64,
    },
    /// The blocks exceed what one request may take of the pool.
    #[error("{count} blocks are requested at once; the pool allows {most} (make it larger)")]
    TooManyBlocks {
        /// The requested number of blocks.
        count: usize,
        /// Maximum number of blocks in a request.
        most: u64,
    },
    /// A panic of this program ended the read.
    #[error("{}: reading was ended by a fault of this program", path.display())]
    Fault {
        /// The film file.
        path: PathBuf,
    },
    /// The store was closed.
    #[error("the server is closing")]
    Closed,
}

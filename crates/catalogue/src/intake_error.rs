//! Why a title has no file.

use std::io;
use std::path::PathBuf;

/// Why a title has no file.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// It cannot be a title.
    #[error("'{title}' cannot be a film's title: {reason}")]
    Title {
        /// What was asked for.
        title: String,
        /// In words.
        reason: &'static str,
    },
    /// Another file is in the way.
    #[error("{}: {reason}", path.display())]
    Taken {
        /// That file.
        path: PathBuf,
        /// In words.
        reason: String,
    },
    /// A symbolic link is on the way.
    #[error(
        "{}: a symbolic link leads there; films behind links are read, but not put or deleted (to allow it, name the directory behind the link as a film directory)",
        path.display()
    )]
    Link {
        /// Where to.
        path: PathBuf,
    },
    /// There is no folder for new films.
    #[error("this server has single films only, and no film directory for uploads")]
    NoFolder,
    /// The file system does not let us.
    #[error("{}: {error}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

//! Why a title cannot be assigned a file.

use std::io;
use std::path::PathBuf;

/// Why a title cannot be assigned a file.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// It is not a valid title.
    #[error("'{title}' cannot be a film's title: {reason}")]
    Title {
        /// The requested title.
        title: String,
        /// The reason, as a message.
        reason: &'static str,
    },
    /// Another file is in the way.
    #[error("{}: {reason}", path.display())]
    Taken {
        /// The other file.
        path: PathBuf,
        /// The reason, as a message.
        reason: String,
    },
    /// A symbolic link is in the path.
    #[error(
        "{}: a symbolic link leads there; films behind links are read, but not put or deleted (to allow it, name the directory behind the link as a film directory)",
        path.display()
    )]
    Link {
        /// The folder to which the link leads.
        path: PathBuf,
    },
    /// There is no folder for new films.
    #[error("this server has single films only, and no film directory for uploads")]
    NoFolder,
    /// The file system reported an error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

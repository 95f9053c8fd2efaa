//! Refusals as answers.

use std::io;
use std::path::Path;

use axum::http::StatusCode;
use reelway_catalogue::IntakeError;

use crate::answer::{self, Answer};

/// An answer that refuses a request.
pub(super) type Refused = Box<Answer>;

/// Makes a refusal with a message.
pub(super) fn refuse(status: StatusCode, words: impl std::fmt::Display) -> Refused {
    Box::new(answer::error(status, words))
}

/// Converts the reason why a film cannot be placed.
pub(super) fn intake_error(error: IntakeError) -> Refused {
    match &error {
        IntakeError::Title { .. } => refuse(StatusCode::BAD_REQUEST, error),
        IntakeError::Taken { .. } => refuse(StatusCode::CONFLICT, error),
        IntakeError::Link { .. } | IntakeError::NoFolder => refuse(StatusCode::FORBIDDEN, error),
        IntakeError::Io { path, error } => disk_error(path, error),
    }
}

/// Converts an error of the disk.
pub(super) fn disk_error(path: &Path, error: &io::Error) -> Refused {
    use io::ErrorKind;
    let path = path.display();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => refuse(
            StatusCode::INSUFFICIENT_STORAGE,
            format!("{path}: there is not enough space on the disk; delete films or add a disk"),
        ),
        ErrorKind::FileTooLarge => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("{path}: the file is too large for the file system"),
        ),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => refuse(
            StatusCode::FORBIDDEN,
            format!("{path}: the server may not write there: {error}"),
        ),
        ErrorKind::AlreadyExists => refuse(
            StatusCode::CONFLICT,
            format!("{path}: another file has this name by now"),
        ),
        _ => {
            tracing::warn!("{path}: {error}");
            refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("{path}: {error}"),
            )
        }
    }
}

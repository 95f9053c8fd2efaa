//! The error of a stream that cannot go on.

/// Why a stream cannot begin or go on; the text names the file and the byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StreamError(pub String);

//! Why a stream cannot go on.

/// Why a stream cannot begin or go on, in words that name file and byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StreamError(pub String);

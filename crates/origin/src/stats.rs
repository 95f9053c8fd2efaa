//! What a source has done.

/// What a source has done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginStats {
    /// Requests for films' bytes and versions.
    pub requests: u64,
    /// Bytes of films that came.
    pub bytes: u64,
    /// Requests that failed.
    pub faults: u64,
}

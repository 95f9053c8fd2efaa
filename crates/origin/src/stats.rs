//! Counters of a source.

/// Counters of a source since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginStats {
    /// Requests for films' bytes and versions.
    pub requests: u64,
    /// Bytes of films that were received.
    pub bytes: u64,
    /// Requests that failed.
    pub faults: u64,
}

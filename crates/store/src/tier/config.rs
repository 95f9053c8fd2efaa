//! Where the tier lies and what it may do.

use std::path::PathBuf;

use reelway_cache::Spec;

/// Where the tier lies and what it may do.
#[derive(Clone, Debug, PartialEq)]
pub struct TierConfig {
    /// A directory of its own, made if it is not there.
    pub dir: PathBuf,
    /// Bytes of all blocks. Where the disk has less room, as many as fit.
    pub bytes: u64,
    /// Which block makes room for another.
    pub policy: Spec,
    /// A block is let in when it has been fetched from afar so many times (1: at once).
    pub admit: u32,
    /// Most bytes written in 24 hours.
    pub daily: u64,
}

//! Configuration of the tier.

use std::path::PathBuf;

use reelway_cache::Spec;

/// The tier's location and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct TierConfig {
    /// A directory for the tier alone. It is created if it does not exist.
    pub dir: PathBuf,
    /// Bytes of all blocks. If the disk has less space, the tier is smaller.
    pub bytes: u64,
    /// The replacement policy.
    pub policy: Spec,
    /// Number of fetches from the remote place after which a block is admitted (1: at once).
    pub admit: u32,
    /// Maximum number of bytes written in 24 hours.
    pub daily: u64,
}

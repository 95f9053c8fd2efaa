//! What a library of directories is told.

use std::path::PathBuf;
use std::time::Duration;

use reelway_media::IndexOptions;

use crate::counter::CountConfig;
use crate::growth::ANEW_EVERY;
use crate::unsaved::IndexMemory;

/// Which directories, and where indexes are kept.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// Film directories, or single films.
    pub films: Vec<PathBuf>,
    /// Where index files are kept; `None`: in memory only.
    pub index: Option<PathBuf>,
    /// Where indexes are kept that cannot be written to files.
    pub memory: IndexMemory,
    /// Longest time between two walks over the directories.
    pub rescan: Duration,
    /// A film that grows is not indexed anew more often than this. A playlist that is not over has to have another segment each one
    /// and a half times its longest (RFC 8216, section 6.2.2).
    pub anew_every: Duration,
    /// Bytes that are read at once: a film that lies on its disk in smaller pieces is told.
    pub block_bytes: u32,
    /// Bytes of a film that are indexed first, where it has more than twice as many and must be read whole: so much of it plays
    /// while the rest is read.
    pub beginning: u64,
    /// Pictures a second of streams that are files by themselves and do not state it: a fraction.
    pub frame_rate: (u32, u32),
    /// How films' packets are counted in the background; `None`: they are not.
    pub count: Option<CountConfig>,
}

impl DirectoryConfig {
    /// How its films are indexed.
    pub(crate) fn options(&self) -> IndexOptions {
        IndexOptions {
            frame_rate: self.frame_rate,
            ..IndexOptions::default()
        }
    }
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        DirectoryConfig {
            films: Vec::new(),
            index: None,
            memory: IndexMemory::default(),
            rescan: Duration::from_secs(60),
            anew_every: ANEW_EVERY,
            block_bytes: 256 << 10,
            // Ten seconds of a slow disk, and some minutes of film.
            beginning: 1 << 30,
            frame_rate: (25, 1),
            count: None,
        }
    }
}

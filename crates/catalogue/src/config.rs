//! Configuration of a library of directories.

use std::path::PathBuf;
use std::time::Duration;

use reelway_media::IndexOptions;

use crate::counter::CountConfig;
use crate::growth::REINDEX_INTERVAL;
use crate::unsaved::IndexMemory;

/// Which directories make up a library, and where their indexes are kept.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// Film directories, or single films.
    pub films: Vec<PathBuf>,
    /// Directory of index files. `None`: indexes are kept in memory only.
    pub index: Option<PathBuf>,
    /// Memory for indexes that cannot be written to files.
    pub memory: IndexMemory,
    /// Longest time between two scans of the directories.
    pub rescan: Duration,
    /// Shortest time between two indexings of a film that grows. A playlist that has not ended must
    /// get a new segment within 1.5 times its longest one (RFC 8216, section 6.2.2).
    pub reindex_interval: Duration,
    /// Size of a read in bytes. A film that lies on its disk in smaller pieces is logged.
    pub block_bytes: u32,
    /// Number of bytes of a film that are indexed first if the film is more than twice as long and
    /// must be read whole. This part plays while the rest is read.
    pub beginning: u64,
    /// Frame rate (pictures per second, as a fraction) of elementary streams that do not state it.
    pub frame_rate: (u32, u32),
    /// How the packets of films are counted in the background. `None`: they are not counted.
    pub count: Option<CountConfig>,
}

impl DirectoryConfig {
    /// Returns the options with which films are indexed.
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
            reindex_interval: REINDEX_INTERVAL,
            block_bytes: 256 << 10,
            // Ten seconds of reading from a slow disk, and some minutes of film.
            beginning: 1 << 30,
            frame_rate: (25, 1),
            count: None,
        }
    }
}

//! Where a library's films are: directories on this machine (`local.rs`), or a remote source.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_media::{Index, Scratch};
use reelway_sys::FileIdentity;

use crate::growth::{REINDEX_INTERVAL, RecordingReport};
use crate::indexing::IndexingError;
use crate::placement::Soon;
use crate::progress::Progress;
use crate::subtitles::SubtitleFile;

/// A film found on a shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFilm {
    /// The path or remote address with which the store opens the film.
    pub path: PathBuf,
    /// Its path below its film directory or source as text. Its name is derived from it.
    pub file: String,
    /// The film's identity. Another film has another identity.
    pub identity: FileIdentity,
    /// Ids of the servers on the way from the film's origin, nearest first. Empty: the film is on a
    /// disk of this machine, or comes from a server that does not report them.
    pub via: Vec<String>,
    /// Subtitle files beside it.
    pub subtitles: Vec<SubtitleFile>,
    /// What its server reports, if the film is a recording.
    pub report: Option<RecordingReport>,
    /// Why it cannot be read now, as a message.
    pub problem: Option<String>,
    /// When the program that kept the file open while writing closed it, if this was reported.
    pub closed: Option<Monotonic>,
}

/// A source of films. The library's keeper calls it on its own thread, which it may block. Others
/// may also request indexing.
pub trait Shelf: Send + Sync + 'static {
    /// Returns the films on the shelf. The error is a message: the films cannot be determined now,
    /// and those known before remain.
    fn look(&self) -> Result<Vec<FoundFilm>, String>;

    /// Reads a film's tables. Returns the identity of what was read. `may_grow`: the film was
    /// changed a moment ago and may be read again soon, with more at its end. Reports the bytes
    /// read to `progress`.
    fn index(
        &self,
        found: &FoundFilm,
        may_grow: bool,
        scratch: Scratch,
        progress: &Progress,
    ) -> Result<(FileIdentity, Index), IndexingError>;

    /// Reads the beginning of a film that would take long to read whole. The film plays as far as
    /// its beginning until all of it has been read. The identity is that of the beginning. `None`:
    /// the film is to be read whole at once.
    fn index_beginning(
        &self,
        _found: &FoundFilm,
        _scratch: Scratch,
    ) -> Option<(FileIdentity, Index)> {
        None
    }

    /// Returns whether a film that already plays, and has grown, takes long to read again.
    fn takes_long(&self, _found: &FoundFilm) -> bool {
        false
    }

    /// Returns the text of remote subtitles as WebVTT; `film` is the path at which their film was
    /// found. The error is a message: the text cannot be fetched now.
    fn subtitles<'a>(
        &'a self,
        _film: &'a Path,
        _file: &'a SubtitleFile,
    ) -> Soon<'a, Result<Arc<str>, String>> {
        Box::pin(async { Err("it is on this machine".to_owned()) })
    }

    /// Returns the shortest time between two indexings of a film that grows.
    fn reindex_interval(&self) -> Duration {
        REINDEX_INTERVAL
    }

    /// Returns whether a film that is not ready may be ready soon.
    fn may_be_ready_soon(&self, _identity: &FileIdentity) -> bool {
        true
    }

    /// Returns the longest time between two looks. `unfinished`: some films may be ready soon.
    fn patience(&self, unfinished: bool) -> Duration;
}

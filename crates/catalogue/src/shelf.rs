//! Where a library's films are: directories of this machine (`local.rs`), or a source elsewhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_media::{Index, Scratch};
use reelway_sys::FileIdentity;

use crate::growth::{ANEW_EVERY, Said};
use crate::indexing::IndexingError;
use crate::placement::Soon;
use crate::progress::Progress;
use crate::subtitles::SubtitleFile;

/// A film that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFilm {
    /// By what the store opens it: a path, or the address of a film elsewhere.
    pub path: PathBuf,
    /// Path below its film directory or source as text: its name comes from it.
    pub file: String,
    /// Which film it is: another one, another identity.
    pub identity: FileIdentity,
    /// By which servers it comes here, the nearest first: their ids. Empty: from a disk of this machine, or a server that
    /// does not say.
    pub via: Vec<String>,
    /// Files of subtitles beside it.
    pub subtitles: Vec<SubtitleFile>,
    /// What the server says that has it, if it is a recording.
    pub said: Option<Said>,
    /// Why it cannot be read now, in words.
    pub problem: Option<String>,
    /// When the program that had kept its file open while it wrote has closed it, if that was told.
    pub closed: Option<Monotonic>,
}

/// Where films are. Asked by the library's keeper, on its own thread, for which it may wait; indexing may also
/// be wanted by others.
pub trait Shelf: Send + Sync + 'static {
    /// Which films there are. An error, in words: that cannot be known now, and what was known stays.
    fn look(&self) -> Result<Vec<FoundFilm>, String>;

    /// Reads a film's tables. The identity is that of what was read. `may_grow`: it was changed a moment ago, and may be read again
    /// soon, with more at its end. What has been read is told to `progress`.
    fn index(
        &self,
        found: &FoundFilm,
        may_grow: bool,
        scratch: Scratch,
        progress: &Progress,
    ) -> Result<(FileIdentity, Index), IndexingError>;

    /// Reads the beginning of a film that would take long to be read whole: it is played as far as that until it is. The
    /// identity is that of the beginning. `None`: the film is read at once.
    fn index_beginning(
        &self,
        _found: &FoundFilm,
        _scratch: Scratch,
    ) -> Option<(FileIdentity, Index)> {
        None
    }

    /// Whether a film that plays already, and of which there is more by now, takes long to be read again.
    fn takes_long(&self, _found: &FoundFilm) -> bool {
        false
    }

    /// The text of subtitles that are elsewhere, as WebVTT; `film` is the path by which their film was found. An error, in
    /// words: it cannot be fetched now.
    fn subtitles<'a>(
        &'a self,
        _film: &'a Path,
        _file: &'a SubtitleFile,
    ) -> Soon<'a, Result<Arc<str>, String>> {
        Box::pin(async { Err("it is on this machine".to_owned()) })
    }

    /// A film that grows is not indexed anew more often than this.
    fn anew_every(&self) -> Duration {
        ANEW_EVERY
    }

    /// Whether a film that is not ready may be ready soon.
    fn may_be_ready_soon(&self, _identity: &FileIdentity) -> bool {
        true
    }

    /// Longest time between two looks; `unfinished`: there are films that may be ready soon.
    fn patience(&self, unfinished: bool) -> Duration;
}

//! Where film bytes come from.

use std::io;
use std::path::Path;
use std::sync::Arc;

use reelway_sys::FileIdentity;

use crate::fill::Fill;
use crate::lane::Lane;

/// Where the bytes of one film come from: a local file, an object at an HTTP origin.
pub trait BlockSource: Send + Sync + std::fmt::Debug + 'static {
    /// How messages name it: its path, or its address without credentials.
    fn path(&self) -> &Path;

    /// Which bytes they are, and how many: the same identity is the same bytes.
    fn identity(&self) -> FileIdentity;

    /// Whether its identity tells these bytes from all others for good, so that blocks of it may be kept beyond the
    /// end of this process (see [`crate::TierConfig`]).
    fn is_lasting(&self) -> bool {
        false
    }

    /// Reads one block: returns soon, and has [`Fill::finish`] called when it is done, on any thread.
    /// Called in the order of deadlines, with never more under way than the lane's depth, and never for
    /// the same block twice at once.
    fn read(self: Arc<Self>, fill: Fill);
}

/// Opens films that lie below a prefix (see [`crate::Store::mount`]).
pub trait Opener: Send + Sync + 'static {
    /// Opens the film of this path, the prefix included. Called where waiting is allowed; the wait must
    /// be bounded. `known`: what it was before; where it has only grown since, it is opened as that.
    fn open(
        &self,
        path: &Path,
        known: Option<FileIdentity>,
    ) -> io::Result<(Arc<dyn BlockSource>, Lane)>;
}

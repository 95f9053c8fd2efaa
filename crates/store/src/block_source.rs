//! Sources of film bytes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use reelway_sys::FileIdentity;

use crate::fill::Fill;
use crate::lane::Lane;

/// The source of one film's bytes: a local file, or an object at an HTTP origin.
pub trait BlockSource: Send + Sync + std::fmt::Debug + 'static {
    /// Returns its name in messages: its path, or its address without credentials.
    fn path(&self) -> &Path;

    /// Returns the identity of the bytes, including their number: equal identities mean equal
    /// bytes.
    fn identity(&self) -> FileIdentity;

    /// Returns whether the identity distinguishes these bytes permanently from all others, so that
    /// their blocks may outlive this process (see [`crate::TierConfig`]).
    fn is_lasting(&self) -> bool {
        false
    }

    /// Reads one block. Returns soon; [`Fill::finish`] is called when the read is done, on any
    /// thread. Reads are issued in order of deadline, at most the lane's depth of them at once, and
    /// never twice at once for the same block.
    fn read(self: Arc<Self>, fill: Fill);
}

/// Opens films whose paths begin with a prefix (see [`crate::Store::mount`]).
pub trait Opener: Send + Sync + 'static {
    /// Opens the film with this path, which includes the prefix. Called where blocking is allowed;
    /// the wait must be bounded. `known`: the film's earlier identity. If the film has only grown
    /// since then, it is opened as that version.
    fn open(
        &self,
        path: &Path,
        known: Option<FileIdentity>,
    ) -> io::Result<(Arc<dyn BlockSource>, Lane)>;
}

//! Which films there are, and where their parts are.
//!
//! What lives here: the [`Catalogue`] trait that the protocols ask; [`Directory`], watched
//! directories of film files, or films on another [`Shelf`]; [`Several`] of them as one; the names that films get from their paths; and the index files, in
//! which what was learnt of a film is kept so that it is learnt once. Indexing itself is `media`'s;
//! this room gives it the bytes.
#![forbid(unsafe_code)]

mod below;
mod directory;
mod entry;
mod index_file;
mod indexing;
mod intake;
mod keeper;
mod local;
mod naming;
mod scan;
mod several;
mod shelf;
mod unsaved;

pub use below::Below;
pub use directory::{Change, Directory, DirectoryConfig};
pub use entry::{CatalogueError, Entry, Film, Protocols, State, Summary, TrackSummary};
pub use index_file::{IndexFile, IndexFileError};
pub use indexing::{IndexingError, index_path};
pub use intake::{Intake, IntakeError, Place, judge_beginning};
pub use naming::is_film;
pub use several::Several;
pub use shelf::{Found, Shelf};
pub use unsaved::{IndexMemory, IndexProblem};

use std::sync::Arc;

/// Which films there are. Asked by every protocol, for every newcomer.
pub trait Catalogue: Send + Sync {
    /// All entries by name, playable or not.
    fn list(&self) -> Vec<Arc<Entry>>;

    /// One entry.
    fn entry(&self, name: &str) -> Option<Arc<Entry>>;

    /// The film of this name with its index, loaded if it was not in memory.
    fn film(&self, name: &str) -> Result<Arc<Film>, CatalogueError>;

    /// Where films can be put and taken away; `None` where they cannot.
    fn intake(&self) -> Option<&dyn Intake> {
        None
    }
}

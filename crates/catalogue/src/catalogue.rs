//! What the protocols ask.

use std::sync::Arc;

use crate::entry::{CatalogueError, Entry, Film};
use crate::intake::Intake;

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

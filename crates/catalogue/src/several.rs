//! Several libraries as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entry::{CatalogueError, Entry, Film};
use crate::{Catalogue, Change, Directory};

/// Libraries in their order: where two have a film of the same name, it is the first one's.
pub struct Several(pub Vec<Arc<Directory>>);

impl Several {
    fn with(&self, name: &str) -> Option<&Arc<Directory>> {
        self.0.iter().find(|library| library.entry(name).is_some())
    }

    /// Calls `listener` after every change of one of them, on that library's own thread.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        let listener = Arc::new(listener);
        for library in &self.0 {
            let listener = listener.clone();
            library.on_change(move |change| listener(change));
        }
    }

    /// Whether it is known of every film whether it plays.
    pub fn is_settled(&self) -> bool {
        self.0.iter().all(|library| library.is_settled())
    }
}

impl Catalogue for Several {
    fn list(&self) -> Vec<Arc<Entry>> {
        let mut all = BTreeMap::new();
        for entry in self.0.iter().flat_map(|library| library.list()) {
            all.entry(entry.name.clone()).or_insert(entry);
        }
        all.into_values().collect()
    }

    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.with(name)?.entry(name)
    }

    fn film(&self, name: &str) -> Result<Arc<Film>, CatalogueError> {
        match self.with(name) {
            Some(library) => library.film(name),
            None => Err(CatalogueError::Unknown(name.to_owned())),
        }
    }
}

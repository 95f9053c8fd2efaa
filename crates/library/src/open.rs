//! A film that was opened.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reelway_catalogue::{CatalogueError, Film};
use reelway_store::{Source, Store};

/// A film and its open file, which is the one that was indexed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OpenFilm {
    film: Arc<Film>,
    source: Arc<Source>,
}

/// Why a film cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The catalogue has no such film, or one that cannot be played.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// Its file cannot be opened.
    #[error("film '{0}' cannot be opened: {1}")]
    Open(String, io::Error),
    /// Its file is another than the one that was indexed.
    #[error("film '{0}' was replaced and is being indexed again")]
    Replaced(String),
    /// A fault of this program.
    #[error("film '{0}' cannot be opened: {1}")]
    Fault(String, String),
}

impl OpenFilm {
    /// Opens a film of the catalogue. Waits for where it lies.
    ///
    /// # Errors
    /// Its file cannot be opened, or is another than the one that was indexed.
    pub fn open(film: Arc<Film>, store: &Store) -> Result<OpenFilm, OpenError> {
        let source = store
            .open(&film.path)
            .map_err(|error| OpenError::Open(film.name.clone(), error))?;
        if source.identity() != film.identity {
            return Err(OpenError::Replaced(film.name.clone()));
        }
        let length = u64::try_from(film.title.duration).unwrap_or(0);
        store.film(&source, Duration::from_nanos(length));
        Ok(OpenFilm { film, source })
    }

    /// What the catalogue knows of it.
    pub fn film(&self) -> &Arc<Film> {
        &self.film
    }

    /// Its open file.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }
}

//! The films that can be played.

use std::sync::Arc;

use reelway_catalogue::{Alone, Catalogue, Film, Placement};
use reelway_store::Store;
use tokio::task::spawn_blocking;

use crate::open::{OpenError, OpenFilm};

/// The films of a catalogue, and the store that reads them. Cheap to clone.
#[derive(Clone)]
pub struct Library {
    catalogue: Arc<dyn Catalogue>,
    store: Store,
    placement: Arc<dyn Placement>,
}

impl Library {
    /// Creates a library of this catalogue's films, read by this store.
    pub fn new(catalogue: Arc<dyn Catalogue>, store: Store) -> Library {
        Library {
            catalogue,
            store,
            placement: Arc::new(Alone),
        }
    }

    /// Returns the same library with this placement, which decides which server viewers are
    /// sent to.
    pub fn placed_by(self, placement: Arc<dyn Placement>) -> Library {
        Library { placement, ..self }
    }

    /// The placement, which decides which server a film's viewers are sent to.
    pub fn placement(&self) -> &Arc<dyn Placement> {
        &self.placement
    }

    /// The catalogue.
    pub fn catalogue(&self) -> &Arc<dyn Catalogue> {
        &self.catalogue
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Opens the film of this name. Blocks on its index and its source: not to be called from a
    /// task.
    ///
    /// # Errors
    /// There is no such film, or it cannot be played or opened.
    pub fn open_blocking(&self, title: &str) -> Result<OpenFilm, OpenError> {
        OpenFilm::open(self.catalogue.film(title)?, &self.store)
    }

    /// Opens a film whose index is in memory. Blocks on its source: not to be called from a task.
    ///
    /// # Errors
    /// The film cannot be opened.
    pub fn open_film_blocking(&self, film: Arc<Film>) -> Result<OpenFilm, OpenError> {
        OpenFilm::open(film, &self.store)
    }

    /// Opens the film of this name.
    ///
    /// # Errors
    /// There is no such film, or it cannot be played or opened.
    pub async fn open(&self, title: &str) -> Result<OpenFilm, OpenError> {
        let (library, name) = (self.clone(), title.to_owned());
        off_the_reactor(title, move || library.open_blocking(&name)).await
    }

    /// Opens a film whose index is in memory.
    ///
    /// # Errors
    /// The film cannot be opened.
    pub async fn open_film(&self, film: Arc<Film>) -> Result<OpenFilm, OpenError> {
        let (store, name) = (self.store.clone(), film.name.clone());
        off_the_reactor(&name, move || OpenFilm::open(film, &store)).await
    }
}

async fn off_the_reactor(
    title: &str,
    open: impl FnOnce() -> Result<OpenFilm, OpenError> + Send + 'static,
) -> Result<OpenFilm, OpenError> {
    let opened = spawn_blocking(open).await;
    opened.unwrap_or_else(|error| Err(OpenError::Fault(title.to_owned(), error.to_string())))
}

//! An opened film.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use reelway_catalogue::{CatalogueError, Film};
use reelway_store::{Source, Store};

use crate::view::FilmView;

/// A film and its open file, verified to be the file that was indexed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OpenFilm {
    film: Arc<Film>,
    file: Arc<Source>,
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
    /// Its file is not the one that was indexed.
    #[error("film '{0}' was replaced and is being indexed again")]
    Replaced(String),
    /// An internal error.
    #[error("film '{0}' cannot be opened: {1}")]
    Fault(String, String),
}

impl OpenFilm {
    /// Opens a film of the catalogue. Blocks on the film's source.
    ///
    /// # Errors
    /// Its file cannot be opened, or is not the one that was indexed.
    pub fn open(film: Arc<Film>, store: &Store) -> Result<OpenFilm, OpenError> {
        let failed = |error| OpenError::Open(film.name.clone(), error);
        let file = match film.growth.mark {
            Some(mark) => store.open_grown(&film.path, (film.identity, mark)),
            None => store.open(&film.path),
        };
        let file = file.map_err(failed)?;
        if file.identity() != film.identity {
            return Err(OpenError::Replaced(film.name.clone()));
        }
        let source = match FilmView::of(&film) {
            Some(view) => store.open_view(&file, Arc::new(view)).map_err(failed)?,
            None => Arc::clone(&file),
        };
        let length = u64::try_from(film.title.duration).unwrap_or(0);
        store.film(&source, Duration::from_nanos(length));
        Ok(OpenFilm { film, file, source })
    }

    /// The film, as the catalogue describes it.
    pub fn film(&self) -> &Arc<Film> {
        &self.film
    }

    /// The film's open file.
    pub fn file(&self) -> &Arc<Source> {
        &self.file
    }

    /// The source of the film's samples: its file, or a view of it.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }
}

#[cfg(test)]
mod tests {
    use reelway_catalogue::Growth;
    use reelway_media::Title;
    use reelway_store::StoreConfig;

    use super::*;

    #[test]
    fn a_file_that_is_not_the_one_that_was_indexed_is_not_played() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mp4");
        std::fs::write(&path, b"as it was indexed").unwrap();
        let store = Store::new(StoreConfig {
            pool_bytes: 2 << 20,
            ..StoreConfig::default()
        })
        .unwrap();
        let film = |identity| {
            Arc::new(Film {
                name: "film".into(),
                path: path.clone(),
                identity,
                title: Arc::new(Title::new(Vec::new())),
                samples: Arc::new(Vec::new()),
                growth: Growth::default(),
            })
        };
        let indexed = store.open(&path).unwrap().identity();
        let opened = OpenFilm::open(film(indexed), &store).unwrap();
        assert_eq!(opened.source().identity(), opened.film().identity);
        std::fs::write(&path, b"another").unwrap();
        let error = OpenFilm::open(film(indexed), &store).unwrap_err();
        assert!(error.to_string().contains("'film' was replaced"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = OpenFilm::open(film(indexed), &store).unwrap_err();
        assert!(matches!(error, OpenError::Open(..)), "{error}");
    }
}

//! The store's view of a film whose samples are not stored in its file in the form in which they
//! are played.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use reelway_catalogue::Film;
use reelway_media::{Filled, Filling};
use reelway_store::{Making, View};

/// A film that has a view.
#[derive(Debug)]
pub(crate) struct FilmView {
    film: Arc<Film>,
    bytes: u64,
}

impl FilmView {
    /// Returns the film's view; `None` if it has none, because its samples are in its file.
    pub fn of(film: &Arc<Film>) -> Option<FilmView> {
        let bytes = film.title.view?.bytes;
        Some(FilmView {
            film: Arc::clone(film),
            bytes,
        })
    }
}

impl View for FilmView {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn make(&self, range: Range<u64>) -> io::Result<Box<dyn Making>> {
        let Film {
            title,
            samples,
            identity,
            ..
        } = &*self.film;
        let filling = Filling::new(title, &**samples, identity.size, range);
        let filling = filling.map_err(io::Error::other)?;
        Ok(Box::new(Part(filling.ok_or_else(different)?)))
    }
}

/// A range of the view that is being filled.
struct Part(Filling);

impl Making for Part {
    fn wanted(&self) -> Range<u64> {
        self.0.wanted()
    }

    fn make(&mut self, file: &[u8], into: &mut [u8], room: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        match self.0.fill(file, into, room) {
            Filled::Whole => Ok(true),
            Filled::More => Ok(false),
            Filled::Different => Err(different()),
        }
    }
}

fn different() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the film is not as its index says; remove the index file, and it is indexed again",
    )
}

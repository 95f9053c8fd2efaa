//! Combines several libraries into one.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use reelway_sys::FileIdentity;

use crate::below::Below;
use crate::catalogue::Catalogue;
use crate::directory::Directory;
use crate::entry::{CatalogueError, Entry, Film};
use crate::indexing::IndexingError;
use crate::intake::{Destination, Intake};
use crate::intake_error::IntakeError;
use crate::library::Change;
use crate::placement::Soon;
use crate::subtitles::SubtitleFile;

/// Libraries in order of precedence: if two have a film of the same name, the first one's is used.
pub struct Several(pub Vec<Arc<Directory>>);

impl Several {
    fn with(&self, name: &str) -> Option<&Arc<Directory>> {
        self.0.iter().find(|library| library.entry(name).is_some())
    }

    /// Calls `listener` after every change of one of the libraries, on that library's own thread.
    /// If an earlier library also has a film of that name, the later one's is not played, so its
    /// replacement is not reported.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        let listener = Arc::new(listener);
        for (place, library) in self.0.iter().enumerate() {
            let listener = listener.clone();
            // A listener does not keep libraries open.
            let before: Vec<Weak<Directory>> = self.0[..place].iter().map(Arc::downgrade).collect();
            library.on_change(move |change| {
                let is_hidden = |name: &String| {
                    let before = before.iter().filter_map(Weak::upgrade);
                    before
                        .into_iter()
                        .any(|library| library.entry(name).is_some())
                };
                let mut change = change.clone();
                change.replaced.retain(|name| !is_hidden(name));
                listener(&change);
            });
        }
    }

    /// Returns whether, for every film, it is known whether it plays.
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

    fn subtitles<'a>(
        &'a self,
        film: &'a Film,
        file: &'a SubtitleFile,
    ) -> Soon<'a, Result<Arc<str>, String>> {
        match self.with(&film.name) {
            Some(library) => library.subtitles(film, file),
            None => Box::pin(async { Err("the film is not there any more".to_owned()) }),
        }
    }

    fn intake(&self) -> Option<&dyn Intake> {
        let own = self.0.iter().any(|library| library.intake().is_some());
        own.then_some(self)
    }
}

impl Several {
    /// Returns the intake of the library that has the film, or of the first library that accepts
    /// new films.
    fn intake_of(&self, title: &str) -> Result<&dyn Intake, IntakeError> {
        match self.with(title) {
            Some(library) => library.intake().ok_or_else(|| IntakeError::Taken {
                path: PathBuf::from(title),
                reason: "this film is remote, and remote films are read-only".into(),
            }),
            None => {
                let first = self.0.iter().find_map(|library| library.intake());
                first.ok_or(IntakeError::NoFolder)
            }
        }
    }
}

impl Intake for Several {
    fn present(&self, title: &str) -> Option<Destination> {
        self.with(title)?.intake()?.present(title)
    }

    fn place(&self, title: &str) -> Result<Destination, IntakeError> {
        self.intake_of(title)?.place(title)
    }

    fn judge(
        &self,
        title: &str,
        file: &File,
        place: &Destination,
    ) -> Result<FileIdentity, IndexingError> {
        match self.intake_of(title) {
            Ok(intake) => intake.judge(title, file, place),
            // A remote film has taken the name meanwhile.
            Err(error) => Err(IndexingError::Elsewhere {
                path: place.path(),
                reason: error.to_string(),
            }),
        }
    }

    fn look_again(&self) {
        for intake in self.0.iter().filter_map(|library| library.intake()) {
            intake.look_again();
        }
    }

    fn folders(&self) -> Vec<Below> {
        let intakes = self.0.iter().filter_map(|library| library.intake());
        intakes.flat_map(|intake| intake.folders()).collect()
    }
}

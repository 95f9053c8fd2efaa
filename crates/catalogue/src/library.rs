//! The state that a library and its keeper share: the films, and how they are loaded.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

use reelway_media::{Index, Scratch};
use reelway_supervise::{self as supervise, lock};
use reelway_sys::FileIdentity;
use tracing::warn;

use crate::entry::{CatalogueError, Entry, Film};
use crate::growth::{self, First, Growth};
use crate::index_file::{IndexFile, IndexFileError};
use crate::scratch::scratch;
use crate::shelf::{FoundFilm, Shelf};
use crate::unsaved::{Full, IndexMemory};

/// A change of the library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Names of films that were added, removed, or changed their state.
    pub changed: Vec<String>,
    /// Names whose file has been replaced: their viewers must not continue.
    pub replaced: Vec<String>,
}

/// Titles kept in memory after their last use. Each takes some kilobytes and an open file.
const TITLES_KEPT: usize = 64;

pub(crate) type Listener = Box<dyn Fn(&Change) + Send + Sync>;

/// The state that a library and its keeper share.
pub(crate) struct Shared {
    pub shelf: Arc<dyn Shelf>,
    /// The directory of index files.
    pub index: Option<PathBuf>,
    pub memory: IndexMemory,
    /// Held while a film is indexed again: if no index file can be written, each index takes
    /// memory.
    again: Mutex<()>,
    /// Held while an index file is written.
    writing: Mutex<()>,
    /// The keeper rebuilds it at each look; each change of it is one step.
    pub library: Mutex<Library>,
    /// Whether the shelf has been looked at once, or the attempt failed.
    pub looked: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Default)]
pub(crate) struct Library {
    pub entries: BTreeMap<String, Arc<Entry>>,
    loaded: HashMap<String, Weak<Film>>,
    /// The most recently used films, the latest at the back.
    pub recent: VecDeque<Arc<Film>>,
}

impl Shared {
    /// Creates an empty library for a shelf, with index files in the directory `index`.
    pub fn new(shelf: Arc<dyn Shelf>, index: Option<PathBuf>, memory: IndexMemory) -> Shared {
        Shared {
            shelf,
            index,
            memory,
            again: Mutex::default(),
            writing: Mutex::default(),
            library: Mutex::default(),
            looked: AtomicBool::new(false),
            listeners: Mutex::default(),
        }
    }

    /// Returns all entries in order of their names.
    pub fn list(&self) -> Vec<Arc<Entry>> {
        lock(&self.library).entries.values().cloned().collect()
    }

    /// Returns the entry with this name.
    pub fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        lock(&self.library).entries.get(name).cloned()
    }

    /// Calls the listener after every change.
    pub fn listen(&self, listener: Listener) {
        lock(&self.listeners).push(listener);
    }

    /// Returns the film of a playable entry, from memory or from its index file.
    pub fn load(&self, entry: &Entry) -> Result<Arc<Film>, CatalogueError> {
        if let Some(film) = self.in_memory(entry) {
            return Ok(film);
        }
        // Not under the lock: a slow disk must not delay viewers of films that are in memory. Two
        // new viewers may load the same film at once; the second copy lives as long as its holder.
        let film = match self.read_index(&entry.name, &entry.path, &entry.identity) {
            Some(film) => film,
            None => match self.newer(entry) {
                Some(newer) => return self.load(&newer),
                None => self.index_again(entry)?,
            },
        };
        let mut library = lock(&self.library);
        library.loaded.retain(|_, film| film.strong_count() > 0);
        library
            .loaded
            .insert(entry.name.clone(), Arc::downgrade(&film));
        library.used(&film);
        Ok(film)
    }

    /// Returns the current entry if the film has grown and was indexed again meanwhile.
    fn newer(&self, entry: &Entry) -> Option<Arc<Entry>> {
        let is_newer = |now: &Arc<Entry>| {
            now.identity != entry.identity && entry.identity.may_have_grown_into(&now.identity)
        };
        self.entry(&entry.name).filter(is_newer)
    }

    /// Returns the film of a playable entry if it is in memory.
    fn in_memory(&self, entry: &Entry) -> Option<Arc<Film>> {
        let mut library = lock(&self.library);
        let known = library.loaded.get(&entry.name).and_then(Weak::upgrade);
        let known = known.filter(|film| film.identity == entry.identity);
        let film = known.or_else(|| self.memory.get(&entry.identity))?;
        library.used(&film);
        Some(film)
    }

    fn read_index(&self, name: &str, film: &Path, identity: &FileIdentity) -> Option<Arc<Film>> {
        let path = IndexFile::path_for(self.index.as_ref()?, identity);
        match IndexFile::open(&path, identity) {
            Ok((title, samples)) => Some(Arc::new(Film {
                name: name.to_owned(),
                path: film.to_owned(),
                identity: *identity,
                title: Arc::new(title),
                growth: samples.growth,
                samples: Arc::new(samples),
            })),
            Err(error) => {
                // If index files cannot be written, this is known and already logged.
                if self.memory.problem().is_none() {
                    warn!(
                        film = name,
                        "index file {}: {error}; the film is indexed again",
                        path.display()
                    );
                }
                None
            }
        }
    }

    fn index_again(&self, entry: &Entry) -> Result<Arc<Film>, CatalogueError> {
        let not_ready = |reason: String| CatalogueError::NotReady {
            name: entry.name.clone(),
            reason,
        };
        // One at a time: each takes the memory of an index until the index has been written.
        let _turn = lock(&self.again);
        if let Some(film) = self.in_memory(entry) {
            return Ok(film);
        }
        let found = FoundFilm {
            path: entry.path.clone(),
            file: entry.file.clone(),
            identity: entry.identity,
            via: entry.via.clone(),
            subtitles: entry.subtitles.clone(),
            report: None,
            problem: None,
            closed: None,
        };
        let indexed = self
            .shelf
            .index(&found, false, self.scratch(), &entry.progress);
        let indexed = indexed.ok();
        let Some((_, index)) = indexed.filter(|(identity, _)| *identity == entry.identity) else {
            let words = "its file has changed; it is being indexed again";
            return Err(not_ready(words.to_owned()));
        };
        let growth = Growth {
            mark: growth::mark(&entry.path, &entry.identity, &index),
            first: entry.first.filter(|first| first.identity != entry.identity),
        };
        if self.save(&entry.identity, &index, growth)
            && let Some(film) = self.read_index(&entry.name, &entry.path, &entry.identity)
        {
            return Ok(film);
        }
        self.keep_in_memory(&entry.name, &entry.path, entry.identity, (index, growth))
            .map_err(not_ready)
    }

    /// Returns whether the file of the playable film `entry` is still the same and has only grown.
    pub fn has_grown(&self, entry: &Entry) -> bool {
        let in_memory = self.memory.get(&entry.identity);
        let in_memory = in_memory.and_then(|film| film.growth.mark);
        let on_disk = || {
            let path = IndexFile::path_for(self.index.as_ref()?, &entry.identity);
            let (_, growth) = IndexFile::summary(&path, &entry.identity).ok()?;
            growth.mark
        };
        let mark = in_memory.or_else(on_disk);
        mark.is_some_and(|mark| growth::has_grown(&entry.path, &entry.identity, &mark))
    }

    /// Saves the index of a film; `first` describes the recording as first indexed if it has grown.
    /// If saving fails, keeps the index in memory as long as there is room.
    pub fn keep(
        &self,
        name: &str,
        path: &Path,
        identity: FileIdentity,
        of: (Index, Option<First>),
    ) {
        let (index, first) = of;
        let growth = Growth {
            mark: growth::mark(path, &identity, &index),
            first,
        };
        if !self.save(&identity, &index, growth) {
            // If it cannot be kept, the film is indexed again when it is needed.
            let _ = self.keep_in_memory(name, path, identity, (index, growth));
        }
    }

    /// Returns the space for data that grow with a film while it is indexed.
    pub fn scratch(&self) -> Scratch {
        let directory = self.index.as_deref();
        directory.map_or_else(Scratch::default, scratch)
    }

    /// Writes an index file. Returns false if that fails.
    fn save(&self, identity: &FileIdentity, index: &Index, growth: Growth) -> bool {
        let Some(directory) = &self.index else {
            return false;
        };
        if self.memory.rests() {
            return false;
        }
        let path = IndexFile::path_for(directory, identity);
        let _writing = lock(&self.writing);
        let written = fs::create_dir_all(directory)
            .map_err(Into::into)
            .and_then(|()| IndexFile::write(&path, identity, &index.title, &index.tables, growth));
        match &written {
            Ok(()) => self.memory.wrote(),
            Err(error) => self.memory.failed(directory, error),
        }
        written.is_ok()
    }

    /// Rewrites the index file of a film with more data. Viewers who open the film from now on get
    /// the new data; present viewers continue with the old.
    ///
    /// # Errors
    /// The file cannot be written, or belongs to another film by now.
    pub fn write_again(
        &self,
        entry: &Entry,
        write: impl FnOnce(&Path) -> Result<(), IndexFileError>,
    ) -> Result<(), IndexFileError> {
        let Some(directory) = &self.index else {
            return Ok(());
        };
        let path = IndexFile::path_for(directory, &entry.identity);
        let writing = lock(&self.writing);
        IndexFile::summary(&path, &entry.identity)?;
        write(&path)?;
        drop(writing);
        let mut library = lock(&self.library);
        let is_it = |film: &Arc<Film>| film.identity == entry.identity;
        (library.loaded).retain(|_, film| film.upgrade().is_some_and(|film| !is_it(&film)));
        library.recent.retain(|film| !is_it(film));
        Ok(())
    }

    /// Keeps an index in memory, with nothing in scratch space, which may be on the failing disk
    /// and is not bounded for all films together. The error is a message.
    fn keep_in_memory(
        &self,
        name: &str,
        path: &Path,
        identity: FileIdentity,
        (mut index, growth): (Index, Growth),
    ) -> Result<Arc<Film>, String> {
        index.bring().map_err(|lost| lost.to_string())?;
        let tables = Arc::new(index.tables);
        let film = Film {
            name: name.to_owned(),
            path: path.to_owned(),
            identity,
            title: Arc::new(index.title),
            samples: tables.clone(),
            growth,
        };
        let directory = self.index.as_deref().unwrap_or(Path::new(""));
        let path = IndexFile::path_for(directory, &identity);
        let full = |Full { most }| {
            format!(
                "the indexes of films being played take all of index.memory, {} MiB; index files cannot be written to the state directory",
                most >> 20
            )
        };
        self.memory.keep(film, tables, path).map_err(full)
    }

    pub fn announce(&self, change: &Change) {
        if !change.changed.is_empty() || !change.replaced.is_empty() {
            for listener in lock(&self.listeners).iter() {
                // If a listener panics, the others are still notified.
                let _ = supervise::guard("library listener", || listener(change));
            }
        }
    }
}

impl Library {
    fn used(&mut self, film: &Arc<Film>) {
        if film.memory() > 0 {
            // Kept in `IndexMemory`, which bounds its memory.
            return;
        }
        self.recent.retain(|other| !Arc::ptr_eq(other, film));
        self.recent.push_back(film.clone());
        if self.recent.len() > TITLES_KEPT {
            self.recent.pop_front();
        }
    }
}

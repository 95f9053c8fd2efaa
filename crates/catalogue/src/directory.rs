//! A library: watched directories of film files, or films elsewhere. What is known of them, and how a
//! film is had. A thread of its own looks after them (`keeper.rs`).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use reelway_media::Index;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use tracing::warn;

use crate::Catalogue;
use crate::entry::{CatalogueError, Entry, Film, State};
use crate::index_file::IndexFile;
use crate::intake::Intake;
use crate::keeper::{Event, Keeper};
use crate::local::Local;
use crate::shelf::{Found, Shelf};
use crate::unsaved::{self, Full, IndexMemory};

/// Which directories, and where indexes are kept.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// Film directories, or single films.
    pub films: Vec<PathBuf>,
    /// Where index files are kept; `None`: in memory only.
    pub index: Option<PathBuf>,
    /// Where indexes are kept that cannot be written to files.
    pub memory: IndexMemory,
    /// Longest time between two walks over the directories.
    pub rescan: Duration,
    /// Bytes that are read at once: a film that lies on its disk in smaller pieces is told.
    pub block_bytes: u32,
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        DirectoryConfig {
            films: Vec::new(),
            index: None,
            memory: IndexMemory::default(),
            rescan: Duration::from_secs(60),
            block_bytes: 256 << 10,
        }
    }
}

/// What has changed in the library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Names of films that came, went, or changed their state.
    pub changed: Vec<String>,
    /// Names whose file is now another: whoever watches must not go on.
    pub replaced: Vec<String>,
}

/// Titles kept in memory after their last use: some kilobytes and an open file each.
const TITLES_KEPT: usize = 64;

/// A library of watched directories, or of another [`Shelf`].
pub struct Directory {
    pub(crate) shared: Arc<Shared>,
    /// Its film directories; `None`: its films lie elsewhere.
    films: Option<Vec<PathBuf>>,
    wake: mpsc::Sender<Event>,
    keeper: Option<JoinHandle<()>>,
}

type Listener = Box<dyn Fn(&Change) + Send + Sync>;

/// What the library and its keeper share.
pub(crate) struct Shared {
    pub shelf: Arc<dyn Shelf>,
    /// Where index files are kept.
    pub index: Option<PathBuf>,
    pub memory: IndexMemory,
    /// Held by the one who indexes a film again: where no index file can be written, each takes memory.
    again: Mutex<()>,
    pub library: Mutex<Library>,
    /// The shelf was looked at once, or could not be.
    pub looked: AtomicBool,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Default)]
pub(crate) struct Library {
    pub entries: BTreeMap<String, Arc<Entry>>,
    loaded: HashMap<String, Weak<Film>>,
    /// The films last used, the latest at the back.
    pub recent: VecDeque<Arc<Film>>,
}

impl Directory {
    /// Walks the directories once (films are then listed as being indexed) and starts looking
    /// after them. Problems with single folders are logged; the library is what could be read.
    pub fn open(config: DirectoryConfig) -> Directory {
        let (wake, events) = mpsc::channel();
        let shelf = Local::new(&config, wake.clone());
        let indexes = (config.index, config.memory);
        let mut library = Directory::start(Arc::new(shelf), indexes, (wake, events), true);
        library.films = Some(config.films);
        library
    }

    /// A library of the films on a shelf, with index files in a directory of its own, or in memory where they cannot be
    /// written. What is there is found out on the library's thread: at first it is empty.
    pub fn of(shelf: Arc<dyn Shelf>, index: Option<PathBuf>, memory: IndexMemory) -> Directory {
        Directory::start(shelf, (index, memory), mpsc::channel(), false)
    }

    fn start(
        shelf: Arc<dyn Shelf>,
        (index, memory): (Option<PathBuf>, IndexMemory),
        (wake, events): (mpsc::Sender<Event>, mpsc::Receiver<Event>),
        look_first: bool,
    ) -> Directory {
        let shared = Arc::new(Shared {
            shelf,
            index,
            memory,
            again: Mutex::default(),
            library: Mutex::default(),
            looked: AtomicBool::new(false),
            listeners: Mutex::default(),
        });
        if let Some(directory) = &shared.index
            && let Err(error) = unsaved::probe(directory)
        {
            shared.memory.failed(directory, &error.into());
        }
        let mut keeper = Keeper::new(shared.clone());
        let mut first = look_first.then(|| keeper.look());
        // After a panic it looks at everything anew.
        let run = move || {
            let first = first.take().unwrap_or_else(|| keeper.look());
            keeper.run(first, &events);
        };
        let keeper = supervise::thread("library", run)
            .map_err(|error| {
                warn!("film directories are not watched, as no thread can be started: {error}")
            })
            .ok();
        Directory {
            shared,
            films: None,
            wake,
            keeper,
        }
    }

    /// Its film directories on this machine.
    pub(crate) fn films(&self) -> &[PathBuf] {
        self.films.as_deref().unwrap_or_default()
    }

    /// Has the keeper look again.
    pub(crate) fn wake(&self) {
        // Without a keeper changes go unnoticed, which was said at the start.
        let _ = self.wake.send(Event::Changed);
    }

    /// Whether it is known which films there are, and of each whether it plays.
    pub fn is_settled(&self) -> bool {
        let indexing = |entry: &Arc<Entry>| matches!(entry.state, State::Indexing);
        self.shared.looked.load(Ordering::Relaxed) && !self.list().iter().any(indexing)
    }

    /// A way to have it look again at once.
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let wake = self.wake.clone();
        move || drop(wake.send(Event::Changed))
    }

    /// Calls `listener` after every change, on the library's own thread.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        lock(&self.shared.listeners).push(Box::new(listener));
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = self.wake.send(Event::Stop);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

impl Catalogue for Directory {
    fn list(&self) -> Vec<Arc<Entry>> {
        lock(&self.shared.library)
            .entries
            .values()
            .cloned()
            .collect()
    }

    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        lock(&self.shared.library).entries.get(name).cloned()
    }

    fn film(&self, name: &str) -> Result<Arc<Film>, CatalogueError> {
        let entry = self
            .entry(name)
            .ok_or_else(|| CatalogueError::Unknown(name.to_owned()))?;
        let name = name.to_owned();
        match &entry.state {
            State::Ready(_) => self.shared.load(&entry),
            State::Indexing => {
                let reason = "it is being indexed; ask again in a moment".to_owned();
                Err(CatalogueError::NotReady { name, reason })
            }
            State::NotReady { reason } => Err(CatalogueError::NotReady {
                name,
                reason: reason.clone(),
            }),
            State::Unplayable { reason } => Err(CatalogueError::Unplayable {
                name,
                reason: reason.clone(),
            }),
        }
    }

    fn intake(&self) -> Option<&dyn Intake> {
        self.films.is_some().then_some(self)
    }
}

impl Shared {
    /// The film of a playable entry, from memory or from its index file.
    fn load(&self, entry: &Entry) -> Result<Arc<Film>, CatalogueError> {
        if let Some(film) = self.in_memory(entry) {
            return Ok(film);
        }
        // Not under the lock: a slow disk must not hold up those whose films are in memory. Two
        // newcomers may load the same film at once; the second one's copy lives as long as its holder.
        let film = match self.read_index(&entry.name, &entry.path, &entry.identity) {
            Some(film) => film,
            None => self.index_again(entry)?,
        };
        let mut library = lock(&self.library);
        library.loaded.retain(|_, film| film.strong_count() > 0);
        library
            .loaded
            .insert(entry.name.clone(), Arc::downgrade(&film));
        library.used(&film);
        Ok(film)
    }

    /// The film of a playable entry, if it is in memory.
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
                samples: Arc::new(samples),
            })),
            Err(error) => {
                // Known, and said, where index files cannot be written.
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
        // One after the other: each takes the memory of an index until it is written.
        let _turn = lock(&self.again);
        if let Some(film) = self.in_memory(entry) {
            return Ok(film);
        }
        let found = Found {
            path: entry.path.clone(),
            file: entry.file.clone(),
            identity: entry.identity,
            problem: None,
        };
        let indexed = self.shelf.index(&found).ok();
        let Some((_, index)) = indexed.filter(|(identity, _)| *identity == entry.identity) else {
            let words = "its file has changed; it is being indexed again";
            return Err(not_ready(words.to_owned()));
        };
        let full = |Full { most }| {
            not_ready(format!(
                "the indexes of films being played take all of index.memory, {} MiB; index files cannot be written to the state directory",
                most >> 20
            ))
        };
        if self.save(&entry.identity, &index)
            && let Some(film) = self.read_index(&entry.name, &entry.path, &entry.identity)
        {
            return Ok(film);
        }
        self.keep_in_memory(&entry.name, &entry.path, entry.identity, index)
            .map_err(full)
    }

    /// Saves an index; where that cannot be done, keeps it in memory for as long as there is room.
    pub fn keep(&self, name: &str, path: &Path, identity: FileIdentity, index: Index) {
        if !self.save(&identity, &index) {
            // Without room, it is indexed again when it is wanted.
            let _ = self.keep_in_memory(name, path, identity, index);
        }
    }

    /// Writes an index file; false where that cannot be done.
    fn save(&self, identity: &FileIdentity, index: &Index) -> bool {
        let Some(directory) = &self.index else {
            return false;
        };
        if self.memory.rests() {
            return false;
        }
        let path = IndexFile::path_for(directory, identity);
        let written = fs::create_dir_all(directory)
            .map_err(Into::into)
            .and_then(|()| IndexFile::write(&path, identity, &index.title, &index.tables));
        match &written {
            Ok(()) => self.memory.wrote(),
            Err(error) => self.memory.failed(directory, error),
        }
        written.is_ok()
    }

    fn keep_in_memory(
        &self,
        name: &str,
        path: &Path,
        identity: FileIdentity,
        index: Index,
    ) -> Result<Arc<Film>, Full> {
        let tables = Arc::new(index.tables);
        let film = Film {
            name: name.to_owned(),
            path: path.to_owned(),
            identity,
            title: Arc::new(index.title),
            samples: tables.clone(),
        };
        let directory = self.index.as_deref().unwrap_or(Path::new(""));
        let path = IndexFile::path_for(directory, &identity);
        self.memory.keep(film, tables, path)
    }

    pub fn tell(&self, change: &Change) {
        if !change.changed.is_empty() || !change.replaced.is_empty() {
            for listener in lock(&self.listeners).iter() {
                // A listener that panics has heard of it; the others hear of it too.
                let _ = supervise::guard("library listener", || listener(change));
            }
        }
    }
}

impl Library {
    fn used(&mut self, film: &Arc<Film>) {
        if film.memory() > 0 {
            // Kept elsewhere, where its memory is bounded.
            return;
        }
        self.recent.retain(|other| !Arc::ptr_eq(other, film));
        self.recent.push_back(film.clone());
        if self.recent.len() > TITLES_KEPT {
            self.recent.pop_front();
        }
    }
}

/// Enters what the keeper makes anew at each look, or a list that is changed in one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    supervise::whole(mutex.lock())
}

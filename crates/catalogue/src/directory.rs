//! Watched directories of film files.
//!
//! One thread looks after the library: it walks the directories, indexes what is new or changed,
//! and then waits for the kernel to tell of changes (inotify), walking again at least once a
//! minute for file systems that tell nothing.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use reelway_media::Index;
use reelway_sys::FileIdentity;
use tracing::{debug, info, warn};

use crate::Catalogue;
use crate::entry::{CatalogueError, Entry, Film, State, Summary};
use crate::index_file::IndexFile;
use crate::indexing::{foreign_container, index_path};
use crate::naming;
use crate::scan::{Found, scan};

/// Which directories, and where indexes are kept.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// Film directories, or single films.
    pub films: Vec<PathBuf>,
    /// Where index files are kept; `None`: in memory only.
    pub index: Option<PathBuf>,
    /// Longest time between two walks over the directories.
    pub rescan: Duration,
}

impl Default for DirectoryConfig {
    fn default() -> Self {
        DirectoryConfig {
            films: Vec::new(),
            index: None,
            rescan: Duration::from_secs(60),
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

/// How long to wait after a change for more of them before looking.
const SETTLE: Duration = Duration::from_millis(200);
/// How long changes may keep coming before looking all the same.
const SETTLE_AT_MOST: Duration = Duration::from_secs(1);
/// A file changed more recently than this that cannot be read may still be in the making.
const YOUNG: Duration = Duration::from_secs(5);
/// Titles kept in memory after their last use; one of two hours takes about a megabyte.
const TITLES_KEPT: usize = 16;

/// A library of watched directories.
pub struct Directory {
    shared: Arc<Shared>,
    wake: mpsc::Sender<Event>,
    keeper: Option<JoinHandle<()>>,
}

enum Event {
    Changed,
    Stop,
}

type Listener = Box<dyn Fn(&Change) + Send + Sync>;

struct Shared {
    config: DirectoryConfig,
    library: Mutex<Library>,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Default)]
struct Library {
    entries: BTreeMap<String, Arc<Entry>>,
    /// Indexes of films for which no index file could be written.
    unsaved: HashMap<FileIdentity, Arc<Film>>,
    loaded: HashMap<String, Weak<Film>>,
    /// The films last used, the latest at the back.
    recent: VecDeque<Arc<Film>>,
}

impl Directory {
    /// Walks the directories once (films are then listed as being indexed) and starts looking
    /// after them. Problems with single folders are logged; the library is what could be read.
    pub fn open(config: DirectoryConfig) -> Directory {
        let config = DirectoryConfig {
            index: usable_index_directory(config.index),
            ..config
        };
        let shared = Arc::new(Shared {
            config,
            library: Mutex::default(),
            listeners: Mutex::default(),
        });
        let (wake, events) = mpsc::channel();
        let mut keeper = Keeper::new(shared.clone(), wake.clone());
        let first = keeper.look();
        let keeper = std::thread::Builder::new()
            .name("library".into())
            .spawn(move || keeper.run(first, &events))
            .map_err(|error| warn!("no thread to watch the films: {error}; changes go unnoticed"))
            .ok();
        Directory {
            shared,
            wake,
            keeper,
        }
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
}

impl Shared {
    /// The film of a playable entry, from memory or from its index file.
    fn load(&self, entry: &Entry) -> Result<Arc<Film>, CatalogueError> {
        {
            let mut library = lock(&self.library);
            let known = library.loaded.get(&entry.name).and_then(Weak::upgrade);
            let known = known.or_else(|| library.unsaved.get(&entry.identity).cloned());
            if let Some(film) = known.filter(|film| film.identity == entry.identity) {
                library.used(&film);
                return Ok(film);
            }
        }
        // Not under the lock: a slow disk must not hold up those whose films are in memory. Two
        // newcomers may load the same film at once; the second one's copy lives as long as he does.
        let film = self.read_index(entry).or_else(|| self.index_again(entry));
        let film = film.ok_or_else(|| CatalogueError::NotReady {
            name: entry.name.clone(),
            reason: "its file has changed; it is being indexed again".to_owned(),
        })?;
        let mut library = lock(&self.library);
        library.loaded.retain(|_, film| film.strong_count() > 0);
        library
            .loaded
            .insert(entry.name.clone(), Arc::downgrade(&film));
        library.used(&film);
        Ok(film)
    }

    fn read_index(&self, entry: &Entry) -> Option<Arc<Film>> {
        let path = IndexFile::path_for(self.config.index.as_ref()?, &entry.identity);
        match IndexFile::open(&path, &entry.identity) {
            Ok((title, samples)) => Some(Arc::new(Film {
                name: entry.name.clone(),
                path: entry.path.clone(),
                identity: entry.identity,
                title: Arc::new(title),
                samples: Arc::new(samples),
            })),
            Err(error) => {
                warn!(
                    film = entry.name,
                    "index file {}: {error}; made anew",
                    path.display()
                );
                None
            }
        }
    }

    fn index_again(&self, entry: &Entry) -> Option<Arc<Film>> {
        let (identity, index) = index_path(&entry.path).ok()?;
        (identity == entry.identity).then(|| self.keep(&entry.name, &entry.path, identity, index))
    }

    /// Saves an index; where that cannot be, keeps it in memory. Returns the film.
    fn keep(&self, name: &str, path: &Path, identity: FileIdentity, index: Index) -> Arc<Film> {
        let saved = self.config.index.as_ref().is_some_and(|directory| {
            let path = IndexFile::path_for(directory, &identity);
            IndexFile::write(&path, &identity, &index)
                .map_err(|error| warn!("index file {}: {error}; kept in memory", path.display()))
                .is_ok()
        });
        let film = Arc::new(Film {
            name: name.to_owned(),
            path: path.to_owned(),
            identity,
            title: Arc::new(index.title),
            samples: Arc::new(index.tables),
        });
        if !saved {
            lock(&self.library).unsaved.insert(identity, film.clone());
        }
        film
    }

    fn tell(&self, change: &Change) {
        if !change.changed.is_empty() || !change.replaced.is_empty() {
            for listener in lock(&self.listeners).iter() {
                listener(change);
            }
        }
    }
}

impl Library {
    fn used(&mut self, film: &Arc<Film>) {
        self.recent.retain(|other| !Arc::ptr_eq(other, film));
        self.recent.push_back(film.clone());
        if self.recent.len() > TITLES_KEPT {
            self.recent.pop_front();
        }
    }
}

/// Looks after the library, on its own thread.
struct Keeper {
    shared: Arc<Shared>,
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    /// Problems already told, so that each is told once.
    told: HashSet<(PathBuf, String)>,
}

/// What one walk leaves to do.
struct Work {
    to_index: Vec<(String, Found)>,
}

impl Keeper {
    fn new(shared: Arc<Shared>, wake: mpsc::Sender<Event>) -> Keeper {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a film is no change to it; without this the server would wake itself.
            let only_read = event.as_ref().is_ok_and(|event| event.kind.is_access());
            if !only_read {
                let _ = wake.send(Event::Changed);
            }
        });
        let watcher = watcher
            .map_err(|error| warn!("changes to films are noticed late, by looking: {error}"))
            .ok();
        Keeper {
            shared,
            watcher,
            watched: HashSet::new(),
            told: HashSet::new(),
        }
    }

    fn run(&mut self, first: Work, events: &mpsc::Receiver<Event>) {
        self.index(first);
        self.prune();
        loop {
            let unfinished = lock(&self.shared.library)
                .entries
                .values()
                .any(|entry| matches!(entry.state, State::NotReady { .. }));
            let patience = if unfinished {
                YOUNG
            } else {
                self.shared.config.rescan
            };
            match events.recv_timeout(patience.min(self.shared.config.rescan)) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Event::Changed) if !settle(events) => return,
                Ok(Event::Changed) | Err(RecvTimeoutError::Timeout) => {
                    let work = self.look();
                    self.index(work);
                }
            }
        }
    }

    /// Walks the directories and brings the list up to date; new and changed films are listed as
    /// being indexed.
    fn look(&mut self) -> Work {
        let scan = scan(&self.shared.config.films);
        for (path, problem) in &scan.problems {
            if self.told.insert((path.clone(), problem.clone())) {
                warn!("{}: {problem}", path.display());
            }
        }
        self.told.retain(|problem| scan.problems.contains(problem));
        self.watch(&scan.folders);

        let files: Vec<String> = scan.films.iter().map(|found| found.file.clone()).collect();
        let names = naming::names(&files);
        let mut change = Change::default();
        let mut to_index = Vec::new();
        let mut entries = BTreeMap::new();
        let mut library = lock(&self.shared.library);
        for (name, found) in names.into_iter().zip(scan.films) {
            let old = library.entries.remove(&name);
            let entry = match old {
                Some(old) if old.identity == found.identity && old.path == found.path => {
                    if matches!(old.state, State::NotReady { .. }) {
                        to_index.push((name.clone(), found));
                    }
                    old
                }
                old => {
                    change.changed.push(name.clone());
                    if old.is_some_and(|old| matches!(old.state, State::Ready(_))) {
                        change.replaced.push(name.clone());
                    }
                    let state = self.known_state(&found).unwrap_or_else(|| {
                        to_index.push((name.clone(), found.clone()));
                        State::Indexing
                    });
                    Arc::new(new_entry(&name, &found, state))
                }
            };
            entries.insert(name, entry);
        }
        change.changed.extend(library.entries.keys().cloned());
        library.entries = entries;
        // A film that went is forgotten, but whoever watches it has it until he is done.
        let present: HashSet<_> = library
            .entries
            .values()
            .map(|entry| entry.identity)
            .collect();
        library
            .unsaved
            .retain(|identity, _| present.contains(identity));
        library
            .recent
            .retain(|film| present.contains(&film.identity));
        drop(library);
        self.shared.tell(&change);
        Work { to_index }
    }

    /// The state of a film that need not be indexed.
    fn known_state(&self, found: &Found) -> Option<State> {
        if let Some(reason) = foreign_container(&found.path) {
            return Some(State::Unplayable { reason });
        }
        let path = IndexFile::path_for(self.shared.config.index.as_ref()?, &found.identity);
        let summary = IndexFile::summary(&path, &found.identity).ok()?;
        Some(State::Ready(Arc::new(summary)))
    }

    fn index(&self, work: Work) {
        for (name, found) in work.to_index {
            let state = match index_path(&found.path) {
                Ok((identity, index)) if identity == found.identity => {
                    let summary = Arc::new(Summary::of(&index.title));
                    for note in &index.title.notes {
                        info!(film = name, "{note}");
                    }
                    self.shared.keep(&name, &found.path, identity, index);
                    State::Ready(summary)
                }
                Ok(_) => State::NotReady {
                    reason: "it is being written".into(),
                },
                Err(error) if error.is_incomplete() || is_young(&found) => State::NotReady {
                    reason: error.reason(),
                },
                Err(error) => {
                    warn!(film = name, "cannot be played: {error}");
                    State::Unplayable {
                        reason: error.reason(),
                    }
                }
            };
            self.set_state(&name, &found, state);
        }
    }

    fn set_state(&self, name: &str, found: &Found, state: State) {
        let mut library = lock(&self.shared.library);
        let Some(entry) = library
            .entries
            .get_mut(name)
            .filter(|entry| entry.identity == found.identity)
        else {
            return;
        };
        let same = match (&entry.state, &state) {
            (State::NotReady { reason: old }, State::NotReady { reason: new }) => old == new,
            _ => false,
        };
        debug!(film = name, ?state, "indexed");
        *entry = Arc::new(new_entry(name, found, state));
        drop(library);
        if !same {
            self.shared.tell(&Change {
                changed: vec![name.to_owned()],
                replaced: Vec::new(),
            });
        }
    }

    /// Watches folders that are not watched yet. Each by itself: which folders there are is what
    /// the walk found, links included.
    fn watch(&mut self, folders: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let films = self
            .shared
            .config
            .films
            .iter()
            .filter(|film| film.is_file());
        let parents = films.filter_map(|film| Some(film.parent()?.to_owned()));
        let wanted: HashSet<PathBuf> = folders.iter().cloned().chain(parents).collect();
        for folder in &wanted {
            // Again each time: a folder that went and came back has lost its watch.
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                let problem = (folder.clone(), error.to_string());
                if self.told.insert(problem) {
                    warn!(
                        "{}: changes are noticed late, by looking: {error} (more watches: sysctl fs.inotify.max_user_watches)",
                        folder.display()
                    );
                }
            }
        }
        for gone in self.watched.difference(&wanted) {
            let _ = watcher.unwatch(gone);
        }
        self.watched = wanted;
    }

    /// Removes index files of films that are no longer there.
    fn prune(&self) {
        let Some(directory) = &self.shared.config.index else {
            return;
        };
        let present: HashSet<PathBuf> = lock(&self.shared.library)
            .entries
            .values()
            .map(|entry| IndexFile::path_for(directory, &entry.identity))
            .collect();
        let Ok(files) = fs::read_dir(directory) else {
            return;
        };
        for path in files.flatten().map(|file| file.path()) {
            let ours = path
                .extension()
                .is_some_and(|extension| extension == "rwx" || extension == "new");
            if ours && !present.contains(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn new_entry(name: &str, found: &Found, state: State) -> Entry {
    Entry {
        name: name.to_owned(),
        path: found.path.clone(),
        file: found.file.clone(),
        identity: found.identity,
        state,
    }
}

/// Waits until changes have stopped for a moment; false when the library is to stop.
fn settle(events: &mpsc::Receiver<Event>) -> bool {
    let rounds = SETTLE_AT_MOST.as_millis() / SETTLE.as_millis();
    for _ in 0..rounds {
        match events.recv_timeout(SETTLE) {
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => return true,
            Ok(Event::Changed) => {
                // Everything that has piled up is one change.
                while let Ok(event) = events.try_recv() {
                    if matches!(event, Event::Stop) {
                        return false;
                    }
                }
            }
        }
    }
    true
}

fn is_young(found: &Found) -> bool {
    let now = i128::from(reelway_clock::real().nanos());
    now - i128::from(found.identity.mtime_ns) < YOUNG.as_nanos() as i128
}

/// The index directory if it can be written to; said once if not.
fn usable_index_directory(directory: Option<PathBuf>) -> Option<PathBuf> {
    let directory = directory?;
    let probe = directory.join(".writable");
    let tried = fs::create_dir_all(&directory).and_then(|()| fs::write(&probe, b""));
    let _ = fs::remove_file(probe);
    match tried {
        Ok(()) => Some(directory),
        Err(error) => {
            warn!(
                "index files cannot be kept in {}: {error}; films are indexed at every start and their tables stay in memory (--state DIR names another place)",
                directory.display()
            );
            None
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

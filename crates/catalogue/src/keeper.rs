//! The thread that looks after a library: it walks the directories, indexes what is new or changed,
//! and then waits for the kernel to tell of changes (inotify), walking again at least once a minute
//! for file systems that tell nothing.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tracing::{debug, info, warn};

use crate::directory::{Change, Shared, lock};
use crate::entry::{Entry, State, Summary};
use crate::index_file::IndexFile;
use crate::indexing::{foreign_container, index_path};
use crate::naming;
use crate::scan::{Found, scan};

/// How long to wait after a change for more of them before looking.
const SETTLE: Duration = Duration::from_millis(200);
/// How long changes may keep coming before looking all the same.
const SETTLE_AT_MOST: Duration = Duration::from_secs(1);
/// A file changed more recently than this that cannot be read may still be in the making.
const YOUNG: Duration = Duration::from_secs(5);

/// What wakes the keeper.
pub(crate) enum Event {
    Changed,
    Stop,
}

/// Looks after the library, on its own thread.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    /// Problems already told, so that each is told once.
    told: HashSet<(PathBuf, String)>,
}

/// What one walk leaves to do.
pub(crate) struct Work {
    to_index: Vec<(String, Found)>,
}

impl Keeper {
    pub fn new(shared: Arc<Shared>, wake: mpsc::Sender<Event>) -> Keeper {
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

    pub fn run(&mut self, first: Work, events: &mpsc::Receiver<Event>) {
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
    pub fn look(&mut self) -> Work {
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

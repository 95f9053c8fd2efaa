//! The thread that looks after a library: it looks at its shelf, indexes what is new or changed, and
//! then waits to be woken (by the kernel, where there are directories), looking again now and then all
//! the same: file systems of networks tell nothing, nor do sources elsewhere.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, SystemTime};

use reelway_clock::Monotonic;
use reelway_supervise::{self as supervise, lock};
use tracing::warn;

use crate::entry::{Entry, State};
use crate::growth::{self, First, Pace};
use crate::index_file::IndexFile;
use crate::indexing::foreign_container;
use crate::large::{Files, Large};
use crate::library::{Change, Shared};
use crate::reading::{self, Named};
use crate::seen::{self, new_entry};
use crate::sets::{self, Set};
use crate::shelf::FoundFilm;

/// How long to wait after a change for more of them before looking.
const SETTLE: Duration = Duration::from_millis(200);
/// How long changes may keep coming before looking all the same.
const SETTLE_AT_MOST: Duration = Duration::from_secs(1);
/// How often it is tried to write indexes that could not be written.
const UNSAVED: Duration = Duration::from_secs(10);

/// How often it is noted which index files are of use.
const NOTED: Duration = Duration::from_secs(86_400);
/// How long an index file is kept whose film is not there.
const UNUSED: Duration = Duration::from_secs(90 * 86_400);

/// What wakes the keeper.
pub(crate) enum Event {
    Changed,
    Stop,
}

/// Looks after the library, on its own thread.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// What the last look that failed said, so that it is told once.
    told: Option<String>,
    /// Of files that grow.
    pace: Pace,
    /// Whether a film has grown that is to be indexed again later.
    growing: bool,
    /// Films that are being read beside it.
    large: Large,
    /// When it was noted last which index files are of use.
    noted: Monotonic,
    /// Whether those were removed that are of no use.
    has_pruned: bool,
}

/// What one walk leaves to do.
#[derive(Default)]
pub(crate) struct Work {
    to_index: Vec<(String, FoundFilm)>,
}

impl Keeper {
    /// One that wakes itself by `wake`, too.
    pub fn new(shared: Arc<Shared>, wake: mpsc::Sender<Event>) -> Keeper {
        let wake = move || drop(wake.send(Event::Changed));
        Keeper {
            large: Large::new(shared.clone(), wake),
            shared,
            told: None,
            pace: Pace::default(),
            growing: false,
            noted: reelway_clock::now(),
            has_pruned: false,
        }
    }

    pub fn run(&mut self, first: Work, events: &mpsc::Receiver<Event>) {
        let large = self.index(first);
        // Once, before other threads write index files.
        if !std::mem::replace(&mut self.has_pruned, true) {
            self.prune();
        }
        self.large.read(large);
        loop {
            let is_unfinished = lock(&self.shared.library)
                .entries
                .values()
                .filter(|entry| matches!(entry.state, State::NotReady { .. }))
                .any(|entry| self.shared.shelf.may_be_ready_soon(&entry.identity));
            let mut patience = self.shared.shelf.patience(is_unfinished);
            if self.growing {
                patience = patience.min(self.shared.shelf.anew_every());
            }
            if self.shared.memory.problem().is_some() {
                patience = patience.min(UNSAVED);
            }
            match events.recv_timeout(patience) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Event::Changed) if !settle(events) => return,
                Ok(Event::Changed) | Err(RecvTimeoutError::Timeout) => {
                    self.shared.memory.save();
                    let work = self.look();
                    let large = self.index(work);
                    self.large.read(large);
                    let now = reelway_clock::now();
                    if now.since(self.noted) >= NOTED {
                        self.noted = now;
                        self.note_use();
                    }
                }
            }
        }
    }

    /// Looks at the shelf and brings the list up to date; new and changed films are listed as
    /// being indexed.
    pub fn look(&mut self) -> Work {
        supervise::inject("library.look");
        // Before anything is looked at: whoever ends meanwhile wakes the keeper once more.
        let (large, read) = self.large.look();
        for (path, ended, took) in read {
            self.pace.took(&path, ended, took);
        }
        let looked = self.shared.shelf.look();
        let found = match looked {
            Ok(found) => {
                self.told = None;
                found
            }
            Err(problem) => {
                if self.told.as_ref() != Some(&problem) {
                    warn!("{problem}");
                }
                self.told = Some(problem);
                self.shared.looked.store(true, Ordering::Relaxed);
                return Work::default();
            }
        };
        let films = found.iter();
        let films: Vec<_> = films
            .map(|found| (found.file.as_str(), found.identity.size))
            .collect();
        let (names, sets): (Vec<String>, Vec<Set>) = sets::arrange(&films)
            .into_iter()
            .map(|named| (named.name, named.set))
            .unzip();
        let mut change = Change::default();
        let (now, every) = (reelway_clock::now(), self.shared.shelf.anew_every());
        let grown = self.grown(&names, &found, &large);
        let mut to_index = Vec::new();
        let mut entries = BTreeMap::new();
        // Of one that is being read it is known when there is more.
        let mut grows = names.iter().zip(&found);
        self.growing = grows
            .any(|(name, found)| grown.contains(name) && !large.has(&found.path, &found.identity));
        let there: HashSet<PathBuf> = found.iter().map(|found| found.path.clone()).collect();
        self.pace.retain(|path| there.contains(path));
        let mut library = lock(&self.shared.library);
        for ((name, set), found) in names.into_iter().zip(sets).zip(found) {
            let old = library.entries.remove(&name);
            supervise::inject("library.list");
            let entry = match old {
                Some(old)
                    if old.identity == found.identity
                        && old.path == found.path
                        && (found.problem.is_none() || found.problem.as_ref() == old.reason()) =>
                {
                    // Still being indexed: a panic ended the look that was to do it.
                    let open = matches!(old.state, State::NotReady { .. } | State::Indexing);
                    let (entry, shows_else) = seen::same(old, &found, set, now);
                    if shows_else {
                        change.changed.push(name.clone());
                    }
                    if open && found.problem.is_none() {
                        to_index.push((name.clone(), found));
                    }
                    entry
                }
                // Read meanwhile, with more in it than was there when it was found.
                Some(old)
                    if old.path == found.path
                        && large.has(&found.path, &found.identity)
                        && matches!(old.state, State::Ready(_))
                        && found.identity.may_have_grown_into(&old.identity) =>
                {
                    old
                }
                // Played as far as it was indexed, until it is indexed again.
                Some(old) if grown.contains(&name) => {
                    if self.pace.is_due(&found.path, now, every) {
                        to_index.push((name.clone(), found.clone()));
                    }
                    if old.subtitles != found.subtitles || old.set != set {
                        change.changed.push(name.clone());
                    }
                    Arc::new(seen::grown(&old, &found, set, now))
                }
                old => {
                    change.changed.push(name.clone());
                    if old.is_some_and(|old| matches!(old.state, State::Ready(_))) {
                        change.replaced.push(name.clone());
                    }
                    let known = self.known(&name, &found);
                    if known
                        .as_ref()
                        .is_none_or(|known| known.identity != found.identity)
                    {
                        to_index.push((name.clone(), found.clone()));
                    }
                    match known {
                        Some(known) if known.identity != found.identity => {
                            Arc::new(seen::grown(&known, &found, set, now))
                        }
                        Some(known) => seen::same(Arc::new(known), &found, set, now).0,
                        None => Arc::new(Entry {
                            set,
                            ..new_entry(&name, &found, State::Indexing)
                        }),
                    }
                }
            };
            entries.insert(name, entry);
        }
        change.changed.extend(library.entries.keys().cloned());
        library.entries = entries;
        // A film that went is forgotten, but present viewers keep it until they are done.
        let present: HashSet<_> = library
            .entries
            .values()
            .map(|entry| entry.identity)
            .collect();
        library
            .recent
            .retain(|film| present.contains(&film.identity));
        drop(library);
        // The index of a film that has just been read may not be listed yet.
        if let Some(directory) = &self.shared.index
            && large.is_empty()
        {
            let memory = &self.shared.memory;
            memory.retain(directory, |identity| present.contains(identity));
        }
        self.shared.looked.store(true, Ordering::Relaxed);
        self.shared.tell(&change);
        to_index.retain(|(_, found)| !large.has(&found.path, &found.identity));
        Work { to_index }
    }

    /// The names of films that play and whose files have grown since they were indexed, and are the same otherwise.
    fn grown(&self, names: &[String], found: &[FoundFilm], large: &Files) -> HashSet<String> {
        let before: Vec<Arc<Entry>> = {
            let library = lock(&self.shared.library);
            let all = names.iter().zip(found);
            let entries = all.filter_map(|(name, found)| {
                let entry = library.entries.get(name)?;
                let is_it = entry.path == found.path && matches!(entry.state, State::Ready(_));
                let may_be = entry.identity != found.identity
                    && entry.identity.may_have_grown_into(&found.identity)
                    && found.problem.is_none();
                (is_it && may_be).then(|| entry.clone())
            });
            entries.collect()
        };
        // Their files are looked at, which may take time. One that is being read whole has more than its beginning.
        let is_read = |entry: &Entry| entry.is_begun() && large.has(&entry.path, &entry.identity);
        let has_grown = |entry: &&Arc<Entry>| is_read(entry) || self.shared.has_grown(entry);
        let grown = before.iter().filter(has_grown);
        grown.map(|entry| entry.name.clone()).collect()
    }

    /// What is known of a film from a time before; of one that has grown since, as it was then.
    fn known(&self, name: &str, found: &FoundFilm) -> Option<Entry> {
        let of = |state| new_entry(name, found, state);
        if let Some(reason) = found.problem.clone() {
            return Some(of(State::NotReady { reason }));
        }
        if let Some(reason) = foreign_container(&found.path) {
            return Some(of(State::Unplayable { reason }));
        }
        let path = IndexFile::path_for(self.shared.index.as_ref()?, &found.identity);
        let (identity, summary, first) = match IndexFile::summary(&path, &found.identity) {
            Ok((summary, growth)) => (found.identity, summary, growth.first),
            Err(_) => {
                let (before, summary, growth) = IndexFile::before(&path, &found.identity)?;
                let mark = growth.mark?;
                let has_grown = growth::has_grown(&found.path, &before, &mark);
                (has_grown.then_some(before)?, summary, growth.first)
            }
        };
        let first = First::of_any(identity, summary.duration, found.said, first);
        Some(Entry {
            identity,
            first,
            ..of(State::Ready(Arc::new(summary)))
        })
    }

    /// Indexes films. Those that take long are to be read whole.
    fn index(&mut self, work: Work) -> Vec<Named> {
        let indexed = reading::index(&self.shared, work.to_index);
        for (path, ended, took) in indexed.took {
            self.pace.took(&path, ended, took);
        }
        indexed.large
    }

    /// Notes that the index files of the films that are there are of use today. Where that cannot be noted, they may be made
    /// again one day.
    fn note_use(&self) {
        let Some(directory) = &self.shared.index else {
            return;
        };
        let entries = self.shared.list();
        let of_use = entries.iter().map(|entry| &entry.identity);
        for path in of_use.map(|identity| IndexFile::path_for(directory, identity)) {
            let _ = File::open(&path).and_then(|file| file.set_modified(today()));
        }
    }

    /// Removes index files that were of use long ago. A film that is not there may lie on a disk that is not mounted yet, or
    /// with a source that cannot be reached.
    fn prune(&self) {
        self.note_use();
        let directory = self.shared.index.as_ref();
        let Some(Ok(files)) = directory.map(fs::read_dir) else {
            return;
        };
        let now = today();
        for path in files.flatten().map(|file| file.path()) {
            let extension = path.extension().and_then(|extension| extension.to_str());
            let is_over = match extension {
                Some("rwx") => {
                    let used = fs::metadata(&path).and_then(|file| file.modified());
                    used.is_ok_and(|used| now.duration_since(used).is_ok_and(|age| age > UNUSED))
                }
                // Left from a write that did not end.
                Some("new") => true,
                _ => false,
            };
            if is_over {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// The time of day, as files have it.
fn today() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(reelway_clock::real().nanos())
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

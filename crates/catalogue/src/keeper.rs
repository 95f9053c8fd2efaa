//! The thread that looks after a library. It looks at the shelf, indexes new and changed films, and
//! then waits until it is woken (by the kernel, for directories). It also looks from time to time
//! without being woken: network file systems and remote sources do not report changes.

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

/// How long to wait for further changes before looking.
const SETTLE: Duration = Duration::from_millis(200);
/// How long to wait at most if changes keep coming.
const SETTLE_AT_MOST: Duration = Duration::from_secs(1);
/// Interval between attempts to write indexes that could not be written.
const UNSAVED: Duration = Duration::from_secs(10);

/// Interval at which the index files in use are marked as such.
const NOTED: Duration = Duration::from_secs(86_400);
/// How long an index file is kept without its film.
const UNUSED: Duration = Duration::from_secs(90 * 86_400);

/// What wakes the keeper.
pub(crate) enum Event {
    Changed,
    Stop,
}

/// Looks after a library on its own thread.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// The error of the last look, if it failed, so that each is logged only once.
    reported: Option<String>,
    /// Limits how often growing files are indexed.
    pace: Pace,
    /// Whether a film has grown that is to be indexed again later.
    growing: bool,
    /// Films that are being read in parallel.
    large: Large,
    /// When the index files in use were last marked.
    noted: Monotonic,
    /// Whether unused index files have been removed.
    has_pruned: bool,
}

/// The work that results from a look.
#[derive(Default)]
pub(crate) struct Work {
    to_index: Vec<(String, FoundFilm)>,
}

impl Keeper {
    /// Creates a keeper, which also wakes itself through `wake`.
    pub fn new(shared: Arc<Shared>, wake: mpsc::Sender<Event>) -> Keeper {
        let wake = move || drop(wake.send(Event::Changed));
        Keeper {
            large: Large::new(shared.clone(), wake),
            shared,
            reported: None,
            pace: Pace::default(),
            growing: false,
            noted: reelway_clock::now(),
            has_pruned: false,
        }
    }

    pub fn run(&mut self, first: Work, events: &mpsc::Receiver<Event>) {
        let large = self.index(first);
        // Only once, before other threads write index files.
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
                patience = patience.min(self.shared.shelf.reindex_interval());
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

    /// Looks at the shelf and updates the list. New and changed films are listed as being indexed.
    pub fn look(&mut self) -> Work {
        supervise::inject("library.look");
        // First of all: a reader that finishes during this look wakes the keeper once more.
        let (large, read) = self.large.look();
        for (path, ended, took) in read {
            self.pace.took(&path, ended, took);
        }
        let looked = self.shared.shelf.look();
        let found = match looked {
            Ok(found) => {
                self.reported = None;
                found
            }
            Err(problem) => {
                if self.reported.as_ref() != Some(&problem) {
                    warn!("{problem}");
                }
                self.reported = Some(problem);
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
        let (now, every) = (reelway_clock::now(), self.shared.shelf.reindex_interval());
        let grown = self.grown(&names, &found, &large);
        let mut to_index = Vec::new();
        let mut entries = BTreeMap::new();
        // A film that is being read needs no timer: its reader wakes the keeper at the end.
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
                    // Still being indexed if a panic ended the look that should have indexed it.
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
                // Indexed since it was found; it was longer by then.
                Some(old)
                    if old.path == found.path
                        && large.has(&found.path, &found.identity)
                        && matches!(old.state, State::Ready(_))
                        && found.identity.may_have_grown_into(&old.identity) =>
                {
                    old
                }
                // Plays as far as it was indexed, until it is indexed again.
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
        // A film that has gone is forgotten, but its present viewers keep it until they have
        // finished.
        let present: HashSet<_> = library
            .entries
            .values()
            .map(|entry| entry.identity)
            .collect();
        library
            .recent
            .retain(|film| present.contains(&film.identity));
        drop(library);
        // The film of an index that has just been made may not be listed yet.
        if let Some(directory) = &self.shared.index
            && large.is_empty()
        {
            let memory = &self.shared.memory;
            memory.retain(directory, |identity| present.contains(identity));
        }
        self.shared.looked.store(true, Ordering::Relaxed);
        self.shared.announce(&change);
        to_index.retain(|(_, found)| !large.has(&found.path, &found.identity));
        Work { to_index }
    }

    /// Returns the names of playable films whose files have grown since they were indexed and are
    /// otherwise unchanged.
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
        // Checking the files may take time. A film that is being read whole has more than its
        // beginning.
        let is_read = |entry: &Entry| entry.is_begun() && large.has(&entry.path, &entry.identity);
        let has_grown = |entry: &&Arc<Entry>| is_read(entry) || self.shared.has_grown(entry);
        let grown = before.iter().filter(has_grown);
        grown.map(|entry| entry.name.clone()).collect()
    }

    /// Returns what is known of a film from earlier; for one that has grown since then, its earlier
    /// state.
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
        let first = First::of_any(identity, summary.duration, found.report, first);
        Some(Entry {
            identity,
            first,
            ..of(State::Ready(Arc::new(summary)))
        })
    }

    /// Indexes films. Returns those that take long and are still to be read whole.
    fn index(&mut self, work: Work) -> Vec<Named> {
        let indexed = reading::index(&self.shared, work.to_index);
        for (path, ended, took) in indexed.took {
            self.pace.took(&path, ended, took);
        }
        indexed.large
    }

    /// Marks the index files of present films as used today. If marking fails, they may have to be
    /// made again one day.
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

    /// Removes index files that have not been used for a long time. A missing film may lie on a
    /// disk that is not mounted yet, or at a source that cannot be reached.
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
                // Left over from an interrupted write.
                Some("new") => true,
                _ => false,
            };
            if is_over {
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// The current time in the form that files use.
fn today() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(reelway_clock::real().nanos())
}

/// Waits until changes have paused for a moment. Returns false if the library is to stop.
fn settle(events: &mpsc::Receiver<Event>) -> bool {
    let rounds = SETTLE_AT_MOST.as_millis() / SETTLE.as_millis();
    for _ in 0..rounds {
        match events.recv_timeout(SETTLE) {
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => return true,
            Ok(Event::Changed) => {
                // All changes that have accumulated count as one.
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

//! The thread that looks after a library: it looks at its shelf, indexes what is new or changed, and
//! then waits to be woken (by the kernel, where there are directories), looking again now and then all
//! the same: file systems of networks tell nothing, nor do sources elsewhere.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use reelway_media::Index;
use reelway_supervise::{self as supervise, lock};
use reelway_sys::FileIdentity;
use tracing::{debug, info, warn};

use crate::entry::{Entry, State, Summary};
use crate::growth::{self, First, Growing, Pace};
use crate::index_file::IndexFile;
use crate::indexing::{IndexingError, foreign_container};
use crate::library::{Change, Shared};
use crate::seen::{self, new_entry};
use crate::sets::{self, Set};
use crate::shelf::Found;

/// How long to wait after a change for more of them before looking.
const SETTLE: Duration = Duration::from_millis(200);
/// How long changes may keep coming before looking all the same.
const SETTLE_AT_MOST: Duration = Duration::from_secs(1);
/// A file changed more recently than this that cannot be read may still be in the making.
pub(crate) const YOUNG: Duration = Duration::from_secs(5);

/// A file changed more recently than this may be a recording that is still being made.
const RECORDED: Duration = Duration::from_secs(60);

/// How often it is tried to write indexes that could not be written.
const UNSAVED: Duration = Duration::from_secs(10);

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
}

/// What one walk leaves to do.
#[derive(Default)]
pub(crate) struct Work {
    to_index: Vec<(String, Found)>,
}

impl Keeper {
    pub fn new(shared: Arc<Shared>) -> Keeper {
        Keeper {
            shared,
            told: None,
            pace: Pace::default(),
            growing: false,
        }
    }

    pub fn run(&mut self, first: Work, events: &mpsc::Receiver<Event>) {
        self.index(first);
        self.prune();
        loop {
            let is_unfinished = lock(&self.shared.library)
                .entries
                .values()
                .any(|entry| matches!(entry.state, State::NotReady { .. }));
            let mut patience = self.shared.shelf.patience(is_unfinished);
            if self.growing {
                patience = patience.min(YOUNG);
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
                    self.index(work);
                }
            }
        }
    }

    /// Looks at the shelf and brings the list up to date; new and changed films are listed as
    /// being indexed.
    pub fn look(&mut self) -> Work {
        supervise::inject("library.look");
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
        let now = reelway_clock::now();
        let grown = self.grown(&names, &found);
        let mut to_index = Vec::new();
        let mut entries = BTreeMap::new();
        self.growing = !grown.is_empty();
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
                // Played as far as it was indexed, until it is indexed again.
                Some(old) if grown.contains(&name) => {
                    if self.pace.is_due(&found.path, now) {
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
        if let Some(directory) = &self.shared.index {
            let memory = &self.shared.memory;
            memory.retain(directory, |identity| present.contains(identity));
        }
        self.shared.looked.store(true, Ordering::Relaxed);
        self.shared.tell(&change);
        Work { to_index }
    }

    /// The names of films that play and whose files have grown since they were indexed, and are the same otherwise.
    fn grown(&self, names: &[String], found: &[Found]) -> HashSet<String> {
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
        // Their files are looked at, which may take time.
        let grown = before.iter().filter(|entry| self.shared.has_grown(entry));
        grown.map(|entry| entry.name.clone()).collect()
    }

    /// What is known of a film from a time before; of one that has grown since, as it was then.
    fn known(&self, name: &str, found: &Found) -> Option<Entry> {
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

    /// Indexes films: of those that take long, the beginning first, so that all films play soon.
    fn index(&mut self, work: Work) {
        let mut large = Vec::new();
        for (name, found) in work.to_index {
            if self.begin(&name, &found) {
                large.push((name, found));
            } else {
                self.index_whole(name, found);
            }
        }
        for (name, found) in large {
            self.index_whole(name, found);
        }
    }

    /// Indexes the beginning of a film that takes long, and does not play yet; whether that was done. It is then a recording of which
    /// there is more than was indexed.
    fn begin(&self, name: &str, found: &Found) -> bool {
        if self.plays(name, &found.path).is_some() {
            return false;
        }
        let shelf = &self.shared.shelf;
        let begun = supervise::guard("indexing", || {
            shelf.index_beginning(found, self.shared.scratch())
        });
        let Ok(Some((identity, index))) = begun else {
            return false;
        };
        let summary = Summary::of(&index.title);
        let duration = u128::try_from(summary.duration).unwrap_or(0);
        let whole = duration * u128::from(found.identity.size) / u128::from(identity.size.max(1));
        let first = First::of(identity, whole.min(i64::MAX as u128) as i64);
        let kept = (index, Some(first));
        self.shared.keep(name, &found.path, identity, kept);
        let mut library = lock(&self.shared.library);
        let listed = library.entries.get_mut(name);
        let Some(entry) = listed.filter(|entry| entry.identity == found.identity) else {
            return true;
        };
        let played = new_entry(name, found, State::Ready(Arc::new(summary)));
        *entry = Arc::new(Entry {
            set: entry.set.clone(),
            identity,
            first: Some(first),
            growing: Some(Growing {
                seen: reelway_clock::now(),
                is_behind: true,
                is_begun: true,
            }),
            ..played
        });
        drop(library);
        info!(
            film = name,
            "plays as far as {} MiB while it is read whole",
            identity.size >> 20
        );
        self.shared.tell(&Change {
            changed: vec![name.to_owned()],
            replaced: Vec::new(),
        });
        true
    }

    fn index_whole(&mut self, name: String, mut found: Found) {
        let began = reelway_clock::now();
        // As far as it was indexed before it has grown.
        let played = self.plays(&name, &found.path);
        let plays = played.is_some();
        let mut first = played.as_ref().and_then(|entry| entry.first);
        // Nothing was said of one of which only the beginning was read.
        let is_new = played.is_none_or(|entry| entry.is_begun());
        let may_grow = is_changed_within(&found, RECORDED);
        let indexed = supervise::guard("indexing", || {
            supervise::inject("library.index");
            let scratch = self.shared.scratch();
            self.shared.shelf.index(&found, may_grow, scratch)
        });
        // What panics once does so again: the film stays out until its file changes.
        let indexed = indexed.unwrap_or_else(|_| {
            Err(IndexingError::Fault {
                path: found.path.clone(),
            })
        });
        let state = match indexed {
            Ok((identity, index))
                if identity == found.identity || grows(&found, &identity, &index) =>
            {
                found.identity = identity;
                let summary = Arc::new(Summary::of(&index.title));
                first = First::of_any(identity, summary.duration, found.said, first);
                for note in index.title.notes.iter().filter(|_| is_new) {
                    info!(film = name, "{note}");
                }
                let kept = (index, first);
                self.shared.keep(&name, &found.path, identity, kept);
                State::Ready(summary)
            }
            Ok(_) => State::NotReady {
                reason: "it is being written".into(),
            },
            Err(error)
                if error.may_pass() || (is_changed_within(&found, YOUNG) && !error.is_fault()) =>
            {
                State::NotReady {
                    reason: error.reason(),
                }
            }
            Err(error) => {
                warn!(film = name, "cannot be played: {error}");
                State::Unplayable {
                    reason: error.reason(),
                }
            }
        };
        let is_ready = matches!(state, State::Ready(_));
        if is_ready || !plays {
            self.set_state(&name, &found, state, first);
        }
        if is_ready {
            let now = reelway_clock::now();
            self.pace.took(&found.path, now, now.since(began));
        }
    }

    /// The film of this name, if it plays and lies there.
    fn plays(&self, name: &str, path: &Path) -> Option<Arc<Entry>> {
        let entry = self.shared.entry(name);
        let listed = entry.filter(|entry| entry.path == path);
        listed.filter(|entry| matches!(entry.state, State::Ready(_)))
    }

    fn set_state(&self, name: &str, found: &Found, state: State, first: Option<First>) {
        let mut library = lock(&self.shared.library);
        let Some(entry) = library.entries.get_mut(name).filter(|entry| {
            let is_older = entry.identity.may_have_grown_into(&found.identity);
            entry.identity == found.identity || (entry.path == found.path && is_older)
        }) else {
            return;
        };
        let same = match (&entry.state, &state) {
            (State::NotReady { reason: old }, State::NotReady { reason: new }) => old == new,
            _ => false,
        };
        debug!(film = name, ?state, "indexed");
        let grows = entry.growing.is_some() || found.said.is_some_and(|said| said.grows);
        *entry = Arc::new(Entry {
            set: entry.set.clone(),
            first: first.or(entry.first),
            growing: grows.then(|| Growing {
                seen: reelway_clock::now(),
                is_behind: false,
                is_begun: false,
            }),
            ..new_entry(name, found, state)
        });
        drop(library);
        if !same {
            self.shared.tell(&Change {
                changed: vec![name.to_owned()],
                replaced: Vec::new(),
            });
        }
    }

    /// Removes index files of films that are no longer there.
    fn prune(&self) {
        let Some(directory) = &self.shared.index else {
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

/// Whether a film has only grown between being found and being read.
fn grows(found: &Found, identity: &FileIdentity, index: &Index) -> bool {
    let may_be = found.identity.may_have_grown_into(identity);
    may_be && growth::mark(&found.path, identity, index).is_some()
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

fn is_changed_within(found: &Found, time: Duration) -> bool {
    let now = i128::from(reelway_clock::real().nanos());
    now - i128::from(found.identity.mtime_ns) < time.as_nanos() as i128
}

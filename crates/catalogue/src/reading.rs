//! Indexes the films that a look at the shelf found: films of one disk one at a time, several disks
//! in parallel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_media::Index;
use reelway_supervise::{self as supervise, lock};
use reelway_sys::FileIdentity;
use tracing::{debug, info, warn};

use crate::entry::{Entry, State, Summary};
use crate::growth::{self, First, Growing};
use crate::indexing::{IndexingError, YOUNG, is_changed_within};
use crate::library::{Change, Shared};
use crate::seen::new_entry;
use crate::shelf::FoundFilm;

/// A file changed more recently than this may be a recording in progress.
const RECORDED: Duration = Duration::from_secs(60);
/// Maximum number of disks that are read in parallel.
pub(crate) const MOST_DISKS: usize = 16;

/// A film with its name.
pub(crate) type Named = (String, FoundFilm);

/// An indexed film: its path, when indexing ended, and how long it took.
pub(crate) type Took = (PathBuf, Monotonic, Duration);

/// The result of indexing.
#[derive(Default)]
pub(crate) struct Indexed {
    /// Films that can be played.
    pub took: Vec<Took>,
    /// Films that take long, and play as far as their beginning. They are still to be read whole.
    pub large: Vec<Named>,
}

impl Indexed {
    fn extend(&mut self, other: Indexed) {
        self.took.extend(other.took);
        self.large.extend(other.large);
    }
}

/// Reads a film completely, as [`index`] does with films that do not take long. Returns also if the
/// film cannot be played.
pub(crate) fn index_whole(shared: &Shared, name: &str, found: FoundFilm) -> Took {
    let (path, began) = (found.path.clone(), reelway_clock::now());
    Reading { shared }.index_whole(name, found);
    let now = reelway_clock::now();
    (path, now, now.since(began))
}

/// Indexes films; of those that take long, only the beginning.
pub(crate) fn index(shared: &Shared, films: Vec<Named>) -> Indexed {
    let mut disks: BTreeMap<u64, Vec<Named>> = BTreeMap::new();
    for (name, found) in films {
        let disk = disks.entry(found.identity.device).or_default();
        disk.push((name, found));
    }
    let helpers = disks.len().min(MOST_DISKS).saturating_sub(1);
    let disks = Mutex::new(disks);
    let work = || {
        let (reading, mut indexed) = (Reading { shared }, Indexed::default());
        // The lock is not held while a disk is read.
        let next = || lock(&disks).pop_first();
        while let Some((_, films)) = next() {
            indexed.extend(reading.index(films));
        }
        indexed
    };
    thread::scope(|scope| {
        // If threads cannot be started, this thread does their work.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (0..helpers).filter_map(start).collect();
        let mut indexed = work();
        for helper in helpers {
            // A panic there ends the look, as one on this thread does.
            let its = helper.join();
            indexed.extend(its.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        indexed
    })
}

/// Indexes the films of one disk.
struct Reading<'a> {
    shared: &'a Shared,
}

impl Reading<'_> {
    fn index(&self, films: Vec<Named>) -> Indexed {
        let mut indexed = Indexed::default();
        for (name, found) in films {
            if self.begin(&name, &found) {
                indexed.large.push((name, found));
            } else {
                indexed.took.extend(self.index_whole(&name, found));
            }
        }
        indexed
    }

    /// Indexes the beginning of a film that takes long and does not play yet. It is then treated
    /// like a recording of which only a part has been indexed. Returns whether the film takes long
    /// and plays.
    fn begin(&self, name: &str, found: &FoundFilm) -> bool {
        if let Some(entry) = self.plays(name, &found.path) {
            return entry.is_begun() || self.shared.shelf.takes_long(found);
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
                closed: found.closed,
            }),
            ..played
        });
        drop(library);
        info!(
            film = name,
            "can be played up to {} MiB while the rest is indexed",
            identity.size >> 20
        );
        self.shared.announce(&Change {
            changed: vec![name.to_owned()],
            replaced: Vec::new(),
        });
        true
    }

    /// Indexes a film. If it can be played, returns when indexing ended and how long it took.
    fn index_whole(&self, name: &str, mut found: FoundFilm) -> Option<Took> {
        let began = reelway_clock::now();
        // The part that was indexed before the film grew.
        let played = self.plays(name, &found.path);
        let plays = played.is_some();
        let mut first = played.as_ref().and_then(|entry| entry.first);
        // The notes of a film of which only the beginning was read have not been logged yet.
        let is_new = played.is_none_or(|entry| entry.is_begun());
        let may_grow = is_changed_within(reelway_clock::real(), &found.identity, RECORDED);
        let listed = self.shared.entry(name);
        let progress = listed.map(|entry| Arc::clone(&entry.progress));
        let progress = progress.unwrap_or_default();
        let indexed = supervise::guard("indexing", || {
            supervise::inject("library.index");
            let scratch = self.shared.scratch();
            self.shared
                .shelf
                .index(&found, may_grow, scratch, &progress)
        });
        // Indexing would panic again: the film is excluded until its file changes.
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
                first = First::of_any(identity, summary.duration, found.report, first);
                for note in index.title.notes.iter().filter(|_| is_new) {
                    info!(film = name, "{note}");
                }
                let kept = (index, first);
                self.shared.keep(name, &found.path, identity, kept);
                State::Ready(summary)
            }
            Ok(_) => State::NotReady {
                reason: "it is being written".into(),
            },
            Err(error)
                if error.may_pass()
                    || (is_changed_within(reelway_clock::real(), &found.identity, YOUNG)
                        && !error.is_fault()) =>
            {
                let reason = error.reason();
                let known = self.shared.entry(name);
                let is_known = known.is_some_and(|entry| entry.reason() == Some(&reason));
                if matches!(error, IndexingError::Io { .. }) && !is_known {
                    warn!(film = name, "cannot be read: {error}; retrying");
                }
                State::NotReady { reason }
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
            self.set_state(name, &found, state, first);
        }
        let now = reelway_clock::now();
        is_ready.then(|| (found.path, now, now.since(began)))
    }

    /// Returns the entry with this name if it plays and has this path.
    fn plays(&self, name: &str, path: &Path) -> Option<Arc<Entry>> {
        let entry = self.shared.entry(name);
        let listed = entry.filter(|entry| entry.path == path);
        listed.filter(|entry| matches!(entry.state, State::Ready(_)))
    }

    fn set_state(&self, name: &str, found: &FoundFilm, state: State, first: Option<First>) {
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
        let grows = entry.growing.is_some() || found.report.is_some_and(|report| report.grows);
        *entry = Arc::new(Entry {
            set: entry.set.clone(),
            first: first.or(entry.first),
            growing: grows.then(|| Growing {
                seen: reelway_clock::now(),
                is_behind: false,
                is_begun: false,
                closed: found.closed,
            }),
            ..new_entry(name, found, state)
        });
        drop(library);
        if !same {
            self.shared.announce(&Change {
                changed: vec![name.to_owned()],
                replaced: Vec::new(),
            });
        }
    }
}

/// Returns whether a film has only grown between being found and being read.
fn grows(found: &FoundFilm, identity: &FileIdentity, index: &Index) -> bool {
    let may_be = found.identity.may_have_grown_into(identity);
    may_be && growth::mark(&found.path, identity, index).is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, OnceLock};

    use reelway_media::Scratch;

    use super::*;
    use crate::progress::Progress;
    use crate::shelf::Shelf;
    use crate::unsaved::IndexMemory;

    /// Films that can be read only in parallel with others: as many as `others` waits for.
    struct Together {
        others: Barrier,
        library: OnceLock<Arc<Shared>>,
    }

    impl Shelf for Together {
        fn look(&self) -> Result<Vec<FoundFilm>, String> {
            Ok(Vec::new())
        }

        fn index(
            &self,
            found: &FoundFilm,
            _may_grow: bool,
            _scratch: Scratch,
            progress: &Progress,
        ) -> Result<(FileIdentity, Index), IndexingError> {
            progress.report(1, 4);
            self.others.wait();
            let listed = self
                .library
                .get()
                .and_then(|shared| shared.entry(&found.file));
            assert_eq!(listed.and_then(|entry| entry.progress.share()), Some(0.25));
            Err(IndexingError::Foreign {
                path: found.path.clone(),
                reason: "it is no film".into(),
            })
        }

        fn patience(&self, _unfinished: bool) -> Duration {
            Duration::MAX
        }
    }

    fn found(device: u64, inode: u64) -> FoundFilm {
        FoundFilm {
            path: PathBuf::from(format!("/{device}/{inode}")),
            file: format!("{device}-{inode}"),
            identity: FileIdentity {
                device,
                inode,
                size: 4,
                mtime_ns: 0,
            },
            via: Vec::new(),
            subtitles: Vec::new(),
            report: None,
            problem: None,
            closed: None,
        }
    }

    #[test]
    fn films_of_several_disks_are_read_at_the_same_time_and_lists_show_how_far() {
        let shelf = Arc::new(Together {
            others: Barrier::new(3),
            library: OnceLock::new(),
        });
        let shared = Shared::new(shelf.clone(), None, IndexMemory::default());
        let shared = Arc::new(shared);
        assert!(shelf.library.set(shared.clone()).is_ok());
        // Two films on each disk: with a single thread, or one film at a time, the first would wait
        // for ever.
        let films: Vec<FoundFilm> = (0..6).map(|number| found(number % 3, number)).collect();
        for found in &films {
            let entry = Arc::new(new_entry(&found.file, found, State::Indexing));
            lock(&shared.library)
                .entries
                .insert(found.file.clone(), entry);
        }
        let named = films.into_iter().map(|found| (found.file.clone(), found));
        let indexed = index(&shared, named.collect());
        assert!(indexed.took.is_empty() && indexed.large.is_empty());
        for entry in shared.list() {
            assert!(matches!(entry.state, State::Unplayable { .. }), "{entry:?}");
        }
    }

    /// A failing disk.
    struct Failing;

    impl Shelf for Failing {
        fn look(&self) -> Result<Vec<FoundFilm>, String> {
            Ok(Vec::new())
        }

        fn index(
            &self,
            found: &FoundFilm,
            _may_grow: bool,
            _scratch: Scratch,
            _progress: &Progress,
        ) -> Result<(FileIdentity, Index), IndexingError> {
            Err(IndexingError::Io {
                path: found.path.clone(),
                error: std::io::Error::other("the disk failed"),
            })
        }

        fn patience(&self, _unfinished: bool) -> Duration {
            Duration::MAX
        }
    }

    #[test]
    fn a_film_that_could_not_be_read_is_looked_at_again() {
        let shared = Shared::new(Arc::new(Failing), None, IndexMemory::default());
        let shared = Arc::new(shared);
        let film = found(1, 1);
        let entry = Arc::new(new_entry(&film.file, &film, State::Indexing));
        lock(&shared.library)
            .entries
            .insert(film.file.clone(), entry);
        index(&shared, vec![(film.file.clone(), film)]);
        // The keeper reads films in this state at each look.
        let entry = &shared.list()[0];
        assert!(matches!(entry.state, State::NotReady { .. }), "{entry:?}");
    }
}

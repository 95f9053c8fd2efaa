//! Film directories on this machine: scanned, and watched through the kernel (inotify).

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use reelway_media::{Index, IndexOptions, Indexer, Scratch};
use reelway_supervise::lock;
use reelway_sys::FileIdentity;
use reelway_sys::extents::Layout;
use tracing::{info, warn};

use crate::config::DirectoryConfig;
use crate::indexing::{self, IndexingError, YOUNG, index_beginning, is_changed_within};
use crate::keeper::Event;
use crate::progress::Progress;
use crate::recordings::Recordings;
use crate::scan::scan;
use crate::shelf::{FoundFilm, Shelf};
use crate::writers::Writers;

/// A film that was changed within this time may still be being copied. A truncated film that has
/// not changed for longer is looked at only as often as all others.
const COMING: Duration = Duration::from_secs(3600);

/// Film directories, with what is known about their files.
pub(crate) struct Local {
    films: Vec<PathBuf>,
    rescan: Duration,
    reindex_interval: Duration,
    block_bytes: u64,
    beginning: u64,
    options: IndexOptions,
    eyes: Mutex<Eyes>,
    recordings: Mutex<Recordings>,
    writers: Arc<Mutex<Writers>>,
}

struct Eyes {
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    /// Problems found by the last look. Each is reported once.
    reported: BTreeSet<(PathBuf, String)>,
}

impl Local {
    /// Creates the shelf. Changes in the directories wake the keeper.
    pub fn new(config: &DirectoryConfig, wake: mpsc::Sender<Event>) -> Local {
        let writers: Arc<Mutex<Writers>> = Arc::default();
        let known = Arc::clone(&writers);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Reading a film does not change it; without this check the server would wake itself.
            let only_read = event.as_ref().is_ok_and(|event| {
                let is_closed =
                    event.kind == EventKind::Access(AccessKind::Close(AccessMode::Write));
                event.kind.is_access() && !is_closed
            });
            if !only_read {
                note(&mut lock(&known), event.as_ref().ok());
                let _ = wake.send(Event::Changed);
            }
        });
        let watcher = watcher
            .map_err(|error| warn!("film directories cannot be watched ({error}): changes are found later, by scans"))
            .ok();
        Local {
            films: config.films.clone(),
            rescan: config.rescan,
            reindex_interval: config.reindex_interval,
            block_bytes: config.block_bytes.into(),
            beginning: config.beginning,
            options: config.options(),
            recordings: Mutex::default(),
            writers,
            eyes: Mutex::new(Eyes {
                watcher,
                watched: HashSet::new(),
                reported: BTreeSet::new(),
            }),
        }
    }
}

impl Local {
    /// Returns whether a film is so large that indexing its beginning first is worthwhile.
    fn is_large(&self, found: &FoundFilm) -> bool {
        found.identity.size / 2 > self.beginning
    }

    /// Logs a film that lies on its disk in pieces smaller than a read. Ignores file systems that
    /// do not report their layout.
    fn look_at_pieces(&self, path: &Path) {
        let layout = File::open(path).and_then(|file| Layout::of(&file, self.block_bytes));
        if let Ok(layout) = layout
            && layout.is_fragmented()
        {
            info!(
                "{}: {} of its {} blocks of {} KiB are split on the disk (the file has {} pieces) and cost several \
                 reads each; a new copy (cp, then mv) may help",
                path.display(),
                layout.split,
                layout.blocks,
                self.block_bytes >> 10,
                layout.pieces
            );
        }
    }
}

impl Shelf for Local {
    fn look(&self) -> Result<Vec<FoundFilm>, String> {
        let mut scan = scan(&self.films);
        let mut eyes = lock(&self.eyes);
        let mut problems = scan.problems;
        problems.extend(eyes.watch(&self.films, &scan.folders));
        eyes.report(problems);
        drop(eyes);
        lock(&self.recordings).look(|path| {
            let mut films = scan.films.iter();
            let found = films.find(|film| film.path == path);
            found.map(|film| film.identity)
        });
        let mut writers = lock(&self.writers);
        let there: HashSet<&Path> = scan.films.iter().map(|film| &*film.path).collect();
        writers.retain(|path| there.contains(path));
        for film in &mut scan.films {
            film.closed = writers.has_closed(&film.path);
        }
        drop(writers);
        Ok(scan.films)
    }

    fn index(
        &self,
        found: &FoundFilm,
        may_grow: bool,
        scratch: Scratch,
        progress: &Progress,
    ) -> Result<(FileIdentity, Index), IndexingError> {
        let path = &found.path;
        let parts = indexing::open(path)?;
        let identity = parts.identity();
        let so_far = (parts.only()).and_then(|file| {
            let mut recordings = lock(&self.recordings);
            recordings.take(path, file, &identity)
        });
        let indexer = match so_far {
            Some(so_far) => so_far.go_on(identity.size),
            None => Indexer::with_scratch(identity.size, self.options, scratch),
        };
        let (index, so_far) = indexing::index_parts(&parts, path, indexer, may_grow, progress)?;
        if let (Some(so_far), Some(file)) = (so_far, parts.only()) {
            lock(&self.recordings).keep(path, (file, identity), so_far);
        }
        self.look_at_pieces(path);
        Ok((identity, index))
    }

    fn index_beginning(
        &self,
        found: &FoundFilm,
        scratch: Scratch,
    ) -> Option<(FileIdentity, Index)> {
        if !self.is_large(found) {
            return None;
        }
        index_beginning(&found.path, &found.identity, self.beginning, scratch)
    }

    fn takes_long(&self, found: &FoundFilm) -> bool {
        self.is_large(found) && !lock(&self.recordings).has(&found.path)
    }

    fn reindex_interval(&self) -> Duration {
        self.reindex_interval
    }

    fn may_be_ready_soon(&self, identity: &FileIdentity) -> bool {
        is_changed_within(reelway_clock::real(), identity, COMING)
    }

    fn patience(&self, unfinished: bool) -> Duration {
        match unfinished {
            true => self.rescan.min(YOUNG),
            false => self.rescan,
        }
    }
}

/// Records events of film files. `None`: some events were lost.
fn note(writers: &mut Writers, event: Option<&notify::Event>) {
    let Some(event) = event.filter(|event| !event.need_rescan()) else {
        return writers.clear();
    };
    let now = reelway_clock::now();
    for path in &event.paths {
        match event.kind {
            EventKind::Modify(ModifyKind::Data(_)) => writers.changed(path, now),
            EventKind::Access(_) => writers.closed(path, now),
            _ => {}
        }
    }
}

impl Eyes {
    /// Reports the problems that were not present at the last look.
    fn report(&mut self, problems: Vec<(PathBuf, String)>) {
        let now: BTreeSet<(PathBuf, String)> = problems.into_iter().collect();
        for (path, problem) in now.difference(&self.reported) {
            warn!("{}: {problem}", path.display());
        }
        self.reported = now;
    }

    /// Watches new folders, and returns those that cannot be watched. Each folder is watched by
    /// itself, because the scan determined the folders, including those behind links.
    fn watch(&mut self, films: &[PathBuf], folders: &[PathBuf]) -> Vec<(PathBuf, String)> {
        let mut problems = Vec::new();
        let Some(watcher) = &mut self.watcher else {
            return problems;
        };
        let single = films.iter().filter(|film| film.is_file());
        let parents = single.filter_map(|film| Some(film.parent()?.to_owned()));
        let wanted: HashSet<PathBuf> = folders.iter().cloned().chain(parents).collect();
        for folder in &wanted {
            // Repeated each time: a folder that was removed and created again has lost its watch.
            match watcher.watch(folder, RecursiveMode::NonRecursive) {
                // A folder removed since the scan is not a problem: the watch on its parent wakes
                // the keeper.
                Err(error) if folder.exists() => problems.push((
                    folder.clone(),
                    format!(
                        "it cannot be watched ({error}): changes are found later, by scans (more watches: sysctl \
                         fs.inotify.max_user_watches)"
                    ),
                )),
                _ => {}
            }
        }
        for gone in self.watched.difference(&wanted) {
            let _ = watcher.unwatch(gone);
        }
        self.watched = wanted;
        problems
    }
}

//! A library: watched directories of film files, or remote films. It knows which films there are
//! and loads them. A thread of its own looks after them (`keeper.rs`).

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use reelway_media::IndexOptions;
use reelway_supervise as supervise;
use tracing::warn;

use crate::catalogue::Catalogue;
use crate::config::DirectoryConfig;
use crate::counter::{CountConfig, Counter};
use crate::entry::{CatalogueError, Entry, Film, State};
use crate::intake::Intake;
use crate::keeper::{Event, Keeper};
use crate::library::{Change, Shared};
use crate::local::Local;
use crate::placement::Soon;
use crate::shelf::Shelf;
use crate::subtitles::SubtitleFile;
use crate::unsaved::{self, IndexMemory};

/// A library of watched directories, or of another [`Shelf`].
pub struct Directory {
    pub(crate) shared: Arc<Shared>,
    /// Its film directories. `None`: its films are remote.
    films: Option<Vec<PathBuf>>,
    /// The options with which uploaded films are indexed.
    pub(crate) options: IndexOptions,
    wake: mpsc::Sender<Event>,
    keeper: Option<JoinHandle<()>>,
    counter: Option<Counting>,
}

/// The thread that counts packets. It ends when `stop` is dropped.
struct Counting {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Counting {
    fn start(shared: &Arc<Shared>, config: CountConfig) -> Option<Counting> {
        let (stop, stopped) = mpsc::channel();
        let mut counter = Counter::new(Arc::clone(shared), config);
        let started = supervise::thread("packets", move || counter.run(&stopped));
        let thread = started
            .map_err(|error| {
                warn!("RTP packets of films are not counted, as no thread can be started: {error}")
            })
            .ok()?;
        Some(Counting { stop, thread })
    }

    fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

impl Directory {
    /// Scans the directories once (films are then listed as being indexed) and starts looking after
    /// them. Problems with single folders are logged; the library holds what could be read.
    pub fn open(config: DirectoryConfig) -> Directory {
        let (wake, events) = mpsc::channel();
        let shelf = Local::new(&config, wake.clone());
        let options = config.options();
        let indexes = (config.index, config.memory);
        let mut library = Directory::start(Arc::new(shelf), indexes, (wake, events), true);
        library.films = Some(config.films);
        library.options = options;
        library.counter = (config.count).and_then(|count| Counting::start(&library.shared, count));
        library
    }

    /// Opens a library of the films on a shelf, with its own directory of index files, or with
    /// indexes in memory if they cannot be written. The library's thread looks for films: at first,
    /// the library is empty.
    pub fn of(shelf: Arc<dyn Shelf>, index: Option<PathBuf>, memory: IndexMemory) -> Directory {
        Directory::start(shelf, (index, memory), mpsc::channel(), false)
    }

    fn start(
        shelf: Arc<dyn Shelf>,
        (index, memory): (Option<PathBuf>, IndexMemory),
        (wake, events): (mpsc::Sender<Event>, mpsc::Receiver<Event>),
        look_first: bool,
    ) -> Directory {
        let shared = Arc::new(Shared::new(shelf, index, memory));
        if let Some(directory) = &shared.index
            && let Err(error) = unsaved::probe(directory)
        {
            shared.memory.failed(directory, &error.into());
        }
        let mut keeper = Keeper::new(shared.clone(), wake.clone());
        let mut first = look_first.then(|| keeper.look());
        // After a panic, the keeper looks at everything again.
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
            options: IndexOptions::default(),
            wake,
            keeper,
            counter: None,
        }
    }

    /// Returns its film directories on this machine.
    pub(crate) fn films(&self) -> &[PathBuf] {
        self.films.as_deref().unwrap_or_default()
    }

    /// Makes the keeper look again.
    pub(crate) fn wake(&self) {
        // Without a keeper, changes go unnoticed; this was logged at the start.
        let _ = self.wake.send(Event::Changed);
    }

    /// Returns whether all films have been found, and it is known of each whether it plays.
    pub fn is_settled(&self) -> bool {
        let indexing = |entry: &Arc<Entry>| matches!(entry.state, State::Indexing);
        self.shared.looked.load(Ordering::Relaxed) && !self.list().iter().any(indexing)
    }

    /// Returns a function that makes the library look again at once.
    pub fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        let wake = self.wake.clone();
        move || drop(wake.send(Event::Changed))
    }

    /// Calls `listener` after every change, on one of the library's own threads. The listener must
    /// not hold the last reference to the library.
    pub fn on_change(&self, listener: impl Fn(&Change) + Send + Sync + 'static) {
        self.shared.listen(Box::new(listener));
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(counter) = self.counter.take() {
            counter.stop();
        }
        let _ = self.wake.send(Event::Stop);
        let keeper = self.keeper.take();
        // If a listener holds the last reference, it drops the library on the keeper's own thread,
        // which cannot join itself.
        let others = |keeper: &JoinHandle<()>| keeper.thread().id() != thread::current().id();
        if let Some(keeper) = keeper.filter(others) {
            let _ = keeper.join();
        }
    }
}

impl Catalogue for Directory {
    fn list(&self) -> Vec<Arc<Entry>> {
        self.shared.list()
    }

    fn entry(&self, name: &str) -> Option<Arc<Entry>> {
        self.shared.entry(name)
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

    fn subtitles<'a>(
        &'a self,
        film: &'a Film,
        file: &'a SubtitleFile,
    ) -> Soon<'a, Result<Arc<str>, String>> {
        self.shared.shelf.subtitles(&film.path, file)
    }

    fn intake(&self) -> Option<&dyn Intake> {
        self.films.is_some().then_some(self)
    }
}

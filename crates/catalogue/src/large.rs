//! Films that take long to read. They are read whole in parallel with the keeper, which continues
//! to look for recordings that grow and for new films.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use reelway_supervise::{self as supervise, lock};
use reelway_sys::FileIdentity;
use tracing::warn;

use crate::library::Shared;
use crate::reading::{self, MOST_DISKS, Named, Took};
use crate::shelf::FoundFilm;

/// Identifies a file while it is being written: its path and its inode.
type File = (PathBuf, u64);

/// Files that are waiting or being read.
#[derive(Clone, Default)]
pub(crate) struct Files(HashSet<File>);

impl Files {
    /// Returns whether this file is waiting or being read.
    pub fn has(&self, path: &Path, identity: &FileIdentity) -> bool {
        self.0.contains(&(path.to_owned(), identity.inode))
    }

    /// Returns whether no file is waiting or being read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn file(found: &FoundFilm) -> File {
    (found.path.clone(), found.identity.inode)
}

/// Makes the keeper look again.
type Wake = Arc<dyn Fn() + Send + Sync>;

/// Reads films whole, those of one disk one at a time.
pub(crate) struct Large {
    shared: Arc<Shared>,
    wake: Wake,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    /// Films that are waiting, by disk.
    waiting: BTreeMap<u64, VecDeque<Named>>,
    /// Disks that a thread is reading.
    disks: HashSet<u64>,
    files: Files,
    /// What has been read since the keeper last asked.
    took: Vec<Took>,
}

impl Large {
    /// Starts without films. Calls `wake` after each film that was read.
    pub fn new(shared: Arc<Shared>, wake: impl Fn() + Send + Sync + 'static) -> Large {
        Large {
            shared,
            wake: Arc::new(wake),
            queue: Arc::default(),
        }
    }

    /// Returns the files that are waiting or being read, and those read since the last call,
    /// whether they can be played or not.
    pub fn look(&self) -> (Files, Vec<Took>) {
        let mut queue = lock(&self.queue);
        (queue.files.clone(), std::mem::take(&mut queue.took))
    }

    /// Adds these films.
    pub fn read(&self, films: Vec<Named>) {
        let mut queue = lock(&self.queue);
        for (name, found) in films {
            if queue.files.0.insert(file(&found)) {
                let disk = queue.waiting.entry(found.identity.device).or_default();
                disk.push_back((name, found));
            }
        }
        let readers: Vec<Reader> = std::iter::from_fn(|| {
            let disk = queue.begin()?;
            Some(Reader {
                shared: self.shared.clone(),
                wake: self.wake.clone(),
                queue: self.queue.clone(),
                disk,
            })
        })
        .collect();
        drop(queue);
        for mut reader in readers {
            let disk = reader.disk;
            let started = supervise::thread("reading", move || reader.run());
            if let Err(error) = started {
                warn!("large films are indexed later, as no thread can be started: {error}");
                // They are found again at the next look.
                lock(&self.queue).give_up(disk);
            }
        }
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        // The films being read are finished; the others are not started.
        lock(&self.queue).waiting.clear();
    }
}

impl Queue {
    /// Returns a disk with waiting films that no thread is reading yet, and marks it as being read.
    fn begin(&mut self) -> Option<u64> {
        let idle = |disk: &&u64| !self.disks.contains(*disk);
        let disk = *self.waiting.keys().find(idle)?;
        (self.disks.len() < MOST_DISKS && self.disks.insert(disk)).then_some(disk)
    }

    /// Removes and returns the next film of a disk.
    fn next(&mut self, disk: u64) -> Option<Named> {
        let films = self.waiting.get_mut(&disk)?;
        let film = films.pop_front();
        if films.is_empty() {
            self.waiting.remove(&disk);
        }
        film
    }

    /// Marks a disk as no longer being read, and forgets the films waiting there.
    fn give_up(&mut self, disk: u64) {
        self.disks.remove(&disk);
        for (_, found) in self.waiting.remove(&disk).unwrap_or_default() {
            self.files.0.remove(&file(&found));
        }
    }
}

/// Reads the films of a disk, and then those of other disks.
struct Reader {
    shared: Arc<Shared>,
    wake: Wake,
    queue: Arc<Mutex<Queue>>,
    disk: u64,
}

impl Reader {
    fn run(&mut self) {
        while let Some((name, mut found)) = self.next() {
            let mut under_way = UnderWay {
                reader: self,
                file: file(&found),
                took: None,
            };
            freshen(&mut found);
            under_way.took = Some(reading::index_whole(&self.shared, &name, found));
        }
    }

    /// Returns the next film. `None`: no film is waiting, and the reader ends.
    fn next(&mut self) -> Option<Named> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(film) = queue.next(self.disk) {
                return Some(film);
            }
            queue.disks.remove(&self.disk);
            self.disk = queue.begin()?;
        }
    }
}

/// Updates the identity of a film that may have waited for a long time and grown meanwhile.
fn freshen(found: &mut FoundFilm) {
    let now = fs::metadata(&found.path).map(|file| FileIdentity::from(&file));
    if let Ok(now) = now
        && found.identity.may_have_grown_into(&now)
    {
        found.identity = now;
    }
}

/// A film that is being read.
struct UnderWay<'a> {
    reader: &'a Reader,
    file: File,
    took: Option<Took>,
}

impl Drop for UnderWay<'_> {
    /// Runs when the film has been read, or reading has panicked.
    fn drop(&mut self) {
        let mut queue = lock(&self.reader.queue);
        queue.files.0.remove(&self.file);
        queue.took.extend(self.took.take());
        drop(queue);
        // The file may have changed meanwhile.
        (self.reader.wake)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use reelway_media::{Container, Index, Scratch, Title};

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::directory::Directory;
    use crate::entry::State;
    use crate::indexing::IndexingError;
    use crate::progress::Progress;
    use crate::shelf::Shelf;
    use crate::unsaved::IndexMemory;

    /// A large film, and a small one that appears later.
    struct Two {
        is_small_there: AtomicBool,
        /// Notified when the large film is being read. Reading continues once `goes_on` yields a
        /// message or is disconnected.
        reading: mpsc::Sender<()>,
        goes_on: Mutex<mpsc::Receiver<()>>,
    }

    fn found(name: &str, film: u128) -> FoundFilm {
        FoundFilm {
            path: PathBuf::from(name),
            file: format!("{name}.ts"),
            identity: FileIdentity::remote_recording(film, 1000, 1),
            via: Vec::new(),
            subtitles: Vec::new(),
            report: None,
            problem: None,
            closed: None,
        }
    }

    impl Shelf for Two {
        fn look(&self) -> Result<Vec<FoundFilm>, String> {
            let is_there = self.is_small_there.load(Ordering::Relaxed);
            let small = is_there.then(|| found("small", 2));
            Ok(std::iter::once(found("large", 1)).chain(small).collect())
        }

        fn index(
            &self,
            found: &FoundFilm,
            _may_grow: bool,
            _scratch: Scratch,
            _progress: &Progress,
        ) -> Result<(FileIdentity, Index), IndexingError> {
            if found.file == "large.ts" {
                let _ = self.reading.send(());
                let _ = lock(&self.goes_on).recv();
            }
            Err(IndexingError::Foreign {
                path: found.path.clone(),
                reason: "it is no film".into(),
            })
        }

        fn index_beginning(
            &self,
            found: &FoundFilm,
            _scratch: Scratch,
        ) -> Option<(FileIdentity, Index)> {
            let identity = FileIdentity {
                size: 100,
                ..found.identity
            };
            let index = Index {
                title: Title {
                    container: Container::TransportStream,
                    ..Title::new(Vec::new())
                },
                tables: Vec::new(),
            };
            (found.file == "large.ts").then_some((identity, index))
        }

        fn patience(&self, _unfinished: bool) -> Duration {
            Duration::MAX
        }
    }

    #[test]
    fn a_new_film_is_found_while_a_large_one_is_read() {
        let (reading, is_read) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let shelf = Arc::new(Two {
            is_small_there: AtomicBool::new(false),
            reading,
            goes_on: Mutex::new(goes_on),
        });
        let library = Directory::of(shelf.clone(), None, IndexMemory::default());
        // Dropped before the library, which may wait for a film to be read.
        let go_on: mpsc::Sender<()> = go_on;
        is_read.recv().expect("the large film is read");
        let (tell, told) = mpsc::channel();
        library.on_change(move |change| drop(tell.send(change.changed.clone())));
        shelf.is_small_there.store(true, Ordering::Relaxed);
        library.waker()();
        let is_judged = || {
            let entry = library.entry("small");
            entry.is_some_and(|entry| matches!(entry.state, State::Unplayable { .. }))
        };
        while !is_judged() {
            let change = told.recv_timeout(Duration::from_secs(60));
            change.expect("the small film is read although the large one is not done");
        }
        let large = library.entry("large").expect("the large one");
        assert!(large.is_begun(), "{large:?}");
        drop(go_on);
    }

    #[test]
    fn films_of_a_disk_are_read_one_after_the_other_and_those_of_several_at_once() {
        let mut queue = Queue::default();
        for (disk, inode) in [(1, 1), (1, 2), (2, 3)] {
            let mut found = found("film", 0);
            (found.identity.device, found.identity.inode) = (disk, inode);
            let films = queue.waiting.entry(disk).or_default();
            films.push_back(("film".into(), found));
        }
        assert_eq!([(); 3].map(|()| queue.begin()), [Some(1), Some(2), None]);
        let inode = |film: Option<Named>| film.map(|(_, found)| found.identity.inode);
        assert_eq!(inode(queue.next(1)), Some(1));
        queue.disks.remove(&2);
        assert_eq!(queue.begin(), Some(2));
        queue.give_up(1);
        assert_eq!(
            (inode(queue.next(1)), inode(queue.next(2))),
            (None, Some(3))
        );
        assert!(queue.waiting.is_empty());
    }
}

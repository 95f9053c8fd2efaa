//! Indexes of films whose index file could not be written. They stay in memory, within one limit
//! for all libraries.
//!
//! A state directory may be full or read-only. This may concern many films, and the index of each
//! takes nine megabytes for two hours. Only the most recently used indexes are kept; other films
//! are indexed again when they are needed. An index in use stays, so if those in use take all the
//! memory, another film is refused. The indexes are written to files once that is possible again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_clock::{Monotonic, Real};
use reelway_media::SampleTable;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use tracing::{info, warn};

use crate::entry::Film;
use crate::index_file::{IndexFile, IndexFileError};

/// Delay after an index file could not be written: immediate retries would fill a full disk again
/// and again.
const RETRY: Duration = Duration::from_secs(5);
/// If there is no index to write, this many bytes must fit on the disk before it counts as writable
/// again.
const PROBE: usize = 64 << 10;

/// Memory for indexes that could not be written to files. Clones share the same memory.
#[derive(Clone, Debug)]
pub struct IndexMemory(Arc<Mutex<Kept>>);

#[derive(Debug)]
struct Kept {
    most: usize,
    held: usize,
    /// The most recently used one is at the back.
    films: VecDeque<Unsaved>,
    problem: Option<IndexProblem>,
    /// When writing last failed.
    failed: Option<Monotonic>,
}

/// An index that could not be written.
#[derive(Debug)]
struct Unsaved {
    film: Arc<Film>,
    tables: Arc<Vec<SampleTable>>,
    bytes: usize,
    /// Path of its future index file.
    path: PathBuf,
}

/// Why indexes are kept in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexProblem {
    /// Since when index files cannot be written.
    pub since: Real,
    /// The directory of index files.
    pub directory: PathBuf,
    /// The system's error.
    pub reason: String,
    /// Bytes of indexes that are in memory now.
    pub held: u64,
    /// Maximum bytes of indexes in memory.
    pub most: u64,
}

impl std::fmt::Display for IndexProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "index files cannot be written to {}: {}; indexes are kept in memory, at most {} MiB (index.memory), and other films are indexed again when they are played",
            self.directory.display(),
            self.reason,
            self.most >> 20
        )
    }
}

/// The indexes of films being played take all the memory for indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full {
    pub most: usize,
}

impl Default for IndexMemory {
    fn default() -> Self {
        IndexMemory::new(64 << 20)
    }
}

impl IndexMemory {
    /// Creates memory for at most `most` bytes of indexes.
    pub fn new(most: usize) -> IndexMemory {
        IndexMemory(Arc::new(Mutex::new(Kept {
            most,
            held: 0,
            films: VecDeque::new(),
            problem: None,
            failed: None,
        })))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Forgotten films are indexed again when they are needed.
        supervise::reset(&self.0, "indexes kept in memory", |kept| {
            kept.films.clear();
            kept.held = 0;
        })
    }

    /// Returns why indexes are kept in memory. `None`: they are not.
    pub fn problem(&self) -> Option<IndexProblem> {
        let kept = self.kept();
        let problem = kept.problem.clone()?;
        Some(IndexProblem {
            held: kept.held as u64,
            most: kept.most as u64,
            ..problem
        })
    }

    /// Returns the film of this identity if its index is here.
    pub(crate) fn get(&self, identity: &FileIdentity) -> Option<Arc<Film>> {
        let mut kept = self.kept();
        let place = kept
            .films
            .iter()
            .position(|unsaved| unsaved.film.identity == *identity)?;
        let unsaved = kept.films.remove(place)?;
        let film = unsaved.film.clone();
        kept.films.push_back(unsaved);
        Some(film)
    }

    /// Keeps a film's index. The least recently used indexes make room unless they are in use.
    /// Returns the film, or an error if there is no room for it.
    pub(crate) fn keep(
        &self,
        film: Film,
        tables: Arc<Vec<SampleTable>>,
        path: PathBuf,
    ) -> Result<Arc<Film>, Full> {
        let bytes = film.memory();
        let mut kept = self.kept();
        let identity = film.identity;
        kept.drop_where(|unsaved| unsaved.film.identity == identity);
        let mut first = 0;
        while kept.held + bytes > kept.most
            && let Some(oldest) = kept.films.get(first)
        {
            let (is_in_use, bytes) = (Arc::strong_count(&oldest.film) > 1, oldest.bytes);
            if is_in_use {
                first += 1;
            } else {
                kept.films.remove(first);
                kept.held -= bytes;
            }
        }
        // An index larger than the whole limit is kept if it is the only one.
        if kept.held + bytes > kept.most && kept.held > 0 {
            return Err(Full { most: kept.most });
        }
        let film = Arc::new(film);
        kept.held += bytes;
        kept.films.push_back(Unsaved {
            film: film.clone(),
            tables,
            bytes,
            path,
        });
        Ok(film)
    }

    /// Forgets the films below `directory` that are no longer `wanted`.
    pub(crate) fn retain(&self, directory: &Path, wanted: impl Fn(&FileIdentity) -> bool) {
        self.kept().drop_where(|unsaved| {
            unsaved.path.parent() == Some(directory) && !wanted(&unsaved.film.identity)
        });
    }

    /// Returns whether it is too soon for another attempt to write a file.
    pub(crate) fn rests(&self) -> bool {
        let failed = self.kept().failed;
        failed.is_some_and(|failed| reelway_clock::now().since(failed) < RETRY)
    }

    /// Records that an index file could not be written.
    pub(crate) fn failed(&self, directory: &Path, error: &IndexFileError) {
        let mut kept = self.kept();
        kept.failed = Some(reelway_clock::now());
        let is_new = kept.problem.is_none();
        let since = kept.problem.as_ref().map(|problem| problem.since);
        let problem = IndexProblem {
            since: since.unwrap_or_else(reelway_clock::real),
            directory: directory.to_owned(),
            reason: error.to_string(),
            held: kept.held as u64,
            most: kept.most as u64,
        };
        if is_new {
            warn!("{problem} (--state DIR names another place)");
        }
        kept.problem = Some(problem);
    }

    /// Records that an index file was written.
    pub(crate) fn wrote(&self) {
        let mut kept = self.kept();
        kept.failed = None;
        if !kept.films.is_empty() {
            // The problem is over only when these have been written, too.
            return;
        }
        if let Some(problem) = kept.problem.take() {
            info!(
                "index files can be written to {} again",
                problem.directory.display()
            );
        }
    }

    /// Retries writing the kept indexes after a failure. Stops at the first that cannot be written.
    pub(crate) fn save(&self) {
        let Some(problem) = self.problem() else {
            return;
        };
        if self.rests() {
            return;
        }
        let waiting: Vec<_> = self
            .kept()
            .films
            .iter()
            .map(|unsaved| {
                (
                    unsaved.film.clone(),
                    unsaved.tables.clone(),
                    unsaved.path.clone(),
                )
            })
            .collect();
        if waiting.is_empty() {
            match probe(&problem.directory) {
                Ok(()) => self.wrote(),
                Err(error) => self.failed(&problem.directory, &error.into()),
            }
        }
        for (film, tables, path) in waiting {
            let written =
                IndexFile::write(&path, &film.identity, &film.title, &tables, film.growth);
            match written {
                Ok(()) => {
                    let identity = film.identity;
                    self.kept()
                        .drop_where(|unsaved| unsaved.film.identity == identity);
                    self.wrote();
                }
                Err(error) => {
                    self.failed(path.parent().unwrap_or(&path), &error);
                    return;
                }
            }
        }
    }
}

impl Kept {
    fn drop_where(&mut self, is_gone: impl Fn(&Unsaved) -> bool) {
        self.films.retain(|unsaved| !is_gone(unsaved));
        self.held = self.films.iter().map(|unsaved| unsaved.bytes).sum();
    }
}

impl Film {
    /// Returns the bytes of memory taken by its index; 0 if the index is read from an index file.
    pub fn memory(&self) -> usize {
        let tables = self.samples.memory();
        if tables == 0 {
            return 0;
        }
        let tracks = self.title.recorded().flat_map(|track| {
            [
                track.groups.bytes(),
                track.packets.groups.bytes(),
                track.places.bytes(),
            ]
        });
        let texts = self.title.texts.iter().map(|text| text.document.bytes());
        let entries = self.title.entry_points.iter();
        let entries = entries.map(|entries| entries.points.bytes());
        tables
            + tracks
                .chain(texts)
                .chain(entries)
                .map(|bytes| bytes as usize)
                .sum::<usize>()
    }
}

/// Checks whether a directory can be written to. Creates it if it does not exist.
pub(crate) fn probe(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(".writable");
    let tried =
        std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, vec![0; PROBE]));
    let _ = std::fs::remove_file(path);
    tried
}

#[cfg(test)]
mod tests {
    use reelway_media::{Sample, Title};

    use super::*;
    use crate::growth::Growth;

    fn film(number: u64, samples: usize) -> (Film, Arc<Vec<SampleTable>>) {
        let mut table = SampleTable::with_capacity(samples);
        let sample = Sample {
            offset: 0,
            size: 1,
            duration: 1,
            cts: 0,
            sync: true,
        };
        (0..samples).for_each(|_| table.push(sample));
        let tables = Arc::new(vec![table]);
        let film = Film {
            name: number.to_string(),
            path: PathBuf::new(),
            identity: FileIdentity {
                device: 1,
                inode: number,
                size: 0,
                mtime_ns: 0,
            },
            title: Arc::new(Title::new(Vec::new())),
            samples: tables.clone(),
            growth: Growth::default(),
        };
        (film, tables)
    }

    fn keep(memory: &IndexMemory, number: u64, samples: usize) -> Result<Arc<Film>, Full> {
        let (film, tables) = film(number, samples);
        memory.keep(film, tables, PathBuf::from("/index/x.rwx"))
    }

    fn has(memory: &IndexMemory, numbers: std::ops::Range<u64>) -> Vec<u64> {
        let identity = |number| film(number, 0).0.identity;
        numbers
            .filter(|number| memory.get(&identity(*number)).is_some())
            .collect()
    }

    #[test]
    fn those_used_last_are_kept_within_the_bound_and_those_in_use_in_any_case() {
        // 18 bytes per sample: 1,800 per film.
        let memory = IndexMemory::new(6000);
        let in_use = keep(&memory, 0, 100).unwrap();
        for number in 1..10 {
            keep(&memory, number, 100).unwrap();
            assert!(memory.kept().held <= 6000);
        }
        assert_eq!(has(&memory, 0..10), [0, 8, 9]);
        let others = [
            keep(&memory, 20, 100).unwrap(),
            keep(&memory, 21, 100).unwrap(),
        ];
        let full = Some(Full { most: 6000 });
        assert_eq!(keep(&memory, 22, 100).err(), full);
        assert_eq!(has(&memory, 0..30), [0, 20, 21]);
        drop((in_use, others));
        assert!(keep(&memory, 22, 100).is_ok());
    }

    #[test]
    fn a_film_larger_than_the_bound_is_kept_by_itself() {
        let memory = IndexMemory::new(6000);
        keep(&memory, 1, 100).unwrap();
        let large = keep(&memory, 2, 1000).unwrap();
        assert_eq!(has(&memory, 0..9), [2]);
        assert!(keep(&memory, 3, 100).is_err());
        drop(large);
        keep(&memory, 3, 100).unwrap();
        assert_eq!(has(&memory, 0..9), [3]);
    }

    #[test]
    fn a_problem_has_its_beginning_and_ends_when_a_file_is_written() {
        let memory = IndexMemory::new(6 << 20);
        assert_eq!(memory.problem(), None);
        let error = || IndexFileError::Io(std::io::ErrorKind::StorageFull.into());
        memory.failed(Path::new("/index"), &error());
        let problem = memory.problem().unwrap();
        assert!(problem.to_string().contains("at most 6 MiB"), "{problem}");
        memory.failed(Path::new("/index"), &error());
        assert_eq!(memory.problem().unwrap().since, problem.since);
        assert!(memory.rests());
        memory.wrote();
        assert_eq!((memory.problem(), memory.rests()), (None, false));
    }
}

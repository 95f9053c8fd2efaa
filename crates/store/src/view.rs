//! Films whose samples are not played as they lie in their files: a view contains the samples, and
//! its blocks are made from the file's.
//!
//! A block of a view is read like any other. Its source requests the file's bytes from which it is
//! made, by the same deadline, and a thread extracts the samples. So disks, origins and the tier
//! only know files, and the rest of the file's blocks is cached for the next block of the view.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};

use reelway_clock::Monotonic;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;

use crate::block_source::BlockSource;
use crate::error::ReadError;
use crate::fill::Fill;
use crate::lane::Lane;
use crate::source::Source;
use crate::span::Span;
use crate::sync::{Mutex, lock};

/// Number of threads that make blocks.
const MAKERS: usize = 2;
/// Number of blocks made at once. Each keeps some of the file's blocks in memory meanwhile.
const DEPTH: usize = 8;

/// Maximum working memory in bytes that a thread keeps for the next block.
const MOST_KEPT: usize = 8 << 20;

/// How a view is made from a file.
pub trait View: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the size of the view in bytes.
    fn bytes(&self) -> u64;

    /// Begins to make a range of the view. May block to read the film's index.
    ///
    /// # Errors
    /// The data needed cannot be read.
    fn make(&self, range: Range<u64>) -> io::Result<Box<dyn Making>>;
}

/// A range of a view being made.
pub trait Making: Send {
    /// Returns the bytes of the file that are needed.
    fn wanted(&self) -> Range<u64>;

    /// Makes the range from those bytes. Returns false if [`Making::wanted`] now needs more. `room`
    /// holds intermediate data and is kept from block to block: freeing and allocating this memory
    /// costs as much as making a block.
    ///
    /// # Errors
    /// The file is not the one that the view belongs to.
    fn make(&mut self, file: &[u8], into: &mut [u8], room: &mut Vec<Vec<u8>>) -> io::Result<bool>;
}

/// Returns those of the identities that are views of a file.
pub(crate) fn of<'a>(
    file: FileIdentity,
    all: impl Iterator<Item = &'a FileIdentity>,
) -> Vec<FileIdentity> {
    all.filter(|other| **other != file && other.is_of(file))
        .copied()
        .collect()
}

/// Called with the requested bytes.
pub(crate) type Got = Box<dyn FnOnce(Result<Span, ReadError>) + Send>;

/// Provides the bytes of files.
pub(crate) trait Files: Send + Sync {
    /// Fetches bytes of a file (see [`crate::Store::fetch`]).
    fn fetch(self: Arc<Self>, file: &Arc<Source>, range: Range<u64>, deadline: Monotonic, got: Got);
}

/// The threads that make blocks of views.
pub(crate) struct Makers {
    jobs: Sender<Job>,
    /// By the number of the files' lane: a place that does not answer stops only its own views.
    lanes: HashMap<usize, Lane>,
}

impl Makers {
    /// Starts the threads.
    pub fn start() -> io::Result<Makers> {
        let (jobs, taken) = channel();
        let taken = Arc::new(Mutex::new(taken));
        for number in 0..MAKERS {
            let taken = Arc::clone(&taken);
            supervise::thread(format!("view-{number}"), move || work(&taken))?;
        }
        Ok(Makers {
            jobs,
            lanes: HashMap::new(),
        })
    }

    /// Returns the lane for views of files in this lane; `make` adds one of this name and depth.
    pub fn lane(&mut self, file: &Lane, make: impl FnOnce(&str, usize) -> Lane) -> Lane {
        let name = format!("views of {}", file.0.name);
        let lane = self.lanes.entry(file.0.number);
        lane.or_insert_with(|| make(&name, DEPTH)).clone()
    }
}

/// A block to be made, and its progress.
struct Job {
    fill: Fill,
    source: Arc<Viewed>,
    /// The range being made, and the file's bytes that have been read for it.
    begun: Option<(Box<dyn Making>, Span)>,
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    let mut room = Room::default();
    loop {
        let job = lock(jobs).recv();
        let Ok(job) = job else {
            return;
        };
        supervise::inject("view");
        job.go_on(&mut room);
        let kept = room.parts.iter().map(Vec::capacity).sum::<usize>();
        if room.file.capacity() + kept > MOST_KEPT {
            room = Room::default();
        }
    }
}

/// A thread's working memory for making a block.
#[derive(Default)]
struct Room {
    /// For bytes of the file.
    file: Vec<u8>,
    /// For what is made from them.
    parts: Vec<Vec<u8>>,
}

/// A view of an open file.
pub(crate) struct Viewed {
    view: Arc<dyn View>,
    file: Arc<Source>,
    jobs: Sender<Job>,
    files: Weak<dyn Files>,
}

impl std::fmt::Debug for Viewed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Viewed({:?})", self.file)
    }
}

impl Viewed {
    pub fn new(
        view: Arc<dyn View>,
        file: Arc<Source>,
        makers: &Makers,
        files: Weak<dyn Files>,
    ) -> Viewed {
        Viewed {
            view,
            file,
            jobs: makers.jobs.clone(),
            files,
        }
    }

    fn error(&self, offset: u64, error: io::Error) -> ReadError {
        ReadError::Io {
            path: self.path().to_path_buf(),
            offset,
            error: Arc::new(error),
        }
    }
}

impl BlockSource for Viewed {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn identity(&self) -> FileIdentity {
        self.file.identity().of_view(self.view.bytes())
    }

    fn read(self: Arc<Self>, fill: Fill) {
        let jobs = self.jobs.clone();
        // If there are no threads, the job is dropped, which fails the waiting requests.
        let _ = jobs.send(Job {
            fill,
            source: self,
            begun: None,
        });
    }
}

impl Job {
    /// Takes the next step.
    fn go_on(mut self, room: &mut Room) {
        let offset = self.fill.offset();
        let making = match self.begun.take() {
            None => self.source.view.make(self.fill.range()),
            Some((mut making, span)) => {
                room.file.clear();
                span.slices(span.range())
                    .for_each(|slice| room.file.extend_from_slice(slice));
                drop(span);
                let len = self.fill.len();
                let into = &mut self.fill.buffer()[..len];
                match making.make(&room.file, into, &mut room.parts) {
                    Ok(true) => return self.fill.finish(Ok(())),
                    Ok(false) => Ok(making),
                    Err(error) => Err(error),
                }
            }
        };
        match making {
            Ok(making) => self.wait_for(making),
            Err(error) => {
                let error = self.source.error(offset, error);
                self.fill.finish(Err(error));
            }
        }
    }

    /// Fetches the bytes of the file, and continues when they have been read.
    fn wait_for(self, making: Box<dyn Making>) {
        let Some(files) = self.source.files.upgrade() else {
            return self.fill.finish(Err(ReadError::Closed));
        };
        let Job { fill, source, .. } = self;
        let (file, deadline) = (Arc::clone(&source.file), fill.deadline());
        let wanted = making.wanted();
        let got = move |span: Result<Span, ReadError>| match span {
            Ok(span) => {
                let jobs = source.jobs.clone();
                let _ = jobs.send(Job {
                    fill,
                    source,
                    begun: Some((making, span)),
                });
            }
            Err(error) => fill.finish(Err(error)),
        };
        files.fetch(&file, wanted, deadline, Box::new(got));
    }
}

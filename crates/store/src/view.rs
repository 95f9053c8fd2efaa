//! Films whose samples do not lie in their files as they are played: a view of the file has them, and its blocks are made of the
//! file's.
//!
//! A block of a view is read like any other. Its source asks the store for the bytes of the file that it is made of, by the same
//! deadline, and a thread takes the samples out of them. So a disk, an origin and the tier know of files only, and what one block
//! leaves of the file's blocks is in memory for the next.

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

/// Threads that make blocks.
const MAKERS: usize = 2;
/// Blocks that are made at once; each keeps some of the file's in memory meanwhile.
const DEPTH: usize = 8;

/// Bytes of room that a thread keeps for the next block, at most.
const MOST_KEPT: usize = 8 << 20;

/// How a view is made of a file.
pub trait View: Send + Sync + std::fmt::Debug + 'static {
    /// Bytes of the view.
    fn bytes(&self) -> u64;

    /// Begins to make some bytes of it. May block for a read of the film's index.
    ///
    /// # Errors
    /// What is needed for it cannot be read.
    fn make(&self, range: Range<u64>) -> io::Result<Box<dyn Making>>;
}

/// Bytes of a view in the making.
pub trait Making: Send {
    /// Which bytes of the file are needed for them.
    fn wanted(&self) -> Range<u64>;

    /// Makes them of those bytes; false: [`Making::wanted`] has become more. `room` is for what is in between, and is kept
    /// from block to block: memory that is given back and taken again costs as much as making a block.
    ///
    /// # Errors
    /// The file is not the one that the view is of.
    fn make(&mut self, file: &[u8], into: &mut [u8], room: &mut Vec<Vec<u8>>) -> io::Result<bool>;
}

/// Which of these are views of a file.
pub(crate) fn of<'a>(
    file: FileIdentity,
    all: impl Iterator<Item = &'a FileIdentity>,
) -> Vec<FileIdentity> {
    all.filter(|other| **other != file && other.is_of(file))
        .copied()
        .collect()
}

/// Who is told of bytes that were asked for.
pub(crate) type Got = Box<dyn FnOnce(Result<Span, ReadError>) + Send>;

/// Where bytes of files come from.
pub(crate) trait Files: Send + Sync {
    /// Gets bytes of a file (see [`crate::Store::fetch`]).
    fn fetch(self: Arc<Self>, file: &Arc<Source>, range: Range<u64>, deadline: Monotonic, got: Got);
}

/// The threads that make blocks of views.
pub(crate) struct Makers {
    jobs: Sender<Job>,
    /// By the number of the lane of their files: a place that does not answer stops its own views only.
    lanes: HashMap<usize, Lane>,
}

impl Makers {
    /// Starts them.
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

    /// The lane of views of files that this lane reads; `make` adds one of this name and depth.
    pub fn lane(&mut self, file: &Lane, make: impl FnOnce(&str, usize) -> Lane) -> Lane {
        let name = format!("views of {}", file.0.name);
        let lane = self.lanes.entry(file.0.number);
        lane.or_insert_with(|| make(&name, DEPTH)).clone()
    }
}

/// A block that is to be made, and how far it is.
struct Job {
    fill: Fill,
    source: Arc<Viewed>,
    /// What is made, and what of the file has come for it.
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

/// Room that a thread has for a block in the making.
#[derive(Default)]
struct Room {
    /// For bytes of the file.
    file: Vec<u8>,
    /// For what is made of them.
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
        // Without threads it is dropped, which tells those who wait.
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

    /// Has the bytes of the file fetched, and goes on when they are there.
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

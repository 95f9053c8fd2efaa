//! The tier's threads: several readers and one writer.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_pool::tier::TierBlock;
use reelway_supervise::{self as supervise, lock};
use reelway_sys::FileIdentity;

use super::files::{Record, checksum};
use super::shelf::{Opened, Shelf};
use crate::block_source::BlockSource;
use crate::fill::Fill;
use crate::span::Pin;

/// Number of reads under way at once.
pub(crate) const READERS: usize = 4;

/// Writing is suspended for this time after a failed write, so that a full or broken disk is not
/// accessed all the time.
const REST: Duration = Duration::from_secs(60);

/// A block to be read.
pub(crate) struct Job {
    pub film: Arc<Opened>,
    pub from: Arc<dyn BlockSource>,
    pub fill: Fill,
    pub held: TierBlock,
}

/// Called after a write, with whether the tier holds the block.
pub(crate) type Done = Box<dyn FnOnce(bool) + Send>;

/// A block to be written.
pub(crate) struct Put {
    pub film: Arc<Opened>,
    pub block: u32,
    pub bytes: Pin,
    pub len: usize,
    pub done: Option<Done>,
}

/// The work to be done.
#[derive(Default)]
struct Queue {
    reads: VecDeque<Job>,
    writes: VecDeque<Put>,
    /// Writing is suspended until then.
    rests: Option<Monotonic>,
    closed: bool,
}

/// The threads and their work.
pub(crate) struct Work {
    shelf: Arc<Shelf>,
    /// Changed in one step.
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Maximum number of blocks of the pool that wait to be written.
    most_writes: usize,
}

/// Hours since 1970.
fn hour() -> u64 {
    reelway_clock::real().nanos() / 3_600_000_000_000
}

impl Work {
    /// Starts the threads.
    pub fn start(shelf: &Arc<Shelf>, most_writes: usize) -> io::Result<Arc<Work>> {
        let work = Arc::new(Work {
            shelf: Arc::clone(shelf),
            queue: Mutex::default(),
            wake: Condvar::new(),
            most_writes,
        });
        for number in 0..=READERS {
            let work = Arc::clone(&work);
            supervise::thread(format!("tier-{number}"), move || match number {
                0 => work.write_all(),
                _ => work.read_all(),
            })?;
        }
        Ok(work)
    }

    /// Ends the threads and drops pending work.
    pub fn close(&self) {
        let waiting = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            (
                std::mem::take(&mut queue.reads),
                std::mem::take(&mut queue.writes),
            )
        };
        self.wake.notify_all();
        drop(waiting);
    }

    /// Has a block written once it has been read from its film's place.
    pub fn let_in(self: &Arc<Self>, film: &Arc<Opened>, fill: &mut Fill) {
        let (work, film, block) = (Arc::clone(self), Arc::clone(film), fill.block());
        fill.keep(Box::new(move |bytes, len| {
            work.put(Put {
                film,
                block,
                bytes,
                len,
                done: None,
            });
        }));
    }

    /// Drops the pending writes of a film.
    pub fn give_up(&self, film: FileIdentity) {
        let mut queue = lock(&self.queue);
        let waiting = std::mem::take(&mut queue.writes).into_iter();
        let (given_up, others) =
            waiting.partition::<VecDeque<_>, _>(|put| put.film.identity == film);
        queue.writes = others;
        drop(queue);
        drop(given_up);
    }

    /// Accepts a read. The pool has at most [`READERS`] under way.
    pub fn push(&self, job: Job) {
        let mut queue = lock(&self.queue);
        if queue.closed {
            drop(queue);
            return drop(job);
        }
        queue.reads.push_back(job);
        drop(queue);
        self.wake.notify_all();
    }

    /// Accepts a write, unless too many are pending or one has just failed.
    pub fn put(&self, put: Put) {
        let mut queue = lock(&self.queue);
        let rests = queue
            .rests
            .is_some_and(|until| reelway_clock::now() < until);
        // Callers that wait for a write request no others meanwhile.
        let is_full = queue.writes.len() >= self.most_writes && put.done.is_none();
        if queue.closed || rests || is_full {
            drop(queue);
            if let Some(mut books) = self.shelf.books() {
                books.left_out();
            }
            return drop(put);
        }
        queue.writes.push_back(put);
        drop(queue);
        self.wake.notify_all();
    }

    /// Waits for the next piece of work of one kind. `None`: the tier is closed.
    fn next<T>(&self, take: impl Fn(&mut Queue) -> Option<T>) -> Option<T> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some(work) = take(&mut queue) {
                return Some(work);
            }
            queue = supervise::whole(self.wake.wait(queue));
        }
    }

    fn read_all(self: &Arc<Self>) {
        while let Some(job) = self.next(|queue| queue.reads.pop_front()) {
            self.read(job);
            supervise::inject("tier");
        }
    }

    fn read(self: &Arc<Self>, job: Job) {
        let Job {
            film,
            from,
            mut fill,
            held,
        } = job;
        let TierBlock { slot, len, sum } = held;
        let wanted = fill.len();
        let block = fill.block();
        let tried = supervise::guard("tier read", || {
            supervise::inject("tier.read");
            let read = self.shelf.files.read(slot, len, fill.buffer());
            let well = match &read {
                Ok(()) if len as usize == wanted => {
                    checksum(film.identity, block, &fill.buffer()[..wanted]) == sum
                }
                _ => false,
            };
            (read, well)
        });
        let (read, well) =
            tried.unwrap_or_else(|panicked| (Err(io::Error::other(panicked)), false));
        let stays = match self.shelf.books() {
            Some(mut books) => books.read(held, well, self.shelf.now()),
            None => true,
        };
        if well {
            fill.finish(Ok(()));
            if !stays {
                self.shelf.empty(&[slot]);
            }
            return;
        }
        match read {
            Err(error) => tracing::warn!(
                "tier: a block cannot be read ({error}); it is read from {} again",
                from.path().display()
            ),
            Ok(()) => tracing::warn!(
                "tier: a block's checksum is wrong; it is read from {} again",
                from.path().display()
            ),
        }
        self.shelf.empty(&[slot]);
        self.let_in(&film, &mut fill);
        from.read(fill);
    }

    fn write_all(&self) {
        while let Some(put) = self.next(|queue| queue.writes.pop_front()) {
            if let Err(error) = self.write(&put) {
                tracing::warn!("tier: nothing is written for {} s: {error}", REST.as_secs());
                lock(&self.queue).rests = Some(reelway_clock::now() + REST);
            }
            if let Some(done) = put.done {
                done(put.film.holds(put.block));
            }
        }
    }

    /// Writes a block if there is room for it.
    fn write(&self, put: &Put) -> io::Result<()> {
        let (film, len, shelf) = (&put.film, put.len, &self.shelf);
        let id = film.id(put.block);
        let Some(mut books) = shelf.books() else {
            return Ok(());
        };
        let Some(slot) = books.room(id, len as u64, hour(), shelf.now()) else {
            return Ok(());
        };
        let hours = books.hours();
        drop(books);
        let bytes = put.bytes.bytes();
        let tried = supervise::guard("tier write", || -> io::Result<Record> {
            supervise::inject("tier.write");
            let record = Record {
                file: film.identity,
                block: id.block,
                len: len as u32,
                sum: checksum(film.identity, id.block, &bytes[..len]),
            };
            self.shelf.files.write_header(&hours)?;
            self.shelf.files.write(slot, len, bytes)?;
            self.shelf.files.write_record(slot, Some(&record))?;
            Ok(record)
        });
        let written = tried.unwrap_or_else(|panicked| Err(io::Error::other(panicked)));
        let Some(mut books) = shelf.books() else {
            return Ok(());
        };
        match written {
            Ok(record) => {
                let stays = books.written(slot, id, record.len, record.sum, shelf.now());
                drop(books);
                if !stays {
                    shelf.empty(&[slot]);
                }
                Ok(())
            }
            Err(error) => {
                books.failed(slot);
                Err(error)
            }
        }
    }
}

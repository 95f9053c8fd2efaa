//! The tier's threads: some that read, one that writes.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use reelway_cache::BlockId;
use reelway_clock::Monotonic;
use reelway_pool::tier::Held;
use reelway_supervise::{self as supervise, lock};
use reelway_sys::FileIdentity;

use super::files::{Record, checksum};
use super::{READERS, Tier, TierFilm, hour};
use crate::block_source::BlockSource;
use crate::fill::Fill;
use crate::span::Pin;

/// Nothing is written for so long after a write that failed: a full or broken disk is not asked all the time.
const REST: Duration = Duration::from_secs(60);

/// A block to be read.
pub(crate) struct Job {
    pub film: Arc<TierFilm>,
    pub from: Arc<dyn BlockSource>,
    pub fill: Fill,
    pub held: Held,
}

/// Called with whether a block is here, when it was to be written.
pub(crate) type Done = Box<dyn FnOnce(bool) + Send>;

/// A block to be written.
pub(crate) struct Put {
    pub film: Arc<TierFilm>,
    pub id: BlockId,
    pub bytes: Pin,
    pub len: usize,
    pub done: Option<Done>,
}

/// What is to be done.
#[derive(Default)]
pub(crate) struct Queue {
    pub reads: VecDeque<Job>,
    pub writes: VecDeque<Put>,
    /// Nothing is written until then.
    pub rests: Option<Monotonic>,
    pub closed: bool,
}

impl Tier {
    /// Starts the threads.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        for number in 0..=READERS {
            let tier = Arc::clone(self);
            supervise::thread(format!("tier-{number}"), move || match number {
                0 => tier.write_all(),
                _ => tier.read_all(),
            })?;
        }
        Ok(())
    }

    /// Takes a read; the pool has no more than [`READERS`] under way.
    pub fn push(&self, job: Job) {
        let mut queue = lock(&self.queue);
        if queue.closed {
            drop(queue);
            return drop(job);
        }
        queue.reads.push_back(job);
        drop(queue);
        self.work.notify_all();
    }

    /// Takes a write, unless too many wait or the last one failed a moment ago.
    pub fn put(&self, put: Put) {
        let mut queue = lock(&self.queue);
        let rests = queue
            .rests
            .is_some_and(|until| reelway_clock::now() < until);
        // Those who wait for one write ask for no other meanwhile.
        let is_full = queue.writes.len() >= self.most_writes && put.done.is_none();
        if queue.closed || rests || is_full {
            drop(queue);
            self.books().left_out();
            return drop(put);
        }
        queue.writes.push_back(put);
        drop(queue);
        self.work.notify_all();
    }

    /// The next of one kind of work; none when the tier is closed.
    fn next<T>(&self, take: impl Fn(&mut super::Queue) -> Option<T>) -> Option<T> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some(work) = take(&mut queue) {
                return Some(work);
            }
            queue = supervise::whole(self.work.wait(queue));
        }
    }

    fn read_all(&self) {
        while let Some(job) = self.next(|queue| queue.reads.pop_front()) {
            self.read(job);
            supervise::inject("tier");
        }
    }

    fn read(&self, job: Job) {
        let Job {
            film,
            from,
            mut fill,
            held,
        } = job;
        let Held { slot, len, sum } = held;
        let wanted = fill.len();
        let block = fill.block();
        let tried = supervise::guard("tier read", || {
            supervise::inject("tier.read");
            let read = self.files.read(slot, len, fill.buffer());
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
        let mut books = self.books();
        let stays = self.is_off() || books.read(held, well, self.now());
        drop(books);
        if well {
            fill.finish(Ok(()));
            if !stays {
                self.empty(&[slot]);
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
        self.empty(&[slot]);
        film.keep(&mut fill);
        from.read(fill);
    }

    /// Slots that the books have emptied are to be empty after a restart, too.
    fn empty(&self, slots: &[u32]) {
        for slot in slots {
            // Where that fails, the checksum tells after a restart what lies there.
            let _ = self.files.write_record(*slot, None);
        }
        let mut books = self.books();
        if !self.is_off() {
            slots.iter().for_each(|slot| books.give_back(*slot));
        }
    }

    /// Drops what is held of a film, and what waits to be written.
    pub fn purge(&self, film: FileIdentity) {
        let mut queue = lock(&self.queue);
        let waiting = std::mem::take(&mut queue.writes).into_iter();
        let (given_up, others) =
            waiting.partition::<VecDeque<_>, _>(|put| put.film.identity == film);
        queue.writes = others;
        drop(queue);
        drop(given_up);
        let mut books = self.books();
        if self.is_off() {
            return;
        }
        let slots = books.purge(film, self.now());
        drop(books);
        self.empty(&slots);
    }

    fn write_all(&self) {
        while let Some(put) = self.next(|queue| queue.writes.pop_front()) {
            if let Err(error) = self.write(&put) {
                tracing::warn!("tier: nothing is written for {} s: {error}", REST.as_secs());
                lock(&self.queue).rests = Some(reelway_clock::now() + REST);
            }
            if let Some(done) = put.done {
                done(put.film.holds(put.id.block));
            }
        }
    }

    /// Writes a block, if it is let in.
    fn write(&self, put: &Put) -> io::Result<()> {
        let (film, id, len) = (&put.film, put.id, put.len);
        let mut books = self.books();
        if self.is_off() {
            return Ok(());
        }
        let Some(slot) = books.room(id, len as u64, hour(), self.now()) else {
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
            self.files.write_header(&hours)?;
            self.files.write(slot, len, bytes)?;
            self.files.write_record(slot, Some(&record))?;
            Ok(record)
        });
        let written = tried.unwrap_or_else(|panicked| Err(io::Error::other(panicked)));
        let mut books = self.books();
        if self.is_off() {
            return Ok(());
        }
        match written {
            Ok(record) => {
                let stays = books.written(slot, id, record.len, record.sum, self.now());
                drop(books);
                if !stays {
                    self.empty(&[slot]);
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

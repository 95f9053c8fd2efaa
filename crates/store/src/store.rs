//! The store: what others see.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use reelway_clock::Monotonic;
use reelway_sys::FileIdentity;
use reelway_sys::region::{ALIGNMENT, Region};

use crate::pool::{Finished, Pool, Read, Request};
use crate::span::Pin;
use crate::{ReadError, Source, Span, StoreError, reader};

/// How large the pool is, and who fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Memory for film blocks in bytes, a hard limit; at least 8 blocks.
    pub pool_bytes: u64,
    /// Bytes of a block, a power of two from 4096 to 16 MiB.
    pub block_bytes: u32,
    /// Threads that read.
    pub readers: usize,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            pool_bytes: 256 << 20,
            block_bytes: 256 << 10,
            readers: 4,
        }
    }
}

/// What the store holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Blocks in all.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Blocks that somebody uses or that are being read.
    pub in_use: u64,
    /// Blocks that hold film bytes, used or not.
    pub cached: u64,
    /// Requests that wait for blocks to become free.
    pub waiting: u64,
    /// Blocks asked for that were there or on their way.
    pub hits: u64,
    /// Blocks asked for that had to be read.
    pub misses: u64,
    /// Bytes read from disk.
    pub bytes_read: u64,
    /// Reads that failed.
    pub errors: u64,
}

pub(crate) struct Inner {
    config: StoreConfig,
    pool: Mutex<Pool>,
    /// Readers wait here for reads.
    work: Condvar,
    /// Requests that wait for room: while there are none, letting a block go takes no lock.
    starved: AtomicUsize,
    sources: Mutex<HashMap<FileIdentity, Weak<Source>>>,
}

impl Inner {
    pub fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls what finished, and wakes readers if there is something to read.
    pub fn after(&self, finished: &mut Vec<Finished>) {
        for finished in finished.drain(..) {
            finished.call();
        }
    }

    /// Waits for a read; `None` when the store was closed.
    pub fn next_read(&self) -> Option<Read> {
        let mut pool = self.lock();
        loop {
            if pool.closed {
                return None;
            }
            self.note_waiting(&pool);
            if let Some(read) = pool.next_read() {
                if pool.has_reads() {
                    self.work.notify_one();
                }
                return Some(read);
            }
            pool = self.work.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn note_waiting(&self, pool: &Pool) {
        self.starved.store(pool.waiting(), Ordering::SeqCst);
    }

    fn ask(self: &Arc<Self>, request: Request) {
        let mut finished = Vec::new();
        {
            let mut pool = self.lock();
            // Said before looking for free blocks, so that one let go from now on is noticed
            // (the other half is in `released`).
            self.starved.store(pool.waiting() + 1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            finished.extend(pool.ask(request));
            self.note_waiting(&pool);
            if pool.has_reads() {
                self.work.notify_one();
            }
        }
        self.after(&mut finished);
    }

    /// A block was let go.
    pub fn released(&self) {
        fence(Ordering::SeqCst);
        if self.starved.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut finished = Vec::new();
        {
            let mut pool = self.lock();
            pool.dispatch(&mut finished);
            self.note_waiting(&pool);
            if pool.has_reads() {
                self.work.notify_one();
            }
        }
        self.after(&mut finished);
    }
}

/// Closes the store with its last handle.
struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        let mut finished = Vec::new();
        self.0.lock().close(&mut finished);
        self.0.work.notify_all();
        self.0.after(&mut finished);
    }
}

/// The block pool, its cache and its readers. Cheap to clone; closed with the last clone.
#[derive(Clone)]
pub struct Store(Arc<Owner>);

impl Store {
    /// Reserves the pool and starts the readers.
    pub fn new(config: StoreConfig) -> Result<Store, StoreError> {
        let StoreConfig {
            pool_bytes,
            block_bytes,
            readers,
        } = config;
        if !block_bytes.is_power_of_two() || !(ALIGNMENT as u32..=16 << 20).contains(&block_bytes) {
            let words = format!(
                "blocks of {block_bytes} bytes cannot be: take a power of two from 4096 to 16 MiB"
            );
            return Err(StoreError::Config(words));
        }
        let count = pool_bytes / u64::from(block_bytes);
        if count < 8 || count > u64::from(u32::MAX - 1) {
            let least = 8 * u64::from(block_bytes);
            let words = format!(
                "a pool of {pool_bytes} bytes is too small or too large: at least {least} bytes are needed"
            );
            return Err(StoreError::Config(words));
        }
        let region = Region::map(count as usize, block_bytes as usize).map_err(|error| {
            StoreError::Memory {
                bytes: pool_bytes,
                error,
            }
        })?;
        if let Some(error) = &region.not_locked {
            tracing::info!(
                "the block pool of {} MiB is not locked in memory ({error}; the limit is {} KiB): raise it with `ulimit -l` or LimitMEMLOCK= of systemd",
                pool_bytes >> 20,
                reelway_sys::limits::locked_memory() >> 10,
            );
        }
        let inner = Arc::new(Inner {
            config,
            pool: Mutex::new(Pool::new(region.pages)),
            work: Condvar::new(),
            starved: AtomicUsize::new(0),
            sources: Mutex::new(HashMap::new()),
        });
        let owner = Owner(inner);
        reader::start(&owner.0, readers).map_err(StoreError::Thread)?;
        Ok(Store(Arc::new(owner)))
    }

    /// Opens a film file, or gives the one that is open. Compare [`Source::identity`] with what the
    /// film's index was made from.
    pub fn open(&self, path: &Path) -> io::Result<Arc<Source>> {
        let source = Source::open(path)?;
        let mut sources = self
            .0
            .0
            .sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let identity = source.identity();
        if let Some(open) = sources
            .get(&identity)
            .and_then(Weak::upgrade)
            .filter(|open| !open.is_changed())
        {
            return Ok(open);
        }
        sources.retain(|_, source| source.strong_count() > 0);
        let source = Arc::new(source);
        sources.insert(identity, Arc::downgrade(&source));
        Ok(source)
    }

    /// Most bytes of one request: a quarter of the pool, so that four can always be served at once.
    pub fn most_bytes(&self) -> u64 {
        let StoreConfig {
            pool_bytes,
            block_bytes,
            ..
        } = self.0.0.config;
        // A range of this length may touch one block more than it fills.
        (pool_bytes / 4 / u64::from(block_bytes) - 1).max(1) * u64::from(block_bytes)
    }

    /// Gets the bytes `range` of a film, and calls `done` with them: at once on this thread where all
    /// of them are in memory, else on a reader's. `done` must be quick. Reads are done in the order of
    /// their deadlines, and so is waiting for blocks where all are in use; nothing is given up when its
    /// deadline has passed.
    pub fn fetch(
        &self,
        source: &Arc<Source>,
        range: Range<u64>,
        deadline: Monotonic,
        done: impl FnOnce(Result<Span, ReadError>) + Send + 'static,
    ) {
        let path = || source.path().to_path_buf();
        if source.is_changed() {
            return done(Err(ReadError::Changed { path: path() }));
        }
        if range.start > range.end || range.end > source.len() {
            return done(Err(ReadError::OutOfRange {
                path: path(),
                range,
                len: source.len(),
            }));
        }
        let most = self.most_bytes();
        if range.end - range.start > most {
            return done(Err(ReadError::TooLarge {
                path: path(),
                range,
                most,
            }));
        }
        let block_bytes = u64::from(self.0.0.config.block_bytes);
        let blocks = range.start / block_bytes
            ..range
                .end
                .div_ceil(block_bytes)
                .max(range.start / block_bytes);
        // What is still to be read must not keep the store open.
        let inner = Arc::downgrade(&self.0.0);
        let done = Box::new(move |result: Result<Vec<_>, ReadError>| {
            let span = match (result, inner.upgrade()) {
                (Ok(blocks), Some(inner)) => {
                    let pins = blocks
                        .into_iter()
                        .map(|block| Pin::new(block, Arc::clone(&inner)))
                        .collect();
                    Ok(Span::new(pins, range, block_bytes))
                }
                (Ok(_), None) => Err(ReadError::Closed),
                (Err(error), _) => Err(error),
            };
            done(span);
        });
        self.0.0.ask(Request {
            source: Arc::clone(source),
            blocks,
            deadline,
            done,
        });
    }

    /// [`Store::fetch`] as a future.
    pub async fn read(
        &self,
        source: &Arc<Source>,
        range: Range<u64>,
        deadline: Monotonic,
    ) -> Result<Span, ReadError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.fetch(source, range, deadline, move |result| {
            // Nobody waits any more: the span goes back.
            let _ = sender.send(result);
        });
        receiver.await.unwrap_or(Err(ReadError::Closed))
    }

    /// Forgets the blocks of a file that is no more (deleted, or replaced by another) and leaves all
    /// others; how many blocks became free. Those that somebody still plays from go when he is done
    /// and their memory is needed.
    pub fn forget(&self, file: FileIdentity) -> usize {
        let mut finished = Vec::new();
        let freed = {
            let mut pool = self.0.0.lock();
            let freed = pool.forget(file);
            pool.dispatch(&mut finished);
            self.0.0.note_waiting(&pool);
            if pool.has_reads() {
                self.0.0.work.notify_one();
            }
            freed
        };
        self.0.0.after(&mut finished);
        freed
    }

    /// What it holds and has done.
    pub fn stats(&self) -> StoreStats {
        let pool = self.0.0.lock();
        let (blocks, cached, in_use) = pool.census();
        let counters = pool.counters;
        StoreStats {
            blocks: blocks as u64,
            block_bytes: self.0.0.config.block_bytes,
            in_use: in_use as u64,
            cached: cached as u64,
            waiting: pool.waiting() as u64,
            hits: counters.hits,
            misses: counters.misses,
            bytes_read: counters.bytes_read,
            errors: counters.errors,
        }
    }
}

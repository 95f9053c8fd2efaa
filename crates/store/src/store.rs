//! The public interface of the store.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use reelway_cache::{Film, FilmId};
use reelway_clock::Monotonic;
use reelway_pool::tier::TierStats;
use reelway_pool::{Ahead, News, Purpose};
use reelway_sys::region::{ALIGNMENT, Page, Paging, Region};
use reelway_sys::{FileIdentity, Mark};

use crate::ahead;
use crate::block_source::Opener;
use crate::buffer::Buffer;
use crate::config::StoreConfig;
use crate::error::{ReadError, StoreError};
use crate::inner::Inner;
use crate::lane::{Lane, LaneKind, LaneState, LaneStats};
use crate::live::{Given, Pool, Request};
use crate::observer::Observer;
use crate::source::Source;
use crate::span::Span;
use crate::sync::lock;
use crate::tier::{READERS, Tier};
use crate::view::{self, View};
use crate::watcher::Watcher;

/// Deadline for reading a block that is fetched for the tier: later than those of all viewers.
const BROUGHT: Duration = Duration::from_secs(60);

/// State and statistics of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// All blocks.
    pub blocks: u64,
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Blocks that are in use or being read.
    pub in_use: u64,
    /// Blocks that hold film bytes, in use or not.
    pub cached: u64,
    /// Blocks that have their memory, used or not; more are made ready in advance.
    pub ready: u64,
    /// Requests that are waiting for free blocks.
    pub waiting: u64,
    /// Requested blocks that were cached or being read.
    pub hits: u64,
    /// Requested blocks that had to be read.
    pub misses: u64,
    /// Bytes read from disk.
    pub bytes_read: u64,
    /// Reads that failed.
    pub errors: u64,
    /// Viewers whose positions the cache policy knows.
    pub viewers: u64,
}

/// Returns the identities under which blocks of a film are kept: first, if the film may grow, that
/// of the blocks that stay the same when it does.
fn names(film: FileIdentity) -> impl Iterator<Item = FileIdentity> {
    film.of_recording().into_iter().chain([film])
}

/// Closes the store with its last handle.
struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.with_pool(|pool, _, finished| pool.close(finished));
        for (_, (disk, _)) in lock(&self.0.disks).drain() {
            disk.close();
        }
        if let Some((tier, _)) = &self.0.tier {
            tier.close();
        }
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
            ..
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
        if let Some(memory) = reelway_sys::limits::memory().filter(|memory| pool_bytes > *memory) {
            return Err(StoreError::TooLarge {
                bytes: pool_bytes,
                memory,
            });
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
        let policy = config.policy.build(count, count as usize);
        let mut pages = region.pages;
        let ahead = Ahead::of(pages.len(), block_bytes);
        if ahead.is_none() {
            pages.iter_mut().for_each(Page::touch);
        }
        let mut pool = Pool::new(pages, policy, ahead, reelway_clock::now());
        let mut lanes = Vec::new();
        let tier = match &config.tier {
            Some(tier) => match Tier::open(tier, block_bytes, count) {
                Ok(tier) => {
                    let number = pool.add_queue(READERS, false);
                    let lane = Lane(Arc::new(LaneState::new(
                        "tier",
                        LaneKind::Tier,
                        number,
                        READERS,
                    )));
                    lanes.push(lane.clone());
                    Some((tier, lane))
                }
                // A full or worn-out disk must not prevent the server from starting.
                Err(error) if error.is_of_the_disk() => {
                    tracing::warn!("{error}; the server continues without it");
                    None
                }
                Err(error) => return Err(error),
            },
            None => None,
        };
        let inner = Inner::new(config, pool, lanes, tier, region.paging);
        if ahead.is_some() {
            ahead::start(&inner);
        }
        Ok(Store::of(inner))
    }

    /// Creates a handle of the shared state. The store is closed with the last clone of the handle.
    pub(crate) fn of(inner: Arc<Inner>) -> Store {
        Store(Arc::new(Owner(inner)))
    }

    /// Returns the state that its handles share.
    #[cfg(test)]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// Adds a queue for local sources, such as a disk.
    #[cfg(test)]
    pub(crate) fn lane_here(&self, name: &str, depth: usize) -> Lane {
        self.0.0.lane(name, depth, LaneKind::Disk)
    }

    /// Adds a queue for remote sources, with at most `depth` reads at once (at least 1); `name` is
    /// its name in statistics. Remote reads, which may take long, get half of the pool for all such
    /// queues together.
    pub fn lane(&self, name: &str, depth: usize) -> Lane {
        self.0.0.lane(name, depth, LaneKind::Afar)
    }

    /// Has paths that begin with `prefix` opened by `opener` instead of as local files. If several
    /// prefixes match, the longest one counts.
    pub fn mount(&self, prefix: impl Into<PathBuf>, opener: Arc<dyn Opener>) {
        lock(&self.0.0.openers).push((prefix.into(), opener));
    }

    /// Opens a film file, or returns it if it is already open. Compare [`Source::identity`] with
    /// the identity from which the film's index was made.
    pub fn open(&self, path: &Path) -> io::Result<Arc<Source>> {
        let source = self.0.0.open(path, None)?;
        Ok(self.share(source))
    }

    /// Opens a film file that may have grown since it was indexed; `known` is its identity then,
    /// and its mark. If it is still the same file, the source has the earlier length and identity;
    /// otherwise it is opened as by [`Store::open`].
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open_grown(&self, path: &Path, known: (FileIdentity, Mark)) -> io::Result<Arc<Source>> {
        let source = self.0.0.open(path, Some(known))?;
        Ok(self.share(source))
    }

    /// Opens a view of an open film file, or returns it if it is already open.
    ///
    /// # Errors
    /// The threads that make views cannot be started.
    pub fn open_view(&self, file: &Arc<Source>, view: Arc<dyn View>) -> io::Result<Arc<Source>> {
        Ok(self.share(self.0.0.open_view(file, view)?))
    }

    /// Returns the source of the same bytes that is already open, or else this one.
    fn share(&self, source: Source) -> Arc<Source> {
        let mut sources = lock(&self.0.0.sources);
        let identity = source.identity();
        if let Some(open) = sources
            .get(&identity)
            .and_then(Weak::upgrade)
            .filter(|open| !open.is_changed())
        {
            return open;
        }
        sources.retain(|_, source| source.strong_count() > 0);
        let source = Arc::new(source);
        sources.insert(identity, Arc::downgrade(&source));
        source
    }

    /// Returns the maximum number of blocks in a request: a quarter of the pool, so that four
    /// requests can always be served at once.
    pub fn most_blocks(&self) -> u64 {
        self.0.0.most_blocks()
    }

    /// Returns the maximum number of bytes in a request: one block less than
    /// [`Store::most_blocks`], since a range of this length may touch one block more than it fills.
    pub fn most_bytes(&self) -> u64 {
        self.0.0.most_bytes()
    }

    /// Returns the block size in bytes.
    pub fn block_bytes(&self) -> u32 {
        self.0.0.config.block_bytes
    }

    /// Tells the cache policy the duration of a film.
    pub fn film(&self, source: &Source, duration: Duration) {
        let blocks = source.len().div_ceil(self.0.0.block_bytes());
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        self.0
            .0
            .add_news(News::Film(source.number(), Film { blocks, duration }));
    }

    /// Registers a viewer with the cache policy; the viewer has no position yet.
    pub fn watcher(&self) -> Watcher {
        let viewer = self.0.0.viewers.fetch_add(1, Ordering::Relaxed);
        Watcher::new(&self.0.0, viewer)
    }

    /// Notifies `observer` of every block requested from now on. Only the first observer is
    /// notified.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        if self.0.0.observer.set(observer).is_ok() {
            self.0.0.pool().observe();
        }
    }

    /// Returns, for each of these files, its number and the numbers of its cached blocks in order;
    /// `None` if the file has not been opened recently. Iterates over the pool once for all files.
    pub fn in_memory(&self, files: &[FileIdentity]) -> Vec<Option<(FilmId, Vec<u32>)>> {
        let pool = self.0.0.pool();
        let mut found: Vec<_> = files
            .iter()
            .map(|file| {
                let mut numbers = names(*file).filter_map(|name| pool.film(name));
                numbers.next().map(|number| (number, Vec::new()))
            })
            .collect();
        let places: HashMap<FilmId, usize> = (files.iter().enumerate())
            .flat_map(|(place, file)| names(*file).map(move |name| (place, name)))
            .filter_map(|(place, name)| Some((pool.film(name)?, place)))
            .collect();
        for block in pool.blocks() {
            let place = places.get(&block.film).copied();
            if let Some((_, blocks)) = place.and_then(|place| found[place].as_mut()) {
                blocks.push(block.block);
            }
        }
        drop(pool);
        for (_, blocks) in found.iter_mut().flatten() {
            blocks.sort_unstable();
        }
        found
    }

    /// Returns the numbers of a film's cached blocks, in order.
    pub fn blocks_of(&self, source: &Source) -> Vec<u32> {
        let pool = self.0.0.pool();
        let numbers = source.numbers();
        let mut blocks: Vec<u32> = numbers.flat_map(|number| pool.blocks_of(number)).collect();
        drop(pool);
        blocks.sort_unstable();
        blocks
    }

    /// Fetches the bytes `range` of a film and calls `done` with them: at once on this thread if
    /// all of them are cached, otherwise on a reader's thread. `done` must be quick. Reads, and
    /// requests that wait because all blocks are in use, are served in order of deadline. No
    /// request is dropped after its deadline.
    pub fn fetch(
        &self,
        source: &Arc<Source>,
        range: Range<u64>,
        deadline: Monotonic,
        done: impl FnOnce(Result<Span, ReadError>) + Send + 'static,
    ) {
        self.0.0.fetch(source, range, deadline, done);
    }

    /// Allocates `count` blocks of the pool to write to, at most [`Store::most_blocks`], and calls
    /// `done` with them as [`Store::fetch`] does. Unused blocks are evicted by the cache policy. If
    /// there are too few, the request waits for its turn in order of deadline.
    pub fn allocate(
        &self,
        count: usize,
        deadline: Monotonic,
        done: impl FnOnce(Result<Vec<Buffer>, ReadError>) + Send + 'static,
    ) {
        let most = self.most_blocks();
        if count as u64 > most {
            return done(Err(ReadError::TooManyBlocks { count, most }));
        }
        let inner = Arc::downgrade(&self.0.0);
        let done = Box::new(move |result: Result<Given, ReadError>| {
            done(match (result, inner.upgrade()) {
                (Ok(Given::Empty(pages)), Some(inner)) => Ok(pages
                    .into_iter()
                    .map(|(number, page)| Buffer::new(number, page, Arc::clone(&inner)))
                    .collect()),
                (Ok(_), _) => Err(ReadError::Closed),
                (Err(error), _) => Err(error),
            });
        });
        self.0.0.ask(Request {
            what: Purpose::Empty(count),
            deadline,
            tag: done,
        });
    }

    /// Like [`Store::fetch`], as a future.
    pub async fn read(
        &self,
        source: &Arc<Source>,
        range: Range<u64>,
        deadline: Monotonic,
    ) -> Result<Span, ReadError> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.fetch(source, range, deadline, move |result| {
            // If nobody waits any more, the span is released.
            let _ = sender.send(result);
        });
        receiver.await.unwrap_or(Err(ReadError::Closed))
    }

    /// Evicts the blocks of a file, and of its view, that has been deleted or replaced, and leaves
    /// all others. Returns how many blocks were freed. Blocks still in use are evicted when their
    /// viewers have finished and the memory is needed.
    pub fn forget(&self, file: FileIdentity) -> usize {
        let mut files = view::of(file, lock(&self.0.0.sources).keys());
        files.extend(names(file));
        let mut freed = 0;
        self.0.0.with_pool(|pool, now, finished| {
            freed = files.iter().map(|file| pool.forget(*file, now)).sum();
            pool.dispatch(now, finished);
        });
        freed
    }

    /// Drops all blocks of a film, in memory and on the tier, so that it is read again. Returns how
    /// many blocks of memory were freed. Blocks in use stay in memory until their viewers have
    /// finished.
    pub fn purge(&self, file: FileIdentity) -> usize {
        if let Some((tier, _)) = &self.0.0.tier {
            names(file).for_each(|name| tier.purge(name));
        }
        self.forget(file)
    }

    /// Replaces the list of kept films: the tier admits their blocks at once and never evicts them.
    pub fn keep(&self, films: &[FileIdentity]) {
        if let Some((tier, _)) = &self.0.0.tier {
            let names: Vec<_> = films.iter().flat_map(|film| names(*film)).collect();
            tier.keep(&names);
        }
    }

    /// Returns the numbers of a film's blocks that are not on the tier. `None`: there is no tier,
    /// the film is on a local disk, or it is not certain to be the same after a restart.
    pub fn lacks(&self, source: &Source) -> Option<Vec<u32>> {
        source.lacks(u64::from(self.block_bytes()))
    }

    /// Brings a block of a film to the tier, from memory or from the film's place, after all reads
    /// for viewers. Returns whether the tier holds it then: not if the tier has no room for it, may
    /// write no more today, or its disk has just failed.
    ///
    /// # Errors
    /// The block cannot be read.
    pub async fn bring(&self, source: &Arc<Source>, block: u32) -> Result<bool, ReadError> {
        let Some(film) = source.on_tier() else {
            return Ok(false);
        };
        if film.holds(block) {
            return Ok(true);
        }
        let block_bytes = u64::from(self.block_bytes());
        let start = u64::from(block) * block_bytes;
        let end = source.len().min(start + block_bytes);
        let deadline = reelway_clock::now() + BROUGHT;
        let span = self.read(source, start..end, deadline).await?;
        let Some(bytes) = span.first_block() else {
            return Ok(false);
        };
        let (sender, is_here) = tokio::sync::oneshot::channel();
        let done = Box::new(move |is_here| {
            // The requester may have stopped waiting.
            let _ = sender.send(is_here);
        });
        film.take(block, bytes, (end - start) as usize, done);
        drop(span);
        Ok(is_here.await.unwrap_or(false))
    }

    /// Returns the store's state and statistics.
    pub fn stats(&self) -> StoreStats {
        let pool = self.0.0.pool();
        let (census, counters) = (pool.census(), pool.counters());
        StoreStats {
            blocks: census.blocks as u64,
            block_bytes: self.0.0.config.block_bytes,
            in_use: census.in_use() as u64,
            cached: census.cached as u64,
            ready: census.ready() as u64,
            waiting: pool.waiting() as u64,
            hits: counters.hits,
            misses: counters.misses,
            bytes_read: counters.bytes_read,
            errors: counters.errors,
            viewers: self.0.0.watching.load(Ordering::Relaxed) as u64,
        }
    }

    /// Returns the statistics of each lane, local or remote, in the order of their first use.
    pub fn lanes(&self) -> Vec<LaneStats> {
        let lanes = lock(&self.0.0.lanes).clone();
        let pool = self.0.0.pool();
        let stats = |Lane(lane): &Lane| {
            let (under_way, queued) = pool.queue(lane.number);
            lane.stats(under_way, queued)
        };
        lanes.iter().map(stats).collect()
    }

    /// Returns the statistics of the tier below memory, if there is one.
    pub fn tier(&self) -> Option<TierStats> {
        self.0.0.tier.as_ref().map(|(tier, _)| tier.stats())
    }

    /// Returns the kind of pages that make up the pool's memory.
    pub fn paging(&self) -> Paging {
        self.0.0.paging
    }
}

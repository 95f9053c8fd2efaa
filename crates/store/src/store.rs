//! The store: what others see.

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

/// In how much time a block must come that is brought to the tier: later than those of all who watch.
const BROUGHT: Duration = Duration::from_secs(60);

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
    /// Blocks that have their memory, used or not: more are made ready ahead of use.
    pub ready: u64,
    /// Requests that wait for blocks to become free.
    pub waiting: u64,
    /// Blocks asked for that were there or on their way.
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

/// By what blocks of a film are kept: those that stay when it grows by the first, if there are such.
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
                // A disk that others have filled, or that is worn out, is no reason not to serve.
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

    /// A handle of what handles share; closed with the last clone of it.
    pub(crate) fn of(inner: Arc<Inner>) -> Store {
        Store(Arc::new(Owner(inner)))
    }

    /// What its handles share.
    #[cfg(test)]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0.0
    }

    /// A queue for sources that lie here, as a disk is.
    #[cfg(test)]
    pub(crate) fn lane_here(&self, name: &str, depth: usize) -> Lane {
        self.0.0.lane(name, depth, LaneKind::Disk)
    }

    /// A queue for sources that lie afar, for at most `depth` reads at once (at least 1); `name` is
    /// what the figures call it. Reads from afar, which may last, get half of the pool among all such
    /// queues.
    pub fn lane(&self, name: &str, depth: usize) -> Lane {
        self.0.0.lane(name, depth, LaneKind::Afar)
    }

    /// Has paths that begin with `prefix` opened by `opener`, and no longer as local files.
    pub fn mount(&self, prefix: impl Into<PathBuf>, opener: Arc<dyn Opener>) {
        lock(&self.0.0.openers).push((prefix.into(), opener));
    }

    /// Opens a film file, or gives the one that is open. Compare [`Source::identity`] with what the
    /// film's index was made from.
    pub fn open(&self, path: &Path) -> io::Result<Arc<Source>> {
        let source = self.0.0.open(path, None)?;
        Ok(self.share(source))
    }

    /// Opens a film file that may have grown since it was indexed; `known` is what it was then, and its mark. Where it is that
    /// file still, the source is as long as the file was, and has its identity; else it is as by [`Store::open`].
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_grown(&self, path: &Path, known: (FileIdentity, Mark)) -> io::Result<Arc<Source>> {
        let source = self.0.0.open(path, Some(known))?;
        Ok(self.share(source))
    }

    /// Opens a view of an open film file, or gives the one that is open.
    ///
    /// # Errors
    /// The threads that make views cannot be started.
    pub fn open_view(&self, file: &Arc<Source>, view: Arc<dyn View>) -> io::Result<Arc<Source>> {
        Ok(self.share(self.0.0.open_view(file, view)?))
    }

    /// The source that is open already of the same bytes, or this one.
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

    /// Most blocks of one request: a quarter of the pool, so that four can always be served at once.
    pub fn most_blocks(&self) -> u64 {
        self.0.0.most_blocks()
    }

    /// Most bytes of one request: [`Store::most_blocks`] less one, since a range of this length may touch
    /// one block more than it fills.
    pub fn most_bytes(&self) -> u64 {
        self.0.0.most_bytes()
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        self.0.0.config.block_bytes
    }

    /// Tells the cache policy how long a film plays.
    pub fn film(&self, source: &Source, duration: Duration) {
        let blocks = source.len().div_ceil(self.0.0.block_bytes());
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        self.0
            .0
            .tell(News::Film(source.number(), Film { blocks, duration }));
    }

    /// A viewer that the cache policy is to know of, who is nowhere yet.
    pub fn watcher(&self) -> Watcher {
        let viewer = self.0.0.viewers.fetch_add(1, Ordering::Relaxed);
        Watcher::new(&self.0.0, viewer)
    }

    /// Has `observer` told of every block that is asked for from now on. Only the first one given is.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        if self.0.0.observer.set(observer).is_ok() {
            self.0.0.pool().observe();
        }
    }

    /// Of each of these files its number and the blocks of it that are in memory, in order; `None` where
    /// nobody has opened it lately. Goes through the pool once, however many they are.
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

    /// The numbers of a film's blocks that are in memory, in order.
    pub fn blocks_of(&self, source: &Source) -> Vec<u32> {
        let pool = self.0.0.pool();
        let numbers = source.numbers();
        let mut blocks: Vec<u32> = numbers.flat_map(|number| pool.blocks_of(number)).collect();
        drop(pool);
        blocks.sort_unstable();
        blocks
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
        self.0.0.fetch(source, range, deadline, done);
    }

    /// Gets `count` blocks of the pool to write into, at most [`Store::most_blocks`], and calls `done`
    /// with them as [`Store::fetch`] does: blocks that nobody uses make room, by the cache policy, and
    /// where there are too few the request waits for its turn by its deadline.
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

    /// Forgets the blocks of a file, and of its view, that is no more (deleted, or replaced by another) and leaves all
    /// others; how many blocks became free. Those that somebody still plays from go when the viewer is
    /// done and their memory is needed.
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

    /// Drops what is held of a film, in memory and on the tier, so that it is read anew; how many blocks of memory became free.
    /// What viewers play from at the moment stays in memory until they are done.
    pub fn purge(&self, file: FileIdentity) -> usize {
        if let Some((tier, _)) = &self.0.0.tier {
            names(file).for_each(|name| tier.purge(name));
        }
        self.forget(file)
    }

    /// From now on the tier lets blocks of these films in at once, and lets none of them go for others; no other film is kept.
    pub fn keep(&self, films: &[FileIdentity]) {
        if let Some((tier, _)) = &self.0.0.tier {
            let names: Vec<_> = films.iter().flat_map(|film| names(*film)).collect();
            tier.keep(&names);
        }
    }

    /// The numbers of a film's blocks that are not on the tier; `None` where there is no tier, or the film lies on a disk of this
    /// machine, or is not sure to be the same after a restart.
    pub fn lacks(&self, source: &Source) -> Option<Vec<u32>> {
        source.lacks(u64::from(self.block_bytes()))
    }

    /// Brings a block of a film to the tier: from memory, or from where the film lies, after what viewers need. Whether it is
    /// there then: not if the tier has no room for it, may write no more today, or its disk failed a moment ago.
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
            // Nobody waits any more.
            let _ = sender.send(is_here);
        });
        film.take(block, bytes, (end - start) as usize, done);
        drop(span);
        Ok(is_here.await.unwrap_or(false))
    }

    /// What it holds and has done.
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

    /// What each lane has done: disks and places afar, in the order in which they were first used.
    pub fn lanes(&self) -> Vec<LaneStats> {
        let lanes = lock(&self.0.0.lanes).clone();
        let pool = self.0.0.pool();
        let stats = |Lane(lane): &Lane| {
            let (under_way, queued) = pool.queue(lane.number);
            lane.stats(under_way, queued)
        };
        lanes.iter().map(stats).collect()
    }

    /// What the tier below memory holds and has done, where there is one.
    pub fn tier(&self) -> Option<TierStats> {
        self.0.0.tier.as_ref().map(|(tier, _)| tier.stats())
    }

    /// What the pool's memory is made of.
    pub fn paging(&self) -> Paging {
        self.0.0.paging
    }
}

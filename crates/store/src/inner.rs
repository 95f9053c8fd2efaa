//! The state that a store's handles share: the pool under its lock, and the work done without the
//! lock.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use reelway_cache::BlockId;
use reelway_clock::Monotonic;
use reelway_pool::{News, Pin};
use reelway_supervise as supervise;
use reelway_sys::region::{Page, Paging};
use reelway_sys::{FileIdentity, Mark};

use crate::block_source::{BlockSource, Opener};
use crate::config::{ReadBy, StoreConfig};
use crate::disk::{self, Disk, OnDisk};
use crate::error::ReadError;
use crate::fill::Fill;
use crate::landing::{self, Ground};
use crate::lane::{Lane, LaneKind, LaneState};
use crate::live::{self, Finished, Pool, Read, Request};
use crate::local::LocalFile;
use crate::observer::Observer;
use crate::source::{Closed, Numbers, Source};
use crate::span::Owner;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, fence, lock};
use crate::tier::Tier;
use crate::view::{Files, Makers, View, Viewed};

/// The state that the handles share.
pub(crate) struct Inner {
    pub config: StoreConfig,
    pub pool: Mutex<Pool>,
    /// Number of requests waiting for room. While it is 0, releasing a block takes no lock.
    pub starved: AtomicUsize,
    pub sources: Mutex<HashMap<FileIdentity, Weak<Source>>>,
    pub lanes: Mutex<Vec<Lane>>,
    pub disks: Mutex<HashMap<String, (Arc<Disk>, Lane)>>,
    pub openers: Mutex<Vec<(PathBuf, Arc<dyn Opener>)>>,
    pub closed: Closed,
    /// News that the policy has not received yet.
    pub news: Mutex<Vec<News>>,
    /// Number of viewers with a position.
    pub watching: AtomicUsize,
    /// Number of the next viewer.
    pub viewers: AtomicU64,
    pub observer: OnceLock<Arc<dyn Observer>>,
    pub paging: Paging,
    pub tier: Option<(Arc<Tier>, Lane)>,
    /// Started with the first view.
    makers: Mutex<Option<Makers>>,
}

/// Maximum number of news that wait for the next change of the pool.
const MOST_NEWS: usize = 1024;

/// Work to be done without the lock.
#[derive(Default)]
struct Work {
    finished: Vec<Finished>,
    starts: Vec<Read>,
    accesses: Vec<(BlockId, bool)>,
    now: Duration,
}

enum Step {
    Call(Finished),
    Start(Arc<Source>, Fill),
}

crate::sync::thread_local! {
    /// Steps that arise while this thread is carrying one out. They are queued instead of being
    /// called recursively, so that a source that fails at once, or a callback that makes another
    /// request, takes no stack.
    static STEPS: RefCell<Option<VecDeque<Step>>> = const { RefCell::new(None) };
}

/// Accesses this thread's steps.
fn steps<T>(change: impl FnOnce(&mut Option<VecDeque<Step>>) -> T) -> T {
    STEPS.with(|steps| change(&mut steps.borrow_mut()))
}

/// Clears the list, however its owner ends.
struct Stepping;

impl Drop for Stepping {
    fn drop(&mut self) {
        let rest = steps(Option::take);
        drop(rest);
    }
}

impl Inner {
    /// Creates the state of a store with this pool.
    pub fn new(
        config: StoreConfig,
        pool: Pool,
        lanes: Vec<Lane>,
        tier: Option<(Arc<Tier>, Lane)>,
        paging: Paging,
    ) -> Arc<Inner> {
        Arc::new(Inner {
            config,
            pool: Mutex::new(pool),
            starved: AtomicUsize::new(0),
            sources: Mutex::default(),
            lanes: Mutex::new(lanes),
            disks: Mutex::default(),
            openers: Mutex::default(),
            closed: Closed::default(),
            news: Mutex::default(),
            watching: AtomicUsize::new(0),
            viewers: AtomicU64::new(1),
            observer: OnceLock::new(),
            paging,
            tier,
            makers: Mutex::default(),
        })
    }

    pub fn block_bytes(&self) -> u64 {
        u64::from(self.config.block_bytes)
    }

    /// Locks the pool. The ownership of blocks cannot be reconstructed: after a panic under this
    /// lock the process ends, since viewers could be sent bytes of other films.
    pub fn pool(&self) -> MutexGuard<'_, Pool> {
        supervise::essential(self.pool.lock(), "the block pool")
    }

    /// Changes the pool, then carries out the effects without the lock.
    pub fn with_pool(
        self: &Arc<Self>,
        change: impl FnOnce(&mut Pool, Monotonic, &mut Vec<Finished>),
    ) {
        let mut work = Work::default();
        {
            let mut pool = self.pool();
            supervise::inject("pool");
            // Read under the lock, so that the pool's time never goes back.
            let now = reelway_clock::now();
            for film in std::mem::take(&mut *lock(&self.closed)) {
                pool.close_film(film);
            }
            pool.exchange_news(&mut lock(&self.news));
            pool.pass_on_news(now);
            change(&mut pool, now, &mut work.finished);
            work.accesses = pool.take_accesses();
            work.now = pool.policy_time(now);
            self.starved.store(pool.waiting(), Ordering::SeqCst);
            pool.starts(&mut work.starts);
        }
        self.perform(work);
    }

    fn perform(self: &Arc<Self>, work: Work) {
        let Work {
            finished,
            starts,
            accesses,
            now,
        } = work;
        if let Some(observer) = self.observer.get() {
            // An observer that panics misses some accesses.
            let _ = supervise::guard("store observer", || {
                for (block, hit) in accesses {
                    observer.access(block, hit, now);
                }
            });
        }
        if finished.is_empty() && starts.is_empty() {
            return;
        }
        let start = |read: Read| {
            let source = Arc::clone(&read.source);
            Step::Start(
                source,
                landing::fill(read, self.block_bytes(), Arc::clone(self) as _),
            )
        };
        // The reads first: the disks work while the requesters are called.
        let next = starts
            .into_iter()
            .map(start)
            .chain(finished.into_iter().map(Step::Call));
        let nested = steps(|list| match list {
            Some(list) => {
                list.extend(next);
                true
            }
            None => {
                *list = Some(next.collect());
                false
            }
        });
        if nested {
            return;
        }
        let _stepping = Stepping;
        while let Some(step) = steps(|list| list.as_mut().and_then(VecDeque::pop_front)) {
            // A panic in one step does not affect the others, which follow. The fill that a
            // panicking read drops notifies the waiting requests.
            let _ = supervise::guard("store", || match step {
                Step::Call(finished) => live::answer(finished),
                Step::Start(source, fill) => source.read(fill),
            });
        }
    }

    pub fn ask(self: &Arc<Self>, request: Request) {
        self.with_pool(|pool, now, finished| {
            // Stored before looking for free blocks, so that a release from now on is noticed (see
            // `released` for the other half).
            self.starved.store(pool.waiting() + 1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            pool.ask(request, now, finished);
        });
    }

    /// Takes blocks to be made ready. Returns none if all are ready.
    pub fn take_unready(&self) -> Vec<(u32, Page)> {
        self.pool().take_unready()
    }

    /// Takes back blocks that have been made ready. Returns whether enough are ready to serve
    /// viewers.
    pub fn are_ready(self: &Arc<Self>, blocks: Vec<(u32, Page)>) -> bool {
        let mut all = false;
        self.with_pool(|pool, now, finished| all = pool.are_ready(blocks, now, finished));
        all
    }

    /// Opens a film once more and returns its numbers. `recording`: the film may grow, and these
    /// blocks and this identity then stay the same.
    pub fn opened(
        &self,
        identity: FileIdentity,
        recording: Option<(FileIdentity, Range<u32>)>,
    ) -> Numbers {
        let mut pool = self.pool();
        let now = reelway_clock::now();
        let (film, others) = match recording {
            Some((lasting, same)) => (
                pool.open(lasting, now),
                Some((pool.open(identity, now), same)),
            ),
            None => (pool.open(identity, now), None),
        };
        Numbers {
            film,
            others,
            closed: self.closed.clone(),
        }
    }

    /// Returns what remains of a film on another server when it grows: its identity as a recording,
    /// and the blocks that lie entirely between the header, which the writing program may rewrite
    /// when it finishes, and the film's end.
    fn lasting(
        &self,
        identity: &FileIdentity,
        mark: Option<Mark>,
    ) -> Option<(FileIdentity, Range<u32>)> {
        let (lasting, mark) = identity.of_recording().zip(mark)?;
        let number = |block: u64| u32::try_from(block).unwrap_or(u32::MAX);
        let first = mark.from.div_ceil(self.block_bytes());
        let end = identity.size / self.block_bytes();
        Some((lasting, number(first)..number(end)))
    }

    /// Passes news to the policy before its next decision.
    pub fn add_news(self: &Arc<Self>, news: News) {
        let waiting = {
            let mut list = lock(&self.news);
            list.push(news);
            list.len()
        };
        // Usually, blocks are requested much more often than news arrive. This bounds the list in
        // other cases.
        if waiting >= MOST_NEWS {
            self.with_pool(|_, _, _| ());
        }
    }

    /// Takes back an empty block.
    pub fn give_back(self: &Arc<Self>, number: u32, page: Page) {
        self.with_pool(|pool, now, finished| pool.give_back(number, page, now, finished));
    }

    pub fn lane(&self, name: &str, depth: usize, kind: LaneKind) -> Lane {
        let mut lanes = lock(&self.lanes);
        // A block of a view waits for blocks of the film while it holds its own memory. Like remote
        // reads, views get only a part of the pool, so that there is always room for what they wait
        // for.
        let may_last = matches!(kind, LaneKind::Afar | LaneKind::View);
        let number = self.pool().add_queue(depth, may_last);
        let lane = Lane(Arc::new(LaneState::new(name, kind, number, depth)));
        lanes.push(lane.clone());
        lane
    }

    /// Returns the disk of a file system with this device number, and its lane. Starts the disk at
    /// its first film. `by`: how the film may be read.
    fn disk(&self, device: u64, by: ReadBy) -> io::Result<(Arc<Disk>, Lane)> {
        let name = disk::name_of(device);
        let mut disks = lock(&self.disks);
        if let Some((disk, lane)) = disks.get(&name) {
            return Ok((Arc::clone(disk), lane.clone()));
        }
        let by = match self.config.read_by {
            ReadBy::Ring => by,
            ReadBy::Threads => ReadBy::Threads,
        };
        let disk = Disk::start(&name, self.config.depth, by)?;
        let lane = self.lane(&name, self.config.depth, LaneKind::Disk);
        disks.insert(name, (Arc::clone(&disk), lane.clone()));
        Ok((disk, lane))
    }

    /// Opens a view of an open file.
    pub fn open_view(
        self: &Arc<Self>,
        file: &Arc<Source>,
        view: Arc<dyn View>,
    ) -> io::Result<Source> {
        let mut makers = lock(&self.makers);
        let makers = match &mut *makers {
            Some(makers) => makers,
            none => none.insert(Makers::start()?),
        };
        let lane = makers.lane(file.lane(), |name, depth| {
            self.lane(name, depth, LaneKind::View)
        });
        let files = Arc::downgrade(self) as Weak<dyn Files>;
        let view = Viewed::new(view, Arc::clone(file), makers, files);
        let numbers = self.opened(view.identity(), None);
        Ok(Source::new(Arc::new(view), lane, numbers, None))
    }

    pub fn open(
        self: &Arc<Self>,
        path: &Path,
        known: Option<(FileIdentity, Mark)>,
    ) -> io::Result<Source> {
        let opener = lock(&self.openers)
            .iter()
            .filter(|(prefix, _)| path.starts_with(prefix))
            .max_by_key(|(prefix, _)| prefix.as_os_str().len())
            .map(|(_, opener)| Arc::clone(opener));
        if let Some(opener) = opener {
            let (before, mark) = known.unzip();
            let (source, lane) = opener.open(path, before)?;
            let identity = source.identity();
            let recording = self.lasting(&identity, mark);
            let tier = self.tier.as_ref().filter(|_| source.is_lasting());
            let tier = tier.map(|(tier, lane)| {
                let film = tier.film(identity, recording.clone());
                (film, lane.clone())
            });
            let numbers = self.opened(identity, recording);
            return Ok(Source::new(source, lane, numbers, tier));
        }
        let (file, refused) = LocalFile::open(path, known)?;
        let (disk, lane) = self.disk(file.identity.device, file.by)?;
        let numbers = self.opened(file.identity, None);
        let file = Arc::new(OnDisk::new(file, refused, disk));
        Ok(Source::new(file, lane, numbers, None))
    }
}

impl Ground for Inner {
    fn landed(
        self: Arc<Self>,
        read: Read,
        result: Result<usize, ReadError>,
        keep: bool,
    ) -> Option<Pin<Page>> {
        let mut kept = None;
        self.with_pool(|pool, now, finished| {
            kept = pool.read_done(read, result, keep, now, finished);
        });
        kept
    }
}

impl Owner for Inner {
    /// A request that is waiting for room is served at once, on this thread, whatever locks it
    /// holds: the pool is short of room, and a dedicated thread would have to be woken before the
    /// next read begins. So spans must be dropped without holding locks that callbacks or a
    /// source's `read` also take.
    fn released(self: Arc<Self>) {
        fence(Ordering::SeqCst);
        if self.starved.load(Ordering::SeqCst) > 0 {
            self.with_pool(Pool::dispatch);
        }
    }
}

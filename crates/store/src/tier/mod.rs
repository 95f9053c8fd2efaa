//! The tier below memory: blocks of films that lie afar, kept on a local disk beyond a restart.
//!
//! What the pool lacks of such a film is looked for here before its origin is asked. What had to be fetched from afar
//! several times is written here, out of the pool's own blocks: nothing is allocated beside it. A block's checksum is
//! bound to its film's version and its number, so that whatever a crash, a worn disk or a stranger leaves in the files
//! is noticed, and read from the origin again.
//!
//! Which block lies where, which makes room and which is let in is kept by `reelway_pool::tier`.
//!
//! | file | what lives there |
//! |---|---|
//! | `files.rs` | the two files |
//! | `work.rs` | the threads that read and write |

mod config;
mod files;
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use reelway_cache::{BlockId, FilmId};
use reelway_clock::Monotonic;
use reelway_pool::tier::{Books, Budget, Look, TierStats};
use reelway_supervise::{self as supervise, lock};
use reelway_sys::FileIdentity;

use crate::block_source::BlockSource;
use crate::error::StoreError;
use crate::fill::Fill;
use crate::span::Pin;
pub use config::TierConfig;
use files::{Files, name};
use work::{Done, Job, Put, Queue};

/// Reads under way at once.
pub(crate) const READERS: usize = 4;

/// The tier.
pub(crate) struct Tier {
    books: Mutex<Books<FileIdentity>>,
    files: Files,
    /// Changed in one step.
    queue: Mutex<Queue>,
    work: Condvar,
    /// A panic may have torn the books: the tier is used no more until the server starts again.
    off: AtomicBool,
    born: Monotonic,
    /// Most blocks of the pool that wait to be written.
    most_writes: usize,
}

/// Hours since 1970.
fn hour() -> u64 {
    reelway_clock::real().nanos() / 3_600_000_000_000
}

impl Tier {
    /// Opens the files, or makes them, and starts the threads. `pool_blocks`: blocks of the pool above.
    pub fn open(
        config: &TierConfig,
        block_bytes: u32,
        pool_blocks: u64,
    ) -> Result<Arc<Tier>, StoreError> {
        let failed = |error| StoreError::Tier {
            dir: config.dir.clone(),
            error,
        };
        let (files, found) = Files::open(&config.dir, config.bytes, block_bytes).map_err(failed)?;
        let slots = files.slots();
        let books = Books::new(
            slots,
            config.policy.build(u64::from(slots), slots as usize),
            config.admit,
            Budget::new(config.daily, found.hours),
            found.records,
        );
        let tier = Arc::new(Tier {
            books: Mutex::new(books),
            files,
            queue: Mutex::default(),
            work: Condvar::new(),
            off: AtomicBool::new(false),
            born: reelway_clock::now(),
            most_writes: (pool_blocks / 16).clamp(1, 8) as usize,
        });
        tier.start().map_err(failed)?;
        Ok(tier)
    }

    /// The books; look at [`Tier::is_off`] afterwards, where they are to be relied on.
    fn books(&self) -> MutexGuard<'_, Books<FileIdentity>> {
        self.books.lock().unwrap_or_else(|poisoned| {
            if !self.off.swap(true, Ordering::Relaxed) {
                let words = "switched off by a panic; films from elsewhere are fetched without it until the server starts again";
                tracing::error!("tier: {words}");
                supervise::raise("tier", words);
            }
            poisoned.into_inner()
        })
    }

    /// Whether it is switched off.
    fn is_off(&self) -> bool {
        self.off.load(Ordering::Relaxed) || self.books.is_poisoned()
    }

    /// The policy's time.
    fn now(&self) -> Duration {
        reelway_clock::now().since(self.born)
    }

    /// From now on these films are kept, and no others.
    pub fn keep(&self, films: &[FileIdentity]) {
        let mut books = self.books();
        if !self.is_off() {
            books.keep(films.iter().copied());
        }
    }

    /// What it holds and has done.
    pub fn stats(&self) -> TierStats {
        self.books().stats()
    }

    /// Ends the threads; what waits is given up.
    pub fn close(&self) {
        let waiting = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            (
                std::mem::take(&mut queue.reads),
                std::mem::take(&mut queue.writes),
            )
        };
        self.work.notify_all();
        drop(waiting);
        self.files.unlock();
    }
}

/// A film afar as the tier knows it.
pub(crate) struct TierFilm {
    tier: Arc<Tier>,
    identity: FileIdentity,
    number: FilmId,
}

impl std::fmt::Debug for TierFilm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TierFilm({})", self.number)
    }
}

impl Drop for TierFilm {
    fn drop(&mut self) {
        let mut books = self.tier.books();
        if !self.tier.is_off() {
            books.close(self.number);
        }
    }
}

impl TierFilm {
    /// A film that is opened.
    pub fn new(tier: &Arc<Tier>, identity: FileIdentity) -> Arc<TierFilm> {
        let number = tier.books().open(identity, tier.now());
        Arc::new(TierFilm {
            tier: Arc::clone(tier),
            identity,
            number,
        })
    }

    fn id(&self, block: u32) -> BlockId {
        BlockId {
            film: self.number,
            block,
        }
    }

    /// Whether the tier holds a block.
    pub fn holds(&self, block: u32) -> bool {
        let books = self.tier.books();
        !self.tier.is_off() && books.holds(self.id(block))
    }

    /// The numbers of those of the film's first `blocks` blocks that are not here.
    pub fn lacks(&self, blocks: u32) -> Vec<u32> {
        let books = self.tier.books();
        if self.tier.is_off() {
            return Vec::new();
        }
        let lacks = |block: &u32| !books.holds(self.id(*block));
        (0..blocks).filter(lacks).collect()
    }

    /// Reads a block from here if it is here, else from where the film lies.
    pub fn read(self: &Arc<Self>, from: Arc<dyn BlockSource>, mut fill: Fill) {
        let id = self.id(fill.block());
        let name = name(self.identity, id.block);
        let mut books = self.tier.books();
        if self.tier.is_off() {
            drop(books);
            return from.read(fill);
        }
        supervise::inject("tier.books");
        let look = books.look(id, name, self.tier.now());
        drop(books);
        match look {
            Look::Held(held) => self.tier.push(Job {
                film: Arc::clone(self),
                from,
                fill,
                held,
            }),
            Look::Missed { admit } => {
                if admit {
                    self.keep(&mut fill);
                }
                from.read(fill);
            }
        }
    }

    /// Has a block written that is in memory, the first `len` of `bytes`, if there is room for it; `done` learns whether it is
    /// here then, or is dropped where nothing is written at the moment.
    pub fn take(self: &Arc<Self>, block: u32, bytes: Pin, len: usize, done: Done) {
        self.tier.put(Put {
            film: Arc::clone(self),
            id: self.id(block),
            bytes,
            len,
            done: Some(done),
        });
    }

    /// Has a block let in when it has come.
    fn keep(self: &Arc<Self>, fill: &mut Fill) {
        let (film, block) = (Arc::clone(self), fill.block());
        fill.keep(Box::new(move |bytes, len| film.offer(block, bytes, len)));
    }

    /// A block that is to be let in has come: its first `len` bytes.
    fn offer(self: Arc<Self>, block: u32, bytes: Pin, len: usize) {
        let tier = Arc::clone(&self.tier);
        if tier.is_off() {
            return;
        }
        let id = self.id(block);
        tier.put(Put {
            film: self,
            id,
            bytes,
            len,
            done: None,
        });
    }
}

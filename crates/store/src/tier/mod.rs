//! The tier below memory: blocks of remote films, kept on a local disk across restarts.
//!
//! Blocks of such a film that are not in the pool are looked for here before the origin is asked.
//! Blocks that had to be fetched several times are written here directly from the pool's memory:
//! nothing else is allocated. A block's checksum covers its film's version and its number, so
//! damage by a crash, a worn disk or another program is noticed, and the block is read from the
//! origin again.
//!
//! `reelway_pool::tier` decides which block is in which slot, and which are evicted and admitted.
//!
//! | file | content |
//! |---|---|
//! | `shelf.rs` | the bookkeeping under its lock |
//! | `files.rs` | the two files |
//! | `work.rs` | the threads that read and write |

mod config;
mod files;
mod shelf;
mod work;

use std::ops::Range;
use std::sync::Arc;

use reelway_pool::tier::{Books, Budget, Look, TierStats};
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;

use crate::block_source::BlockSource;
use crate::error::StoreError;
use crate::fill::Fill;
use crate::span::Pin;
pub use config::TierConfig;
use files::{Files, name};
use shelf::{Opened, Shelf};
pub(crate) use work::READERS;
use work::{Done, Job, Put, Work};

/// The tier.
pub(crate) struct Tier {
    shelf: Arc<Shelf>,
    work: Arc<Work>,
}

impl Tier {
    /// Opens the files or creates them, and starts the threads. `pool_blocks`: blocks of the pool
    /// above.
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
        let shelf = Arc::new(Shelf::new(books, files));
        let most_writes = (pool_blocks / 16).clamp(1, 8) as usize;
        let work = Work::start(&shelf, most_writes).map_err(failed)?;
        Ok(Arc::new(Tier { shelf, work }))
    }

    /// Opens a film. `recording`: it may grow, and these blocks and this identity then stay the
    /// same.
    pub fn film(
        &self,
        identity: FileIdentity,
        recording: Option<(FileIdentity, Range<u32>)>,
    ) -> Arc<TierFilm> {
        let opened = Opened::new(&self.shelf, identity);
        Arc::new(TierFilm {
            lasting: recording.map(|(lasting, same)| (Opened::new(&self.shelf, lasting), same)),
            opened,
            work: Arc::clone(&self.work),
        })
    }

    /// Replaces the list of kept films.
    pub fn keep(&self, films: &[FileIdentity]) {
        if let Some(mut books) = self.shelf.books() {
            books.keep(films.iter().copied());
        }
    }

    /// Drops the blocks held under this identity, and the pending writes.
    pub fn purge(&self, film: FileIdentity) {
        self.work.give_up(film);
        let Some(mut books) = self.shelf.books() else {
            return;
        };
        let slots = books.purge(film, self.shelf.now());
        drop(books);
        self.shelf.empty(&slots);
    }

    /// Returns the tier's statistics.
    pub fn stats(&self) -> TierStats {
        self.shelf.torn_or_not().stats()
    }

    /// Ends the threads and drops pending work.
    pub fn close(&self) {
        self.work.close();
        self.shelf.files.unlock();
    }
}

/// A remote film's handle in the tier.
pub(crate) struct TierFilm {
    opened: Arc<Opened>,
    /// The film as a recording, and the blocks that stay the same when it grows.
    lasting: Option<(Arc<Opened>, Range<u32>)>,
    work: Arc<Work>,
}

impl std::fmt::Debug for TierFilm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TierFilm({})", self.opened.number)
    }
}

impl TierFilm {
    /// Returns the film under whose identity a block is kept.
    fn of(&self, block: u32) -> &Arc<Opened> {
        match &self.lasting {
            Some((lasting, same)) if same.contains(&block) => lasting,
            _ => &self.opened,
        }
    }

    /// Returns whether the tier holds a block.
    pub fn holds(&self, block: u32) -> bool {
        self.of(block).holds(block)
    }

    /// Returns the numbers of those of the film's first `blocks` blocks that the tier lacks.
    pub fn lacks(&self, blocks: u32) -> Vec<u32> {
        let Some(books) = self.opened.shelf.books() else {
            return Vec::new();
        };
        let lacks = |block: &u32| !books.holds(self.of(*block).id(*block));
        (0..blocks).filter(lacks).collect()
    }

    /// Reads a block from the tier if it is there, otherwise from the film's place.
    pub fn read(&self, from: Arc<dyn BlockSource>, mut fill: Fill) {
        let opened = self.of(fill.block());
        let shelf = &opened.shelf;
        let id = opened.id(fill.block());
        let name = name(opened.identity, id.block);
        let look = shelf.books().map(|mut books| {
            supervise::inject("tier.books");
            books.look(id, name, shelf.now())
        });
        match look {
            Some(Look::Held(held)) => self.work.push(Job {
                film: Arc::clone(opened),
                from,
                fill,
                held,
            }),
            Some(Look::Missed { admit: true }) => {
                self.work.let_in(opened, &mut fill);
                from.read(fill);
            }
            Some(Look::Missed { admit: false }) | None => from.read(fill),
        }
    }

    /// Has a cached block written, the first `len` of `bytes`, if there is room for it. `done` is
    /// called with whether the tier holds it then, or is dropped if writing is suspended.
    pub fn take(&self, block: u32, bytes: Pin, len: usize, done: Done) {
        self.work.put(Put {
            film: Arc::clone(self.of(block)),
            block,
            bytes,
            len,
            done: Some(done),
        });
    }
}

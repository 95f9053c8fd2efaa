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
//! | `shelf.rs` | what is held, under its lock |
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
        let shelf = Arc::new(Shelf::new(books, files));
        let most_writes = (pool_blocks / 16).clamp(1, 8) as usize;
        let work = Work::start(&shelf, most_writes).map_err(failed)?;
        Ok(Arc::new(Tier { shelf, work }))
    }

    /// A film that is opened. `recording`: it may grow, and keeps these blocks and this identity then.
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

    /// From now on these films are kept, and no others.
    pub fn keep(&self, films: &[FileIdentity]) {
        if let Some(mut books) = self.shelf.books() {
            books.keep(films.iter().copied());
        }
    }

    /// Drops what is held by the identity of a film, and what waits to be written.
    pub fn purge(&self, film: FileIdentity) {
        self.work.give_up(film);
        let Some(mut books) = self.shelf.books() else {
            return;
        };
        let slots = books.purge(film, self.shelf.now());
        drop(books);
        self.shelf.empty(&slots);
    }

    /// What it holds and has done.
    pub fn stats(&self) -> TierStats {
        self.shelf.torn_or_not().stats()
    }

    /// Ends the threads; what waits is given up.
    pub fn close(&self) {
        self.work.close();
        self.shelf.files.unlock();
    }
}

/// A film afar as the tier knows it.
pub(crate) struct TierFilm {
    opened: Arc<Opened>,
    /// The film as a recording, and its blocks that stay when it grows.
    lasting: Option<(Arc<Opened>, Range<u32>)>,
    work: Arc<Work>,
}

impl std::fmt::Debug for TierFilm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TierFilm({})", self.opened.number)
    }
}

impl TierFilm {
    /// The film by whose identity a block is kept.
    fn of(&self, block: u32) -> &Arc<Opened> {
        match &self.lasting {
            Some((lasting, same)) if same.contains(&block) => lasting,
            _ => &self.opened,
        }
    }

    /// Whether the tier holds a block.
    pub fn holds(&self, block: u32) -> bool {
        self.of(block).holds(block)
    }

    /// The numbers of those of the film's first `blocks` blocks that are not here.
    pub fn lacks(&self, blocks: u32) -> Vec<u32> {
        let Some(books) = self.opened.shelf.books() else {
            return Vec::new();
        };
        let lacks = |block: &u32| !books.holds(self.of(*block).id(*block));
        (0..blocks).filter(lacks).collect()
    }

    /// Reads a block from here if it is here, else from where the film lies.
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

    /// Has a block written that is in memory, the first `len` of `bytes`, if there is room for it; `done` learns whether it is
    /// here then, or is dropped where nothing is written at the moment.
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

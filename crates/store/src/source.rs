//! Where film bytes come from.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use reelway_cache::FilmId;
use reelway_sys::FileIdentity;

use crate::fill::Fill;
use crate::inner::Inner;
use crate::lane::Lane;
use crate::tier::TierFilm;

/// Where the bytes of one film come from: a local file, an object at an HTTP origin.
pub trait BlockSource: Send + Sync + std::fmt::Debug + 'static {
    /// How messages name it: its path, or its address without credentials.
    fn path(&self) -> &Path;

    /// Which bytes they are, and how many: the same identity is the same bytes.
    fn identity(&self) -> FileIdentity;

    /// Whether its identity tells these bytes from all others for good, so that blocks of it may be kept beyond the
    /// end of this process (see [`crate::TierConfig`]).
    fn is_lasting(&self) -> bool {
        false
    }

    /// Reads one block: returns soon, and has [`Fill::finish`] called when it is done, on any thread.
    /// Called in the order of deadlines, with never more under way than the lane's depth, and never for
    /// the same block twice at once.
    fn read(self: Arc<Self>, fill: Fill);
}

/// Opens films that lie below a prefix (see [`crate::Store::mount`]).
pub trait Opener: Send + Sync + 'static {
    /// Opens the film of this path, the prefix included. Called where waiting is allowed; the wait must
    /// be bounded.
    fn open(&self, path: &Path) -> io::Result<(Arc<dyn BlockSource>, Lane)>;
}

/// An opened film, shared by all who play it.
#[derive(Debug)]
pub struct Source {
    from: Arc<dyn BlockSource>,
    lane: Lane,
    identity: FileIdentity,
    changed: AtomicBool,
    /// The film's number in the pool, given back when this is dropped.
    number: FilmId,
    store: Weak<Inner>,
    /// The tier below, for what lies afar, and its lane.
    tier: Option<(Arc<TierFilm>, Lane)>,
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(store) = self.store.upgrade() {
            store.closed(self.number);
        }
    }
}

impl Source {
    pub(crate) fn new(
        from: Arc<dyn BlockSource>,
        lane: Lane,
        store: &Arc<Inner>,
        tier: Option<(Arc<TierFilm>, Lane)>,
    ) -> Source {
        Source {
            tier,
            identity: from.identity(),
            number: store.opened(from.identity()),
            store: Arc::downgrade(store),
            from,
            lane,
            changed: AtomicBool::new(false),
        }
    }

    /// Length in bytes when it was opened.
    pub fn len(&self) -> u64 {
        self.identity.size
    }

    /// Whether it was empty when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which file it is. Compare it with what an index was made from.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        self.from.path()
    }

    /// The queue its reads go through.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// How long before they are needed its bytes should be asked for (see [`Lane::lead`]).
    pub fn lead(&self) -> Duration {
        self.lane.lead()
    }

    /// The queue by which a block is read: the tier's, if it holds the block.
    pub(crate) fn lane_of(&self, block: u32) -> &Lane {
        match &self.tier {
            Some((film, lane)) if film.holds(block) => lane,
            _ => &self.lane,
        }
    }

    /// The one of its two queues that has this number.
    pub(crate) fn lane_by(&self, number: usize) -> &Lane {
        match &self.tier {
            Some((_, lane)) if lane.0.number == number => lane,
            _ => &self.lane,
        }
    }

    /// The film's number as the cache policy knows it, the same as long as this is open.
    pub fn number(&self) -> FilmId {
        self.number
    }

    /// Whether it is known to have changed, without asking where it lies.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, fill: Fill) {
        match &self.tier {
            Some((film, _)) => film.read(Arc::clone(&self.from), fill),
            None => Arc::clone(&self.from).read(fill),
        }
    }
}

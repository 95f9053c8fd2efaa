//! An opened film.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reelway_cache::FilmId;
use reelway_sys::FileIdentity;

use crate::block_source::BlockSource;
use crate::fill::Fill;
use crate::lane::Lane;
use crate::sync::{Mutex, lock};
use crate::tier::TierFilm;

/// Numbers of films that were closed, which may happen under the pool's lock: the pool is told when it is next changed.
pub(crate) type Closed = Arc<Mutex<Vec<FilmId>>>;

/// The film's numbers in the pool, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Of a film that grows, the same when it has grown.
    pub film: FilmId,
    /// Of the blocks that may be others then, and those that are not.
    pub others: Option<(FilmId, Range<u32>)>,
    pub closed: Closed,
}

impl Numbers {
    fn of(&self, block: u32) -> FilmId {
        match &self.others {
            Some((number, same)) if !same.contains(&block) => *number,
            _ => self.film,
        }
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        let others = self.others.as_ref().map(|(number, _)| *number);
        lock(&self.closed).extend([self.film].into_iter().chain(others));
    }
}

/// An opened film, shared by all who play it.
#[derive(Debug)]
pub struct Source {
    from: Arc<dyn BlockSource>,
    lane: Lane,
    identity: FileIdentity,
    changed: AtomicBool,
    numbers: Numbers,
    /// The tier below, for what lies afar, and its lane.
    tier: Option<(Arc<TierFilm>, Lane)>,
}

impl Source {
    pub(crate) fn new(
        from: Arc<dyn BlockSource>,
        lane: Lane,
        numbers: Numbers,
        tier: Option<(Arc<TierFilm>, Lane)>,
    ) -> Source {
        Source {
            tier,
            identity: from.identity(),
            numbers,
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

    /// The numbers of its blocks that the tier does not hold; `None` where it does not go through one.
    pub(crate) fn lacks(&self, block_bytes: u64) -> Option<Vec<u32>> {
        let (film, _) = self.tier.as_ref()?;
        let blocks = self.len().div_ceil(block_bytes);
        Some(film.lacks(u32::try_from(blocks).unwrap_or(u32::MAX)))
    }

    /// The film as the tier knows it.
    pub(crate) fn on_tier(&self) -> Option<&Arc<TierFilm>> {
        self.tier.as_ref().map(|(film, _)| film)
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
        self.numbers.film
    }

    /// All numbers that blocks of it have.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = FilmId> {
        let others = self.numbers.others.as_ref().map(|(number, _)| *number);
        [self.numbers.film].into_iter().chain(others)
    }

    /// The film's number for a block.
    pub(crate) fn number_of(&self, block: u32) -> FilmId {
        self.numbers.of(block)
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

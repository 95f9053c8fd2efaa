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

/// Numbers of closed films. A film may be closed under the pool's lock, so the pool is notified at
/// its next change.
pub(crate) type Closed = Arc<Mutex<Vec<FilmId>>>;

/// The film's numbers in the pool, released on drop.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// For a film that grows, the number that stays the same.
    pub film: FilmId,
    /// The number of the blocks that may change when the film grows, and the range of those that do
    /// not.
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

/// An opened film, shared by all its viewers.
#[derive(Debug)]
pub struct Source {
    from: Arc<dyn BlockSource>,
    lane: Lane,
    identity: FileIdentity,
    changed: AtomicBool,
    numbers: Numbers,
    /// The tier for a remote film, and the tier's lane.
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

    /// Returns the length in bytes when the film was opened.
    pub fn len(&self) -> u64 {
        self.identity.size
    }

    /// Returns whether the film was empty when it was opened.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the film's identity. Compare it with the identity from which an index was made.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Returns the path with which the film was opened.
    pub fn path(&self) -> &Path {
        self.from.path()
    }

    /// Returns the queue of its reads.
    pub fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Returns how long before their deadline its bytes should be requested (see [`Lane::lead`]).
    pub fn lead(&self) -> Duration {
        self.lane.lead()
    }

    /// Returns the numbers of its blocks that the tier lacks. `None`: the film does not use a tier.
    pub(crate) fn lacks(&self, block_bytes: u64) -> Option<Vec<u32>> {
        let (film, _) = self.tier.as_ref()?;
        let blocks = self.len().div_ceil(block_bytes);
        Some(film.lacks(u32::try_from(blocks).unwrap_or(u32::MAX)))
    }

    /// Returns the film's handle in the tier.
    pub(crate) fn on_tier(&self) -> Option<&Arc<TierFilm>> {
        self.tier.as_ref().map(|(film, _)| film)
    }

    /// Returns the queue through which a block is read: the tier's if it holds the block.
    pub(crate) fn lane_of(&self, block: u32) -> &Lane {
        match &self.tier {
            Some((film, lane)) if film.holds(block) => lane,
            _ => &self.lane,
        }
    }

    /// Returns the one of its two queues that has this number.
    pub(crate) fn lane_by(&self, number: usize) -> &Lane {
        match &self.tier {
            Some((_, lane)) if lane.0.number == number => lane,
            _ => &self.lane,
        }
    }

    /// Returns the film's number for the cache policy, which stays the same while the film is open.
    pub fn number(&self) -> FilmId {
        self.numbers.film
    }

    /// Returns all numbers that blocks of the film have.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = FilmId> {
        let others = self.numbers.others.as_ref().map(|(number, _)| *number);
        [self.numbers.film].into_iter().chain(others)
    }

    /// Returns the film's number for a block.
    pub(crate) fn number_of(&self, block: u32) -> FilmId {
        self.numbers.of(block)
    }

    /// Returns whether the film is known to have changed, without checking its place.
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

//! The trait of all policies, and the events that they receive.

use std::time::Duration;

/// A film, or any other object that is cached in blocks. Numbers should be dense: small, and reused
/// when their film is gone.
pub type FilmId = u32;

/// A viewer who plays a film.
pub type ViewerId = u64;

/// A place in the cache's memory, numbered from 0. A slot holds at most one block at a time.
/// Numbers should be dense, as they index arrays.
pub type Slot = u32;

/// A block of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    /// The film.
    pub film: FilmId,
    /// Number of the block within it, from 0.
    pub block: u32,
}

/// A film's properties, known before anybody plays it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Film {
    /// Number of blocks.
    pub blocks: u32,
    /// Duration of the film.
    pub duration: Duration,
}

/// A viewer's position and speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watching {
    /// The film that the viewer plays.
    pub film: FilmId,
    /// The block that the viewer was given last, or will be given first.
    pub block: u32,
    /// 1 is normal play, 0 a pause, 8 fast play; negative speeds rewind.
    pub speed: f32,
}

/// A replacement policy, which tracks the blocks in memory and chooses those that have to make
/// room.
///
/// The time is passed in, as the time since any fixed moment, and never goes back. All weights are
/// in the unit of the capacity with which the policy was made: 1 per block if all blocks have one
/// size, or bytes. The policy never evicts by itself: the owner of the memory asks for victims
/// until there is room, then inserts. A slot is tracked from `insert` until `victim` returns it or
/// `remove` removes it; calls for other slots do nothing.
pub trait Policy: Send {
    /// The block in `slot` has been used again.
    fn hit(&mut self, slot: Slot, now: Duration);

    /// Block `id` has been read into `slot`, which was empty. This counts as its first use.
    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, now: Duration);

    /// Whether victims must go although memory has room for `weight` more, because a section of the
    /// policy is full. The owner of the memory asks before it inserts, and may ask with 0 after a
    /// hit.
    fn crowded(&self, _weight: u32) -> bool {
        false
    }

    /// Chooses the block that makes room for `incoming`, among those that are `evictable` (a block
    /// that is being sent is not), and stops tracking it. `None` if there is no such block.
    fn victim(
        &mut self,
        incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        now: Duration,
    ) -> Option<Slot>;

    /// The block in `slot` is gone for a reason unrelated to the policy, such as a film that was
    /// replaced.
    fn remove(&mut self, slot: Slot, now: Duration);

    /// From now on, the number `film` means another film, or its first one: what was learned of the
    /// one before does not apply. No block or viewer of the one before is left.
    fn new_film(&mut self, _film: FilmId, _now: Duration) {}

    /// Describes `film`. Called before its first viewer, and again when more is known.
    fn film(&mut self, _film: FilmId, _shape: Film, _now: Duration) {}

    /// A viewer begins, reaches another block, seeks, changes speed, or changes to another film.
    /// Called before the `hit` or `insert` of the block that the viewer has reached.
    fn watch(&mut self, _viewer: ViewerId, _watching: Watching, _now: Duration) {}

    /// A viewer has left, at the film's end or before it.
    fn left(&mut self, _viewer: ViewerId, _now: Duration) {}
}

//! The questions that every policy answers, and the events that it gets.

use std::time::Duration;

/// A film, or any other object that is cached in blocks. Numbers should be dense: small, and used again
/// when their film has left.
pub type FilmId = u32;

/// Someone who goes through a film.
pub type ViewerId = u64;

/// A place in the cache's memory, numbered from 0. A slot holds at most one block at a time. Numbers
/// should be dense: bookkeeping is arrays indexed by them.
pub type Slot = u32;

/// A block of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    /// The film.
    pub film: FilmId,
    /// Number of the block within it, from 0.
    pub block: u32,
}

/// What of a film is known before anybody plays it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Film {
    /// Blocks it has.
    pub blocks: u32,
    /// How long it plays.
    pub duration: Duration,
}

/// A viewer's position and speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Watching {
    /// The film that the viewer plays.
    pub film: FilmId,
    /// The block that the viewer has got last, or will get first.
    pub block: u32,
    /// Speed: 1 plays as the film is meant, 0 pauses, 8 is fast play, negative is rewinding.
    pub speed: f32,
}

/// A replacement policy: it keeps the books on which blocks are in memory, and says which of them is to
/// make room.
///
/// Time is passed in, as the time since any fixed moment, and never goes back. Weights are in one unit
/// throughout, that of the capacity the policy was made with: 1 a block where all blocks have one size,
/// or bytes. The policy never evicts by itself: whoever owns the memory asks for victims until there is
/// room, then inserts. A slot is either in the books (from `insert` until `victim` returns it or `remove`
/// takes it out) or not; calls for slots that are not in them do nothing.
pub trait Policy: Send {
    /// The block in `slot` has been used again.
    fn hit(&mut self, slot: Slot, now: Duration);

    /// Block `id` has been read into `slot`, which was empty. This counts as its first use.
    fn insert(&mut self, slot: Slot, id: BlockId, weight: u32, now: Duration);

    /// Whether victims must go although memory has room for `weight` more, because a section of the policy
    /// is full. The owner of the memory asks before it inserts, and may ask with 0 after a hit.
    fn crowded(&self, _weight: u32) -> bool {
        false
    }

    /// Chooses the block that makes room for `incoming`, among those for which `evictable` is true (a
    /// block that is being sent is not), and takes it out of the books. `None` when there is none.
    fn victim(
        &mut self,
        incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        now: Duration,
    ) -> Option<Slot>;

    /// The block in `slot` is gone for a reason that is none of the policy's, such as a film that was
    /// replaced.
    fn remove(&mut self, slot: Slot, now: Duration);

    /// The number `film` means another film from now on, or its first: what was learned of the one before
    /// does not hold for it. No block or viewer of the one before is left.
    fn new_film(&mut self, _film: FilmId, _now: Duration) {}

    /// What `film` is. Told before the first viewer of it; told again when more is known.
    fn film(&mut self, _film: FilmId, _shape: Film, _now: Duration) {}

    /// A viewer begins, has come to another block, seeks, changes speed, or turns to another film.
    /// Called before the `hit` or `insert` of the block that the viewer has reached.
    fn watch(&mut self, _viewer: ViewerId, _watching: Watching, _now: Duration) {}

    /// A viewer has left, at the film's end or before it.
    fn left(&mut self, _viewer: ViewerId, _now: Duration) {}
}

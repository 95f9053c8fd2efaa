//! Which block is in which slot, and which blocks are evicted and admitted.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use reelway_cache::{BlockId, FilmId, Policy};
use reelway_determinism::FixedMap;

use super::budget::{Budget, Hours};
use super::missed::Missed;
use super::stats::TierStats;
use crate::films::{Films, Numbered};

/// A block's record, which is kept across restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<F> {
    /// The film's version.
    pub file: F,
    /// The block's number in the film.
    pub block: u32,
    /// Length in bytes.
    pub len: u32,
    /// Checksum of the bytes, which also covers the block's name.
    pub sum: u64,
}

/// A block's location, length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierBlock {
    /// The slot.
    pub slot: u32,
    /// Length in bytes.
    pub len: u32,
    /// Checksum of the bytes.
    pub sum: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: BlockId,
    len: u32,
    sum: u64,
    /// Being read: it stays until the read is done.
    in_use: bool,
    /// Its film has been purged meanwhile.
    is_purged: bool,
}

/// A block that is being written.
#[derive(Clone, Copy, Debug)]
struct Writing {
    id: BlockId,
    /// Its film has been purged meanwhile.
    is_purged: bool,
}

/// Where a block is to be read from.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// From the tier. [`Books::read`] reports the result.
    Held(TierBlock),
    /// From the film's remote place.
    Missed {
        /// Whether the block is to be admitted to the tier once it has been read.
        admit: bool,
    },
}

/// The bookkeeping of a tier for the films of files `F`. The times passed in never go back.
pub struct Books<F> {
    films: Films<F>,
    /// Used for look-ups and counts, never iterated.
    places: FixedMap<BlockId, u32>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    policy: Box<dyn Policy>,
    /// Films whose blocks are admitted at once and never evicted.
    kept: FixedMap<F, ()>,
    missed: Missed,
    admit: u32,
    budget: Budget,
    /// By slot.
    writing: BTreeMap<u32, Writing>,
    stats: TierStats,
}

impl<F: Copy + Eq + Hash> Books<F> {
    /// Creates the bookkeeping for this many slots; the slots in `found` already hold blocks. A
    /// block is admitted at its `admit`th miss (1: at once).
    pub fn new(
        slots: u32,
        policy: Box<dyn Policy>,
        admit: u32,
        budget: Budget,
        found: impl IntoIterator<Item = (u32, Record<F>)>,
    ) -> Books<F> {
        let count = slots as usize;
        let mut books = Books {
            films: Films::default(),
            places: FixedMap::default(),
            entries: vec![None; count],
            free: Vec::new(),
            policy,
            kept: FixedMap::default(),
            // Twice the capacity: a block may be missed again after the whole tier has been
            // replaced.
            missed: Missed::new((2 * count).max(1024)),
            admit,
            budget,
            writing: BTreeMap::new(),
            stats: TierStats {
                blocks: u64::from(slots),
                ..TierStats::default()
            },
        };
        for (slot, record) in found {
            books.found(slot, record);
        }
        let empty = |slot: &u32| books.entries[*slot as usize].is_none();
        books.free = (0..slots).rev().filter(empty).collect();
        books
    }

    /// Opens a film and returns its number.
    pub fn open(&mut self, file: F, now: Duration) -> FilmId {
        let numbered = self.films.open(file);
        if let Numbered::New(film) = numbered {
            self.policy.new_film(film, now);
        }
        numbered.number()
    }

    /// Closes a film.
    pub fn close(&mut self, film: FilmId) {
        self.films.close(film);
    }

    /// Enters a block that was present at the start. The order of earlier uses is not known any
    /// more.
    fn found(&mut self, slot: u32, record: Record<F>) {
        let film = self.open(record.file, Duration::ZERO);
        let id = BlockId {
            film,
            block: record.block,
        };
        if !self.places.contains_key(&id) {
            self.insert(slot, id, record.len, record.sum, Duration::ZERO);
        }
        self.films.close(film);
    }

    /// Replaces the list of kept films: their blocks are admitted at once and never evicted.
    pub fn keep(&mut self, files: impl IntoIterator<Item = F>) {
        self.kept = files.into_iter().map(|file| (file, ())).collect();
    }

    /// Returns whether a block is in the tier.
    pub fn holds(&self, id: BlockId) -> bool {
        self.places.contains_key(&id)
    }

    /// Looks up a block that is needed. `name`: a hash of the film's version and the block's
    /// number. Misses are counted by it, because the film may lose its number in between.
    pub fn look(&mut self, id: BlockId, name: u64, now: Duration) -> Look {
        let slot = self.places.get(&id).copied();
        let entry = slot.and_then(|slot| self.entries[slot as usize].as_mut());
        if let (Some(slot), Some(entry)) = (slot, entry) {
            entry.in_use = true;
            let (len, sum) = (entry.len, entry.sum);
            self.policy.hit(slot, now);
            return Look::Held(TierBlock { slot, len, sum });
        }
        self.stats.misses += 1;
        let admit = self.missed.note(name, self.admit);
        let is_kept = is_kept(&self.films, &self.kept, id.film);
        Look::Missed {
            admit: admit || is_kept,
        }
    }

    /// Records the result of reading a block. Returns whether the block stays. If not, its slot
    /// must be marked empty on the disk before [`Books::give_back`].
    #[must_use]
    pub fn read(&mut self, held: TierBlock, well: bool, now: Duration) -> bool {
        let mut is_purged = false;
        if let Some(entry) = &mut self.entries[held.slot as usize] {
            entry.in_use = false;
            is_purged = entry.is_purged;
        }
        if well {
            self.stats.hits += 1;
            self.stats.bytes_read += u64::from(held.len);
        } else {
            self.stats.broken += 1;
        }
        let stays = well && !is_purged;
        if !stays {
            self.policy.remove(held.slot, now);
            self.forget(held.slot);
        }
        stays
    }

    /// Purges a film. Returns the slots that must be marked empty on the disk before
    /// [`Books::give_back`]. A block that is being read or written is removed when that is done.
    pub fn purge(&mut self, file: F, now: Duration) -> Vec<u32> {
        let Some(film) = self.films.number(file) else {
            return Vec::new();
        };
        for writing in self.writing.values_mut() {
            writing.is_purged |= writing.id.film == film;
        }
        let mut gone = Vec::new();
        for (slot, entry) in (0..).zip(&mut self.entries) {
            match entry {
                Some(entry) if entry.id.film != film => {}
                Some(entry) if entry.in_use => entry.is_purged = true,
                Some(_) => gone.push(slot),
                None => {}
            }
        }
        for slot in &gone {
            self.policy.remove(*slot, now);
            self.forget(*slot);
        }
        gone
    }

    fn forget(&mut self, slot: u32) {
        if let Some(entry) = self.entries[slot as usize].take() {
            self.places.remove(&entry.id);
            self.films.let_go(entry.id.film);
        }
    }

    /// Returns a slot for an admitted block, which is to be written now. `None`: the block is
    /// already held or being written, the day's bytes are spent, or no block can be evicted.
    pub fn room(&mut self, id: BlockId, bytes: u64, hour: u64, now: Duration) -> Option<u32> {
        if self.places.contains_key(&id) || self.writing.values().any(|writing| writing.id == id) {
            return None;
        }
        if self.free.is_empty() {
            let (entries, films, kept) = (&self.entries, &self.films, &self.kept);
            let mut unused = |slot: u32| {
                let entry = entries[slot as usize].as_ref();
                entry.is_some_and(|entry| !entry.in_use && !is_kept(films, kept, entry.id.film))
            };
            if let Some(victim) = self.policy.victim(id, &mut unused, now) {
                self.forget(victim);
                self.free.push(victim);
            }
        }
        if self.free.is_empty() || !self.budget.take(hour, bytes) {
            self.stats.left_out += 1;
            return None;
        }
        let slot = self.free.pop()?;
        let writing = Writing {
            id,
            is_purged: false,
        };
        self.writing.insert(slot, writing);
        Some(slot)
    }

    /// Records that a block was left out for another reason.
    pub fn left_out(&mut self) {
        self.stats.left_out += 1;
    }

    /// Records that a block has been written to its slot. Returns whether it stays. If not, the
    /// slot must be marked empty on the disk before [`Books::give_back`].
    #[must_use]
    pub fn written(&mut self, slot: u32, id: BlockId, len: u32, sum: u64, now: Duration) -> bool {
        self.stats.bytes_written += u64::from(len);
        let writing = self.writing.remove(&slot);
        let stays = writing.is_none_or(|writing| !writing.is_purged);
        if stays {
            self.insert(slot, id, len, sum, now);
        }
        stays
    }

    fn insert(&mut self, slot: u32, id: BlockId, len: u32, sum: u64, now: Duration) {
        self.films.hold(id.film);
        self.places.insert(id, slot);
        self.entries[slot as usize] = Some(Entry {
            id,
            len,
            sum,
            in_use: false,
            is_purged: false,
        });
        self.policy.insert(slot, id, 1, now);
    }

    /// Records that writing to a slot failed.
    pub fn failed(&mut self, slot: u32) {
        self.stats.errors += 1;
        self.writing.remove(&slot);
        self.free.push(slot);
    }

    /// Records that a slot is empty on the disk, too.
    pub fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Returns the bytes written per hour, to be saved.
    pub fn hours(&self) -> Hours {
        *self.budget.hours()
    }

    /// Returns the tier's statistics.
    pub fn stats(&self) -> TierStats {
        TierStats {
            cached: self.places.len() as u64,
            ..self.stats
        }
    }
}

fn is_kept<F: Copy + Eq + Hash>(films: &Films<F>, kept: &FixedMap<F, ()>, film: FilmId) -> bool {
    // Usually no films are kept.
    !kept.is_empty()
        && films
            .file(film)
            .is_some_and(|file| kept.contains_key(&file))
}

//! Which block lies where in the tier, which makes room, which is let in.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use reelway_cache::{BlockId, FilmId, Policy};
use reelway_determinism::FixedMap;

use super::budget::{Budget, Hours};
use super::missed::Missed;
use super::stats::TierStats;
use crate::films::{Films, Numbered};

/// A block as it is remembered over a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<F> {
    /// The film's version.
    pub file: F,
    /// The block's number in it.
    pub block: u32,
    /// Its bytes.
    pub len: u32,
    /// Checksum of its bytes, bound to its name.
    pub sum: u64,
}

/// Where a block lies, and what is known of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierBlock {
    /// The slot.
    pub slot: u32,
    /// Its bytes.
    pub len: u32,
    /// Their checksum.
    pub sum: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: BlockId,
    len: u32,
    sum: u64,
    /// Being read: it stays until that is done.
    in_use: bool,
    /// Its film was purged meanwhile.
    is_purged: bool,
}

/// A block that is being written.
#[derive(Clone, Copy, Debug)]
struct Writing {
    id: BlockId,
    /// Its film was purged meanwhile.
    is_purged: bool,
}

/// Where a block is to be read from.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// From here; [`Books::read`] says how it went.
    Held(TierBlock),
    /// From afar; to be let in when it has come?
    Missed {
        /// Whether it is.
        admit: bool,
    },
}

/// The books of a tier whose films are files `F`. Moments that are passed in never go back.
pub struct Books<F> {
    films: Films<F>,
    /// Looked up and counted, never gone through.
    places: FixedMap<BlockId, u32>,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    policy: Box<dyn Policy>,
    /// Films whose blocks are let in at once, and make room for none.
    kept: FixedMap<F, ()>,
    missed: Missed,
    admit: u32,
    budget: Budget,
    /// By slot.
    writing: BTreeMap<u32, Writing>,
    stats: TierStats,
}

impl<F: Copy + Eq + Hash> Books<F> {
    /// Books of so many slots, of which these hold a block already. `admit`: a block is let in at so many misses (1: at
    /// once).
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
            // Twice as many as there is room for: a block may come again after a whole turn of the tier.
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

    /// A film is opened; its number.
    pub fn open(&mut self, file: F, now: Duration) -> FilmId {
        let numbered = self.films.open(file);
        if let Numbered::New(film) = numbered {
            self.policy.new_film(film, now);
        }
        numbered.number()
    }

    /// A film is closed.
    pub fn close(&mut self, film: FilmId) {
        self.films.close(film);
    }

    /// A block that was there at the start. In which order they were used is not known any more.
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

    /// From now on these films are kept: their blocks are let in at once, and make room for none.
    pub fn keep(&mut self, files: impl IntoIterator<Item = F>) {
        self.kept = files.into_iter().map(|file| (file, ())).collect();
    }

    /// Whether a block is here.
    pub fn holds(&self, id: BlockId) -> bool {
        self.places.contains_key(&id)
    }

    /// A block is wanted. `name`: a hash of the film's version and the block's number, by which misses are counted longer
    /// than the film has its number.
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

    /// A block was read, or could not be. Whether it stays: if not, its slot must be told empty on the disk before
    /// [`Books::give_back`].
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

    /// All of a film is to go. Gives the slots that must be told empty on the disk before [`Books::give_back`]; a block that
    /// is being read or written goes when that is done.
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

    /// A slot for a block that is let in, which is to be written now; none where it is here or being written, the day's bytes
    /// are spent, or no block may go for it.
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

    /// A block was not taken up for another reason.
    pub fn left_out(&mut self) {
        self.stats.left_out += 1;
    }

    /// A block lies in its slot. Whether it stays: if not, the slot must be told empty on the disk before
    /// [`Books::give_back`].
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

    /// Nothing could be written to a slot.
    pub fn failed(&mut self, slot: u32) {
        self.stats.errors += 1;
        self.writing.remove(&slot);
        self.free.push(slot);
    }

    /// A slot is empty on the disk too.
    pub fn give_back(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// To be remembered: what was written when.
    pub fn hours(&self) -> Hours {
        *self.budget.hours()
    }

    /// What the tier holds and has done.
    pub fn stats(&self) -> TierStats {
        TierStats {
            cached: self.places.len() as u64,
            ..self.stats
        }
    }
}

fn is_kept<F: Copy + Eq + Hash>(films: &Films<F>, kept: &FixedMap<F, ()>, film: FilmId) -> bool {
    // Mostly none are.
    !kept.is_empty()
        && films
            .file(film)
            .is_some_and(|file| kept.contains_key(&file))
}

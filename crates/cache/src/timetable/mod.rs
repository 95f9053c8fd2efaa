//! Timetable: evicts the block whose next viewer comes latest.
//!
//! In video on demand, the next use of a block can be computed: it comes from the nearest viewer
//! behind it, at their speed, unless they leave before. If nobody is behind it, it waits for a
//! future viewer, and popularity says how long.
//!
//! **How a victim is found.** Between two viewers of a film, all blocks wait for the same viewer,
//! the lower of the two, and the last of them waits longest. So each such stretch has one
//! candidate: the last block in memory that the stretch's *owner* (the viewer at its upper end) has
//! passed; beyond the front viewer it is the film's last. A queue holds one entry per stretch, the
//! longest wait first. When a viewer moves, their own entry is renewed. Other entries become
//! outdated, but waits mostly get shorter with time, so an entry taken from the queue is
//! recomputed, and put back if another precedes it. A decision costs a few look-ups in trees and a
//! few waits, whatever the size of the cache.
//!
//! | file | content |
//! |---|---|
//! | `film.rs` | a film: its viewers, its blocks in memory, and how long a block waits |
//! | `habits.rs` | statistics of viewers |

mod film;
mod habits;
#[cfg(test)]
mod tests;

use std::collections::BinaryHeap;
use std::time::Duration;

use reelway_determinism::FixedMap;

use self::film::{AHEAD, Film, Front, Unknown};
use self::habits::Habits;
use crate::{BlockId, FilmId, Policy, Slot, ViewerId, Watching};

/// An entry of the queue, for the last block of a stretch, which waits longest.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// In seconds, at the time when the entry was made.
    wait: f64,
    film: FilmId,
    /// The viewer who has passed the stretch; `None` beyond the front viewer.
    owner: Option<ViewerId>,
    version: u32,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        self.wait
            .total_cmp(&other.wait)
            .then_with(|| (other.film, other.owner).cmp(&(self.film, self.owner)))
    }
}

/// A viewer's position.
#[derive(Clone, Copy, Debug)]
struct Seat {
    film: FilmId,
    block: u32,
    version: u32,
}

/// The policy `timetable`.
#[derive(Debug)]
pub(crate) struct Timetable {
    films: Vec<Film>,
    viewers: FixedMap<ViewerId, Seat>,
    /// The block in each slot.
    slots: Vec<Option<BlockId>>,
    queue: BinaryHeap<Entry>,
    all: Habits,
    /// The film whose stretch beyond the front viewer is renewed next.
    turn: usize,
}

impl Timetable {
    pub fn new(slots: usize) -> Timetable {
        Timetable {
            films: Vec::new(),
            viewers: FixedMap::default(),
            slots: Vec::with_capacity(slots),
            queue: BinaryHeap::new(),
            all: Habits::new(0.0),
            turn: 0,
        }
    }

    /// A policy that is given how often each film is begun, in viewers per second.
    pub fn told(slots: usize, starts: &[f64]) -> Timetable {
        let mut policy = Timetable::new(slots);
        for (film, starts) in starts.iter().enumerate() {
            policy.film_mut(film as FilmId, 0.0).told = Some(*starts);
        }
        policy
    }

    fn film_mut(&mut self, film: FilmId, now: f64) -> &mut Film {
        while self.films.len() <= film as usize {
            self.films.push(Film::new(&self.all, now));
        }
        &mut self.films[film as usize]
    }

    /// The stretch's last block in memory that is `evictable`.
    fn candidate(
        &self,
        film: FilmId,
        owner: Option<ViewerId>,
        evictable: &mut dyn FnMut(Slot) -> bool,
    ) -> Option<(u32, Slot)> {
        let film = &self.films[film as usize];
        let (end, below) = match owner {
            Some(viewer) => {
                let end = self.viewers.get(&viewer)?.block;
                (end, film.viewers.range(..(end, viewer)).next_back())
            }
            None => (u32::MAX, film.viewers.last_key_value()),
        };
        let start = below.map_or(0, |((block, _), _)| block + 1);
        if start > end {
            return None;
        }
        film.resident
            .range(start..=end)
            .rev()
            .map(|(block, slot)| (*block, *slot))
            .find(|(_, slot)| evictable(*slot))
    }

    fn wait(&self, film: FilmId, block: u32, now: f64) -> f64 {
        self.films[film as usize].wait(&self.all, self.films.len(), block, now)
    }

    /// Makes a new entry for a stretch.
    fn renew(&mut self, film: FilmId, owner: Option<ViewerId>, now: f64) {
        let version = match owner {
            Some(viewer) => match self.viewers.get_mut(&viewer) {
                Some(seat) => &mut seat.version,
                None => return,
            },
            None => &mut self.films[film as usize].version,
        };
        *version = version.wrapping_add(1);
        let version = *version;
        if let Some((block, _)) = self.candidate(film, owner, &mut |_| true) {
            let wait = self.wait(film, block, now);
            self.queue.push(Entry {
                wait,
                film,
                owner,
                version,
            });
            self.tidy();
        }
    }

    /// Renews the stretch that contains `block`.
    fn renew_around(&mut self, film: FilmId, block: u32, now: f64) {
        let owner = self.films[film as usize].owner(block);
        self.renew(film, owner, now);
    }

    fn is_current(&self, entry: &Entry) -> bool {
        match entry.owner {
            Some(viewer) => self
                .viewers
                .get(&viewer)
                .is_some_and(|seat| seat.film == entry.film && seat.version == entry.version),
            None => self.films[entry.film as usize].version == entry.version,
        }
    }

    /// Drops outdated entries when most are outdated.
    fn tidy(&mut self) {
        if self.queue.len() > 64 + 4 * (self.viewers.len() + self.films.len()) {
            let mut queue = std::mem::take(&mut self.queue);
            queue.retain(|entry| self.is_current(entry));
            self.queue = queue;
        }
    }

    /// Counts a viewer who comes to a film at `block`.
    fn came(&mut self, film: FilmId, block: u32, now: f64) {
        let shape = &mut self.films[film as usize];
        let part = (block > 0).then(|| shape.part(block));
        shape.habits.came(part, now);
        self.all.came(part, now);
        shape.staying = shape.habits.staying(&self.all);
    }

    /// Removes a viewer from their position.
    fn stand_up(&mut self, viewer: ViewerId, seat: Seat, now: f64) {
        let film = &mut self.films[seat.film as usize];
        film.viewers.remove(&(seat.block, viewer));
        if seat.block + 1 < film.blocks {
            let part = film.part(seat.block);
            film.habits.left(part);
            self.all.left(part);
            film.staying = film.habits.staying(&self.all);
        }
        self.renew_around(seat.film, seat.block, now);
    }

    /// Whether a viewer cannot have reached their new position by playing on.
    fn is_seek(film: &Film, from: u32, front: Front, to: u32, now: f64) -> bool {
        let film_time = (f64::from(to) - f64::from(from)) * film.block_seconds;
        let played = (now - front.since) * front.speed;
        let slack = (AHEAD * front.speed.abs().max(1.0)).max(4.0 * film.block_seconds);
        if front.speed < 0.0 {
            film_time > 0.0 || film_time < played - slack
        } else {
            film_time < 0.0 || film_time > played + slack
        }
    }

    /// Notes that an unknown viewer uses a block. One who reads on, several blocks at once, counts
    /// once.
    fn used(&mut self, id: BlockId, now: f64) {
        let film = &mut self.films[id.film as usize];
        if !film.viewers.is_empty() {
            return;
        }
        let reader = film.unknown.and_then(|last| last.reads_on(id.block, now));
        film.unknown = reader.or_else(|| Some(Unknown::new(id.block, now)));
        if reader.is_none() {
            self.came(id.film, id.block, now);
        }
    }

    fn forget(&mut self, slot: Slot, now: f64) -> Option<BlockId> {
        let id = self.slots.get_mut(slot as usize)?.take()?;
        self.films[id.film as usize].resident.remove(&id.block);
        self.renew_around(id.film, id.block, now);
        Some(id)
    }

    /// The slot of the block that waits longest.
    fn longest(&mut self, evictable: &mut dyn FnMut(Slot) -> bool, now: f64) -> Option<Slot> {
        let mut aside: Vec<Entry> = Vec::new();
        let mut best: Option<(f64, Slot)> = None;
        while let Some(entry) = self.queue.peek() {
            if best.is_some_and(|(wait, _)| wait >= entry.wait) {
                break;
            }
            let Some(mut entry) = self.queue.pop() else {
                break;
            };
            if !self.is_current(&entry) {
                continue;
            }
            if let Some((block, slot)) = self.candidate(entry.film, entry.owner, evictable) {
                entry.wait = self.wait(entry.film, block, now);
                if best.is_none_or(|(wait, _)| entry.wait > wait) {
                    best = Some((entry.wait, slot));
                }
            }
            aside.push(entry);
        }
        self.queue.extend(aside);
        best.map(|(_, slot)| slot)
    }
}

impl Policy for Timetable {
    fn hit(&mut self, slot: Slot, now: Duration) {
        if let Some(id) = self.slots.get(slot as usize).copied().flatten() {
            let now = now.as_secs_f64();
            self.used(id, now);
            if self.films[id.film as usize].viewers.is_empty() {
                self.renew_around(id.film, id.block, now);
            }
        }
    }

    fn insert(&mut self, slot: Slot, id: BlockId, _weight: u32, now: Duration) {
        let now = now.as_secs_f64();
        let at = slot as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, None);
        }
        self.slots[at] = Some(id);
        let film = self.film_mut(id.film, now);
        film.blocks = film.blocks.max(id.block + 1);
        film.resident.insert(id.block, slot);
        self.used(id, now);
        self.renew_around(id.film, id.block, now);
    }

    fn victim(
        &mut self,
        _incoming: BlockId,
        evictable: &mut dyn FnMut(Slot) -> bool,
        now: Duration,
    ) -> Option<Slot> {
        let now = now.as_secs_f64();
        // Popularity fades even if nothing happens: the films take turns.
        if !self.films.is_empty() {
            self.turn = (self.turn + 1) % self.films.len();
            self.renew(self.turn as FilmId, None, now);
        }
        let slot = self.longest(evictable, now)?;
        self.forget(slot, now);
        Some(slot)
    }

    fn remove(&mut self, slot: Slot, now: Duration) {
        self.forget(slot, now.as_secs_f64());
    }

    fn new_film(&mut self, film: FilmId, now: Duration) {
        let now = now.as_secs_f64();
        let fresh = Film::new(&self.all, now);
        let entry = self.film_mut(film, now);
        if entry.viewers.is_empty() && entry.resident.is_empty() {
            let version = entry.version;
            *entry = Film { version, ..fresh };
        }
    }

    fn film(&mut self, film: FilmId, shape: crate::Film, now: Duration) {
        let entry = self.film_mut(film, now.as_secs_f64());
        entry.blocks = shape.blocks.max(1);
        let seconds = shape.duration.as_secs_f64() / f64::from(entry.blocks);
        entry.block_seconds = seconds.clamp(0.001, 86_400.0);
    }

    fn watch(&mut self, viewer: ViewerId, watching: Watching, now: Duration) {
        let now = now.as_secs_f64();
        let Watching { film, block, speed } = watching;
        let shape = self.film_mut(film, now);
        shape.blocks = shape.blocks.max(block.saturating_add(1));
        let front = Front {
            since: now,
            speed: f64::from(speed),
        };
        let seat = self.viewers.get(&viewer).copied();
        let version = seat.map_or(0, |seat| seat.version);
        let played_on = seat.filter(|seat| {
            let shape = &self.films[film as usize];
            seat.film == film
                && shape
                    .viewers
                    .get(&(seat.block, viewer))
                    .is_some_and(|front| !Timetable::is_seek(shape, seat.block, *front, block, now))
        });
        if let Some(seat) = played_on {
            let known = self.films[film as usize].viewers.get(&(block, viewer));
            if known.is_some_and(|known| known.speed == front.speed) {
                // A further read within the block: the time of arrival stays.
                return;
            }
            let shape = &mut self.films[film as usize];
            for part in shape.part(seat.block) + 1..=shape.part(block) {
                shape.habits.entered(part);
                self.all.entered(part);
            }
            shape.viewers.remove(&(seat.block, viewer));
            shape.viewers.insert((block, viewer), front);
            self.viewers.insert(
                viewer,
                Seat {
                    film,
                    block,
                    version,
                },
            );
            // Viewers who were overtaken now own blocks that were this viewer's; if this viewer
            // plays backwards, so do viewers ahead of the old position.
            let (low, high) = (seat.block.min(block), seat.block.max(block));
            let shape = &self.films[film as usize];
            let overtook = shape
                .viewers
                .range((low, 0)..=(high, ViewerId::MAX))
                .any(|((_, other), _)| *other != viewer);
            if overtook {
                self.renew_around(film, low, now);
            }
            if block < seat.block {
                self.renew_around(film, high, now);
            }
        } else {
            if let Some(seat) = seat {
                self.viewers.remove(&viewer);
                self.stand_up(viewer, seat, now);
            }
            self.came(film, block, now);
            let shape = &mut self.films[film as usize];
            shape.viewers.insert((block, viewer), front);
            self.viewers.insert(
                viewer,
                Seat {
                    film,
                    block,
                    version,
                },
            );
        }
        self.renew(film, Some(viewer), now);
        // If this is the front viewer now, the stretch beyond them was partly the predecessor's.
        if self.films[film as usize].owner(block + 1).is_none() {
            self.renew(film, None, now);
        }
    }

    fn left(&mut self, viewer: ViewerId, now: Duration) {
        if let Some(seat) = self.viewers.remove(&viewer) {
            self.stand_up(viewer, seat, now.as_secs_f64());
        }
    }
}

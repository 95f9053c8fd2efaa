//! Small numbers for films: a block is identified by its film's number and its own, in eight bytes.

use std::collections::BTreeSet;
use std::hash::Hash;

use reelway_cache::FilmId;
use reelway_determinism::FixedMap;

/// Maximum count of idle films (not open, no block in memory) whose number is kept, so that the
/// cache policy remembers their popularity. It keeps about a kilobyte for each.
const KEPT: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry<F> {
    file: F,
    /// Blocks that are held or being read.
    blocks: u32,
    /// Number of open sources.
    open: u32,
    /// When the film last became idle, as a count of such events.
    idle_since: u64,
}

impl<F> Entry<F> {
    fn is_idle(&self) -> bool {
        self.blocks == 0 && self.open == 0
    }
}

/// A film's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    /// The film already has this number.
    Known(FilmId),
    /// The film has been assigned this number. A film that had it before is forgotten.
    New(FilmId),
}

impl Numbered {
    /// Returns the number.
    pub fn number(self) -> FilmId {
        let (Numbered::Known(number) | Numbered::New(number)) = self;
        number
    }
}

/// Maps films to numbers. A number remains valid while a source is open or a block is held, and
/// afterwards until there are too many idle films; then it is reused.
#[derive(Debug)]
pub(crate) struct Films<F> {
    entries: Vec<Entry<F>>,
    numbers: FixedMap<F, FilmId>,
    /// Idle films, the longest idle first.
    idle: BTreeSet<(u64, FilmId)>,
    events: u64,
    kept: usize,
}

impl<F: Copy + Eq + Hash> Default for Films<F> {
    fn default() -> Films<F> {
        Films::keeping(KEPT)
    }
}

impl<F: Copy + Eq + Hash> Films<F> {
    fn keeping(kept: usize) -> Films<F> {
        Films {
            entries: Vec::new(),
            numbers: FixedMap::default(),
            idle: BTreeSet::new(),
            events: 0,
            kept,
        }
    }

    /// Opens a film once more and returns its number.
    pub fn open(&mut self, file: F) -> Numbered {
        let number = match self.numbers.get(&file) {
            Some(number) => Numbered::Known(*number),
            None => Numbered::New(self.add(file)),
        };
        self.change(number.number(), |entry| entry.open += 1);
        number
    }

    fn add(&mut self, file: F) -> FilmId {
        let entry = Entry {
            file,
            blocks: 0,
            open: 0,
            idle_since: 0,
        };
        let again = match self.idle.len() >= self.kept {
            true => self.idle.pop_first(),
            false => None,
        };
        let number = match again {
            Some((_, number)) => {
                let before = std::mem::replace(&mut self.entries[number as usize], entry);
                self.numbers.remove(&before.file);
                number
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as FilmId
            }
        };
        self.numbers.insert(file, number);
        number
    }

    /// Records that a source was closed.
    pub fn close(&mut self, number: FilmId) {
        self.change(number, |entry| entry.open -= 1);
    }

    /// Records that the pool holds one more block of the film.
    pub fn hold(&mut self, number: FilmId) {
        self.change(number, |entry| entry.blocks += 1);
    }

    /// Records that the pool holds one block of the film less.
    pub fn let_go(&mut self, number: FilmId) {
        self.change(number, |entry| entry.blocks -= 1);
    }

    /// Returns the number of a known film.
    pub fn number(&self, file: F) -> Option<FilmId> {
        self.numbers.get(&file).copied()
    }

    /// Returns the film with this number.
    pub fn file(&self, number: FilmId) -> Option<F> {
        self.entries.get(number as usize).map(|entry| entry.file)
    }

    fn change(&mut self, number: FilmId, change: impl FnOnce(&mut Entry<F>)) {
        let Some(entry) = self.entries.get_mut(number as usize) else {
            return;
        };
        if entry.is_idle() {
            self.idle.remove(&(entry.idle_since, number));
        }
        change(entry);
        if entry.is_idle() {
            self.events += 1;
            entry.idle_since = self.events;
            self.idle.insert((self.events, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_nobody_uses_its_film_and_more_are_remembered_than_may_be() {
        let mut films = Films::keeping(1);
        assert_eq!(films.open(1u8), Numbered::New(0));
        assert_eq!(films.open(2u8), Numbered::New(1));
        assert_eq!(films.open(1u8), Numbered::Known(0));
        films.hold(0);
        films.close(0);
        films.close(0);
        assert_eq!(
            films.open(3u8),
            Numbered::New(2),
            "a block of film 0 is held"
        );
        films.let_go(0);
        assert_eq!(films.open(1u8), Numbered::Known(0), "remembered");
        films.close(0);
        assert_eq!(films.open(4u8), Numbered::New(0), "another film");
        assert_eq!(films.number(1u8), None);
    }
}

//! Small numbers for films: a block is known by its film's number and its own, in eight bytes.

use std::collections::BTreeSet;
use std::hash::Hash;

use reelway_cache::FilmId;
use reelway_determinism::FixedMap;

/// Films whose number is kept while nobody plays them and nothing of them is in memory, so that the
/// cache policy knows how popular they were. It keeps about a kilobyte of each.
const KEPT: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry<F> {
    file: F,
    /// Blocks that are held or on their way.
    blocks: u32,
    /// Sources that are open.
    open: u32,
    /// When it was last let go by all, as a count of such events.
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
    /// It is known by this number already.
    Known(FilmId),
    /// It is known by this number from now on; whatever had it before is no more.
    New(FilmId),
}

impl Numbered {
    /// The number.
    pub fn number(self) -> FilmId {
        let (Numbered::Known(number) | Numbered::New(number)) = self;
        number
    }
}

/// Which film has which number. A number lives as long as a source is open or a block is held, and
/// longer as long as there are not too many; then it is used again.
#[derive(Debug)]
pub(crate) struct Films<F> {
    entries: Vec<Entry<F>>,
    numbers: FixedMap<F, FilmId>,
    /// Those let go by all, the longest ago first.
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

    /// The number of a film that is opened once more.
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

    /// A source was closed.
    pub fn close(&mut self, number: FilmId) {
        self.change(number, |entry| entry.open -= 1);
    }

    /// A block of the film has come.
    pub fn hold(&mut self, number: FilmId) {
        self.change(number, |entry| entry.blocks += 1);
    }

    /// A block of the film has gone.
    pub fn let_go(&mut self, number: FilmId) {
        self.change(number, |entry| entry.blocks -= 1);
    }

    /// The number of a film that is known.
    pub fn number(&self, file: F) -> Option<FilmId> {
        self.numbers.get(&file).copied()
    }

    /// The film of this number.
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

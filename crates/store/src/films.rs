//! Small numbers for films: a block is known by its film's number and its own, in eight bytes.

use std::collections::{BTreeSet, HashMap};

use reelway_cache::FilmId;
use reelway_sys::FileIdentity;

/// Films whose number is kept while nobody plays them and nothing of them is in memory, so that the
/// cache policy knows how popular they were. It keeps about a kilobyte of each.
const KEPT: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry {
    identity: FileIdentity,
    /// Blocks that are held or on their way.
    blocks: u32,
    /// Sources that are open.
    open: u32,
    /// When it was last let go by all, as a count of such events.
    idle_since: u64,
}

impl Entry {
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
pub(crate) struct Films {
    entries: Vec<Entry>,
    numbers: HashMap<FileIdentity, FilmId>,
    /// Those let go by all, the longest ago first.
    idle: BTreeSet<(u64, FilmId)>,
    events: u64,
    kept: usize,
}

impl Default for Films {
    fn default() -> Films {
        Films::keeping(KEPT)
    }
}

impl Films {
    fn keeping(kept: usize) -> Films {
        Films {
            entries: Vec::new(),
            numbers: HashMap::new(),
            idle: BTreeSet::new(),
            events: 0,
            kept,
        }
    }

    /// The number of a film that is opened once more.
    pub fn open(&mut self, identity: FileIdentity) -> Numbered {
        let number = match self.numbers.get(&identity) {
            Some(number) => Numbered::Known(*number),
            None => Numbered::New(self.add(identity)),
        };
        self.change(number.number(), |entry| entry.open += 1);
        number
    }

    fn add(&mut self, identity: FileIdentity) -> FilmId {
        let entry = Entry {
            identity,
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
                self.numbers.remove(&before.identity);
                number
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as FilmId
            }
        };
        self.numbers.insert(identity, number);
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
    pub fn number(&self, identity: FileIdentity) -> Option<FilmId> {
        self.numbers.get(&identity).copied()
    }

    fn change(&mut self, number: FilmId, change: impl FnOnce(&mut Entry)) {
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
        let identity = |inode| FileIdentity {
            device: 1,
            inode,
            size: 2,
            mtime_ns: 3,
        };
        let mut films = Films::keeping(1);
        assert_eq!(films.open(identity(1)), Numbered::New(0));
        assert_eq!(films.open(identity(2)), Numbered::New(1));
        assert_eq!(films.open(identity(1)), Numbered::Known(0));
        films.hold(0);
        films.close(0);
        films.close(0);
        assert_eq!(
            films.open(identity(3)),
            Numbered::New(2),
            "a block of film 0 is held"
        );
        films.let_go(0);
        assert_eq!(films.open(identity(1)), Numbered::Known(0), "remembered");
        films.close(0);
        assert_eq!(films.open(identity(4)), Numbered::New(0), "another film");
        assert_eq!(films.number(identity(1)), None);
    }
}

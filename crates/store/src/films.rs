//! Small numbers for films: a block is known by its film's number and its own, in eight bytes.

use std::collections::HashMap;

use reelway_cache::FilmId;
use reelway_sys::FileIdentity;

#[derive(Clone, Copy, Debug)]
struct Entry {
    identity: FileIdentity,
    /// Blocks that are held or on their way.
    blocks: u32,
    /// Sources that are open.
    open: u32,
}

/// Which film has which number. A number lives as long as a source is open or a block is held, then it
/// is used again.
#[derive(Debug, Default)]
pub(crate) struct Films {
    entries: Vec<Option<Entry>>,
    free: Vec<FilmId>,
    numbers: HashMap<FileIdentity, FilmId>,
}

impl Films {
    /// The number of a film that is opened once more.
    pub fn open(&mut self, identity: FileIdentity) -> FilmId {
        let number = *self.numbers.entry(identity).or_insert_with(|| {
            let entry = Entry {
                identity,
                blocks: 0,
                open: 0,
            };
            match self.free.pop() {
                Some(number) => {
                    self.entries[number as usize] = Some(entry);
                    number
                }
                None => {
                    self.entries.push(Some(entry));
                    (self.entries.len() - 1) as FilmId
                }
            }
        });
        self.change(number, |entry| entry.open += 1);
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

    /// The number of a film that is open or held.
    pub fn number(&self, identity: FileIdentity) -> Option<FilmId> {
        self.numbers.get(&identity).copied()
    }

    fn change(&mut self, number: FilmId, change: impl FnOnce(&mut Entry)) {
        let Some(slot) = self.entries.get_mut(number as usize) else {
            return;
        };
        let Some(entry) = slot else { return };
        change(entry);
        if entry.blocks == 0 && entry.open == 0 {
            self.numbers.remove(&entry.identity);
            *slot = None;
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_when_nobody_knows_its_film_any_more() {
        let identity = |inode| FileIdentity {
            device: 1,
            inode,
            size: 2,
            mtime_ns: 3,
        };
        let mut films = Films::default();
        let first = films.open(identity(1));
        let second = films.open(identity(2));
        assert_ne!(first, second);
        assert_eq!(films.open(identity(1)), first);
        films.hold(first);
        films.close(first);
        films.close(first);
        assert_eq!(films.number(identity(1)), Some(first), "a block is held");
        assert_ne!(films.open(identity(3)), first);
        films.let_go(first);
        assert_eq!(films.number(identity(1)), None);
        assert_eq!(films.open(identity(4)), first);
    }
}

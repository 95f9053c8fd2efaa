//! Bookkeeping for copies of blocks in memory that sockets may keep: which blocks are copied, which
//! memory frame holds each copy, and which frame is evicted when another is needed.
//!
//! A block of the pool is later refilled with another film's bytes, so it cannot be given to a
//! socket, which may read it much later. When a block is sent again, it is copied into a frame
//! whose bytes are never rewritten. What a frame and a copy are is up to the owner: both are memory
//! that lives as long as it is referenced.

use std::collections::{BTreeMap, VecDeque};

/// A block is copied on this send: a block that only one viewer gets is not worth a copy.
const AGAIN: u32 = 2;
/// Blocks whose sends are counted, per copy that there is room for.
const COUNTED: usize = 8;

/// When bytes were requested: bytes requested before copies were forgotten are not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch(u64);

/// Identifies a frame among all present and past ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrameNumber(u64);

/// How a block is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent<P> {
    /// From this copy.
    Kept(P),
    /// From the pool; it has been sent often enough to be copied.
    Again,
    /// From the pool, without copying it.
    Seldom,
}

/// The copied blocks, and send counts of the others. `B` identifies a block, `F` is a frame, `P` a
/// copy in one.
#[derive(Debug)]
pub struct Copies<B, F, P> {
    kept: BTreeMap<B, (P, FrameNumber)>,
    counts: BTreeMap<B, u32>,
    most_counted: usize,
    frames: BTreeMap<FrameNumber, Shelf<B, F>>,
    /// The order in which frames are considered for eviction.
    turns: VecDeque<FrameNumber>,
    /// The frame that is being filled.
    newest: Option<FrameNumber>,
    numbers: u64,
    /// How often copies have been forgotten.
    forgotten: u64,
}

/// A frame and its contents.
#[derive(Debug)]
struct Shelf<B, F> {
    frame: F,
    blocks: Vec<B>,
    /// Whether a copy in it was sent since it was last considered for eviction.
    is_used: bool,
}

impl<B: Copy + Ord, F: Clone, P: Clone> Copies<B, F, P> {
    /// Creates the bookkeeping for `room` copies.
    pub fn new(room: usize) -> Self {
        Copies {
            kept: BTreeMap::default(),
            counts: BTreeMap::default(),
            most_counted: room.saturating_mul(COUNTED),
            frames: BTreeMap::default(),
            turns: VecDeque::new(),
            newest: None,
            numbers: 0,
            forgotten: 0,
        }
    }

    /// Returns the current epoch, to be passed to [`keep`](Copies::keep) with bytes requested now.
    pub fn asked(&self) -> Epoch {
        Epoch(self.forgotten)
    }

    /// Counts a send of a block and returns how to send it.
    pub fn sent(&mut self, block: B) -> Sent<P> {
        if let Some((copy, number)) = self.kept.get(&block) {
            if let Some(shelf) = self.frames.get_mut(number) {
                shelf.is_used = true;
            }
            return Sent::Kept(copy.clone());
        }
        if self.counts.len() >= self.most_counted && !self.counts.contains_key(&block) {
            // Removes rarely sent blocks and halves the counts of the others, so that old sends
            // weigh less.
            self.counts.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            if self.counts.len() >= self.most_counted {
                self.counts.clear();
            }
        }
        let count = self.counts.entry(block).or_default();
        *count += 1;
        match *count >= AGAIN {
            true => Sent::Again,
            false => Sent::Seldom,
        }
    }

    /// Returns the frame that is being filled. It may have no room left.
    pub fn newest(&self) -> Option<(FrameNumber, F)> {
        let number = self.newest?;
        Some((number, self.frames.get(&number)?.frame.clone()))
    }

    /// Adds a frame that is filled from now on.
    pub fn add(&mut self, frame: F) -> FrameNumber {
        self.numbers += 1;
        let number = FrameNumber(self.numbers);
        let shelf = Shelf {
            frame,
            blocks: Vec::new(),
            is_used: true,
        };
        self.frames.insert(number, shelf);
        self.turns.push_back(number);
        self.newest = Some(number);
        number
    }

    /// Records that a block, requested at `asked`, was copied into a frame. The copy is not kept if
    /// the frame has been evicted or copies were forgotten since.
    pub fn keep(&mut self, block: B, copy: P, frame: FrameNumber, asked: Epoch) {
        if asked != self.asked() {
            return;
        }
        if let Some(shelf) = self.frames.get_mut(&frame) {
            shelf.blocks.push(block);
            self.counts.remove(&block);
            self.kept.insert(block, (copy, frame));
        }
    }

    /// Evicts, with its copies, the longest-waiting frame that was not used since it was last
    /// considered. A used frame gets another turn; if all frames were used, returns `None`.
    pub fn give_up(&mut self) -> Option<F> {
        for _ in 0..self.turns.len() {
            let number = self.turns.pop_front()?;
            let shelf = self.frames.get_mut(&number)?;
            if std::mem::take(&mut shelf.is_used) {
                self.turns.push_back(number);
                continue;
            }
            let shelf = self.frames.remove(&number)?;
            for block in &shelf.blocks {
                // It may have been copied into another frame meanwhile.
                if self.kept.get(block).is_some_and(|(_, of)| *of == number) {
                    self.kept.remove(block);
                }
            }
            self.newest.take_if(|newest| *newest == number);
            return Some(shelf.frame);
        }
        None
    }

    /// Forgets the copies of matching blocks and everything requested so far. Clients that are
    /// being sent a copy still get all of it.
    pub fn forget(&mut self, is_of: impl Fn(&B) -> bool) {
        self.forgotten += 1;
        self.kept.retain(|block, _| !is_of(block));
    }

    /// The number of frames.
    pub fn frames(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks are numbers, frames are letters, copies are strings.
    type Books = Copies<u32, char, &'static str>;

    /// Keeps a copy of a block in a frame of its own.
    fn keep(books: &mut Books, block: u32, frame: char) {
        let number = books.add(frame);
        let asked = books.asked();
        books.keep(block, "film", number, asked);
    }

    #[test]
    fn a_block_is_worth_a_copy_when_it_is_sent_again() {
        let mut books = Books::new(1);
        assert_eq!(books.sent(5), Sent::Seldom);
        assert_eq!(books.sent(6), Sent::Seldom);
        assert_eq!(books.sent(5), Sent::Again);
        keep(&mut books, 5, 'a');
        assert_eq!(books.sent(5), Sent::Kept("film"));
    }

    #[test]
    fn the_oldest_frame_that_nobody_used_makes_room() {
        let mut books = Books::new(8);
        for (block, frame) in [(0, 'a'), (1, 'b'), (2, 'c')] {
            keep(&mut books, block, frame);
        }
        assert_eq!(books.give_up(), None, "all are new");
        books.sent(0);
        books.sent(2);
        assert_eq!(books.give_up(), Some('b'), "the second is unused");
        assert_eq!((books.sent(1), books.frames()), (Sent::Seldom, 2));
        assert_eq!(books.sent(2), Sent::Kept("film"));
    }

    #[test]
    fn a_frame_that_has_gone_takes_no_copies_and_none_of_a_newer_frame_with_it() {
        let mut books = Books::new(8);
        let (first, asked) = (books.add('a'), books.asked());
        books.keep(0, "old", first, asked);
        let second = books.add('b');
        books.keep(0, "new", second, asked);
        assert_eq!(books.give_up(), None, "both are new");
        books.sent(0);
        assert_eq!(books.give_up(), Some('a'));
        assert_eq!(books.sent(0), Sent::Kept("new"));
        books.keep(1, "film", first, asked);
        assert_eq!(books.sent(1), Sent::Seldom);
        assert_eq!(books.newest(), Some((second, 'b')));
    }

    #[test]
    fn of_a_film_that_is_forgotten_no_copy_is_left() {
        let mut books = Books::new(8);
        for block in [10, 11, 20] {
            keep(&mut books, block, 'a');
        }
        books.forget(|block| block / 10 == 1);
        let sent = [10, 11, 20].map(|block| books.sent(block));
        assert_eq!(sent, [Sent::Seldom, Sent::Seldom, Sent::Kept("film")]);
    }

    #[test]
    fn nothing_is_kept_of_what_was_asked_for_before_copies_were_forgotten() {
        let mut books = Books::new(8);
        let (frame, asked) = (books.add('a'), books.asked());
        books.forget(|_| true);
        books.keep(0, "old", frame, asked);
        assert_eq!(books.sent(0), Sent::Seldom);
        books.keep(0, "new", frame, books.asked());
        assert_eq!(books.sent(0), Sent::Kept("new"));
    }

    #[test]
    fn no_more_blocks_are_counted_than_may_be() {
        let mut books = Books::new(12);
        for number in 0..10_000 {
            books.sent(number);
            assert!(books.counts.len() <= 12 * COUNTED);
        }
        assert_eq!(books.sent(20_000), Sent::Seldom);
    }
}

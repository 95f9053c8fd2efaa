//! Blocks that are sent more than once: copies of them that sockets may keep (`http.zero_copy`).
//!
//! A block of the pool holds another film's bytes when its turn comes, so its bytes are copied for every viewer. One that is sent
//! again is copied once more, into memory that is never written again ([`reelway_sys::once`]), and from there it is given to
//! sockets as it is. Copies go, with the frame of memory in which they lie, when others are sent more.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use reelway_store::BlockPart;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use reelway_sys::once::{Addresses, FRAME, Frame, Piece};

use crate::giving::LEAST;

/// A block is copied when it is sent this time: what one viewer gets alone is not worth it.
const AGAIN: u32 = 2;
/// Blocks whose sends are counted, for each that there is room for.
const COUNTED: usize = 8;

/// Copies have this part of a pool, ...
const SHARE: u64 = 8;
/// ... if it is no less than that: few copies would come and go all the time.
const FEWEST: u64 = 32 << 20;

/// Bytes of a pool that are to hold copies.
pub fn repeated_bytes(pool: u64) -> u64 {
    let share = pool / SHARE / FRAME as u64 * FRAME as u64;
    if share < FEWEST { 0 } else { share }
}

/// A block of a film.
type Block = (FileIdentity, u32);

/// The copies, shared by all who send.
#[derive(Default)]
pub(crate) struct Repeated {
    /// Where they lie; `None`: there are none.
    addresses: Option<Arc<Addresses>>,
    /// How often copies were forgotten.
    forgotten: AtomicU64,
    table: Mutex<Table>,
}

/// When bytes were asked for: nothing is kept of what was asked for before copies were forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Repeated {
    /// Room for copies of so many bytes at most, of blocks of so many bytes.
    pub fn new(bytes: u64, block_bytes: u64) -> Repeated {
        let frames = (bytes / FRAME as u64) as usize;
        if frames == 0 || block_bytes > FRAME as u64 {
            return Repeated::default();
        }
        let addresses = Addresses::reserve(frames).inspect_err(|error| {
            tracing::warn!(
                "no addresses for {} MiB ({error}): film is copied for each viewer over HTTP",
                bytes >> 20
            );
        });
        Repeated {
            addresses: addresses.ok(),
            forgotten: AtomicU64::default(),
            table: Mutex::new(Table {
                most_counted: (bytes / block_bytes.max(1)) as usize * COUNTED,
                ..Table::default()
            }),
        }
    }

    /// Where copies lie, if there are any.
    pub fn addresses(&self) -> Option<&Arc<Addresses>> {
        self.addresses.as_ref()
    }

    /// Bytes are asked for now.
    pub fn asked(&self) -> Epoch {
        Epoch(self.forgotten.load(Ordering::Relaxed))
    }

    /// A part of a film's block, asked for then, as bytes to send: of its copy, if it is sent often.
    pub fn bytes(&self, film: FileIdentity, part: BlockPart, asked: Epoch) -> Bytes {
        let Some(addresses) = self
            .addresses
            .as_ref()
            .filter(|_| part.within().len() >= LEAST)
        else {
            return Bytes::from_owner(part);
        };
        let block = (film, part.number());
        let sent = self.table().sent(block);
        let piece = match sent {
            Sent::Kept(piece) => Some(piece),
            Sent::Again => self.keep(addresses, block, (part.block(), asked)),
            Sent::Seldom => None,
        };
        match piece {
            Some(piece) => Bytes::from_owner(piece.part(part.within())),
            None => Bytes::from_owner(part),
        }
    }

    /// Forgets the copies of a film's file, and of a view of it. Who is being sent one gets the rest of it.
    pub fn forget(&self, film: FileIdentity) {
        let mut table = self.table();
        self.forgotten.fetch_add(1, Ordering::Relaxed);
        table.kept.retain(|(of, _), _| !of.is_of(film));
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        // Each change leaves it whole: what is missing is copied again.
        supervise::whole(self.table.lock())
    }

    fn keep(
        &self,
        addresses: &Arc<Addresses>,
        block: Block,
        (bytes, asked): (&[u8], Epoch),
    ) -> Option<Piece> {
        // The copy is made without the lock. If two make one at once, the later one is used, and the other's room is lost for as
        // long as its frame is there.
        let newest = self.table().newest.clone();
        let (piece, shelf) = match newest.and_then(|shelf| Some((shelf.frame.put(bytes)?, shelf))) {
            Some(there) => there,
            None => {
                let frame = self.frame(addresses)?;
                let piece = frame.put(bytes)?;
                (piece, self.table().add(frame))
            }
        };
        let mut table = self.table();
        if asked == self.asked() {
            table.keep(block, piece.clone(), &shelf);
        }
        Some(piece)
    }

    /// Memory for more copies. The frame that was used least makes room; none is there as long as viewers read from it.
    fn frame(&self, addresses: &Arc<Addresses>) -> Option<Arc<Frame>> {
        let new = || match addresses.frame() {
            Ok(frame) => frame.map(Arc::new),
            Err(error) => {
                tracing::debug!("no memory for copies of blocks: {error}");
                None
            }
        };
        new().or_else(|| {
            let gone = self.table().give_up();
            drop(gone);
            new()
        })
    }
}

/// What is known of a block that is about to be sent.
enum Sent {
    /// This is its copy.
    Kept(Piece),
    /// It has been sent often enough to be copied.
    Again,
    Seldom,
}

/// Which blocks are copied, and how often others were sent.
#[derive(Default)]
struct Table {
    kept: HashMap<Block, (Piece, Arc<Shelf>)>,
    counts: HashMap<Block, u32>,
    most_counted: usize,
    /// All frames, with the blocks that lie in them.
    shelves: VecDeque<(Arc<Shelf>, Vec<Block>)>,
    /// The one that is being filled.
    newest: Option<Arc<Shelf>>,
}

/// A frame, and whether it was used since it was last looked at.
struct Shelf {
    frame: Arc<Frame>,
    used: AtomicBool,
}

impl Table {
    /// A block is about to be sent.
    fn sent(&mut self, block: Block) -> Sent {
        if let Some((piece, shelf)) = self.kept.get(&block) {
            shelf.used.store(true, Ordering::Relaxed);
            return Sent::Kept(piece.clone());
        }
        if self.counts.len() >= self.most_counted && !self.counts.contains_key(&block) {
            // The seldom ones go; what was sent long ago counts half.
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

    /// A frame to be filled from now on.
    fn add(&mut self, frame: Arc<Frame>) -> Arc<Shelf> {
        let shelf = Arc::new(Shelf {
            frame,
            used: AtomicBool::new(true),
        });
        self.shelves.push_back((Arc::clone(&shelf), Vec::new()));
        self.newest = Some(Arc::clone(&shelf));
        shelf
    }

    /// A block was copied into a frame. It is not kept if the frame has gone meanwhile.
    fn keep(&mut self, block: Block, piece: Piece, shelf: &Arc<Shelf>) {
        let mut shelves = self.shelves.iter_mut().rev();
        if let Some((shelf, blocks)) = shelves.find(|(other, _)| Arc::ptr_eq(other, shelf)) {
            blocks.push(block);
            self.counts.remove(&block);
            self.kept.insert(block, (piece, Arc::clone(shelf)));
        }
    }

    /// Takes out the frame that has waited longest of those that were not used since they were last looked at, with its blocks.
    /// One that was used gets another turn; if all were, none goes now.
    fn give_up(&mut self) -> Option<Arc<Shelf>> {
        for _ in 0..self.shelves.len() {
            let (shelf, blocks) = self.shelves.pop_front()?;
            if shelf.used.swap(false, Ordering::Relaxed) {
                self.shelves.push_back((shelf, blocks));
                continue;
            }
            for block in &blocks {
                if let Entry::Occupied(kept) = self.kept.entry(*block)
                    && Arc::ptr_eq(&kept.get().1, &shelf)
                {
                    kept.remove();
                }
            }
            self.newest.take_if(|newest| Arc::ptr_eq(newest, &shelf));
            return Some(shelf);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(inode: u64) -> FileIdentity {
        FileIdentity {
            device: 1,
            inode,
            size: 1 << 30,
            mtime_ns: 7,
        }
    }

    /// A table that counts so many blocks, and frames to add to it.
    fn table(most_counted: usize, frames: usize) -> (Table, Vec<Arc<Frame>>) {
        let addresses = Addresses::reserve(frames.max(1)).unwrap();
        let frames = (0..frames).map(|_| Arc::new(addresses.frame().unwrap().unwrap()));
        let table = Table {
            most_counted,
            ..Table::default()
        };
        (table, frames.collect())
    }

    #[test]
    fn a_block_is_worth_a_copy_when_it_is_sent_again() {
        let (mut table, frames) = table(8, 1);
        let block = (file(1), 5);
        assert!(matches!(table.sent(block), Sent::Seldom));
        assert!(matches!(table.sent((file(2), 5)), Sent::Seldom));
        assert!(matches!(table.sent(block), Sent::Again));
        let shelf = table.add(frames[0].clone());
        table.keep(block, frames[0].put(b"film").unwrap(), &shelf);
        assert!(matches!(table.sent(block), Sent::Kept(piece) if piece.as_ref() == b"film"));
    }

    #[test]
    fn the_oldest_frame_that_nobody_used_makes_room() {
        let (mut table, frames) = table(8, 3);
        for (number, frame) in frames.iter().enumerate() {
            let shelf = table.add(frame.clone());
            table.keep(
                (file(1), number as u32),
                frame.put(b"film").unwrap(),
                &shelf,
            );
        }
        assert!(table.give_up().is_none(), "all are new");
        table.sent((file(1), 0));
        table.sent((file(1), 2));
        let gone = table.give_up().expect("the second is unused");
        assert!(Arc::ptr_eq(&gone.frame, &frames[1]));
        assert!(matches!(table.sent((file(1), 1)), Sent::Seldom));
        assert!(matches!(table.sent((file(1), 2)), Sent::Kept(_)));
    }

    #[test]
    fn a_film_that_is_forgotten_is_sent_from_no_copy_nor_is_its_view() {
        let repeated = Repeated::new(4 << 20, 256 << 10);
        let frame = repeated.frame(repeated.addresses().unwrap()).unwrap();
        let mut table = repeated.table();
        let shelf = table.add(frame.clone());
        for of in [file(1), file(1).of_view(77), file(2)] {
            table.keep((of, 0), frame.put(b"film").unwrap(), &shelf);
        }
        drop(table);
        repeated.forget(file(1));
        let left: Vec<Block> = repeated.table().kept.keys().copied().collect();
        assert_eq!(left, [(file(2), 0)]);
    }

    #[test]
    fn nothing_is_kept_of_what_was_asked_for_before_a_film_was_forgotten() {
        let repeated = Repeated::new(4 << 20, 256 << 10);
        let (block, asked) = ((file(1), 0), repeated.asked());
        let keep = |bytes, asked| {
            let addresses = repeated.addresses().unwrap();
            repeated.keep(addresses, block, (bytes, asked)).unwrap();
        };
        repeated.forget(file(1));
        keep(b"old", asked);
        assert!(repeated.table().kept.is_empty());
        keep(b"new", repeated.asked());
        let sent = repeated.table().sent(block);
        assert!(matches!(sent, Sent::Kept(piece) if piece.as_ref() == b"new"));
    }

    #[test]
    fn no_more_blocks_are_counted_than_may_be() {
        let (mut table, _) = table(100, 0);
        for number in 0..10_000 {
            table.sent((file(1), number));
            assert!(table.counts.len() <= 100);
        }
        assert!(matches!(table.sent((file(2), 0)), Sent::Seldom));
    }
}

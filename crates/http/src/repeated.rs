//! Blocks sent more than once: copies of them that sockets may keep (`http.zero_copy`).
//!
//! A block of the pool is later refilled with another film's bytes, so its bytes are copied for
//! every viewer. A block that is sent again is copied once more, into memory that is never
//! rewritten ([`reelway_sys::once`]), and from there it is given to sockets without a copy. Copies
//! are evicted, together with their memory frame, when others are sent more often
//! ([`reelway_viewing::Copies`]).

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use reelway_store::BlockPart;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;
use reelway_sys::once::{Addresses, FRAME, Frame, Piece};
use reelway_viewing::{Copies, Epoch, Sent};

use crate::giving::LEAST;

/// Copies get this fraction of a pool …
const SHARE: u64 = 8;
/// … if that is at least this much: fewer copies would be evicted all the time.
const FEWEST: u64 = 32 << 20;

/// Returns the bytes of a pool that are used for copies.
pub fn repeated_bytes(pool: u64) -> u64 {
    let share = pool / SHARE / FRAME as u64 * FRAME as u64;
    if share < FEWEST { 0 } else { share }
}

/// A block of a film.
type Block = (FileIdentity, u32);
type Books = Copies<Block, Arc<Frame>, Piece>;

/// The copies, shared by all connections.
#[derive(Default)]
pub(crate) struct Repeated {
    /// `None`: no copies are made.
    kept: Option<Kept>,
}

/// The memory of the copies, and their bookkeeping.
struct Kept {
    addresses: Arc<Addresses>,
    books: Mutex<Books>,
}

impl Repeated {
    /// Creates room for at most `bytes` of copies, of blocks of `block_bytes` each.
    pub fn new(bytes: u64, block_bytes: u64) -> Repeated {
        let frames = (bytes / FRAME as u64) as usize;
        if frames == 0 || block_bytes > FRAME as u64 {
            return Repeated::default();
        }
        let addresses = Addresses::reserve(frames).inspect_err(|error| {
            tracing::warn!(
                "{} MiB of addresses cannot be reserved ({error}): film data is copied for each HTTP viewer",
                bytes >> 20
            );
        });
        let kept = addresses.ok().map(|addresses| Kept {
            addresses,
            books: Mutex::new(Copies::new((bytes / block_bytes.max(1)) as usize)),
        });
        Repeated { kept }
    }

    /// Returns the addresses of the copies, if there are any.
    pub fn addresses(&self) -> Option<&Arc<Addresses>> {
        self.kept.as_ref().map(|kept| &kept.addresses)
    }

    /// Returns the epoch for bytes requested now.
    pub fn asked(&self) -> Epoch {
        let kept = self.kept.as_ref();
        kept.map_or(Epoch::default(), |kept| kept.books().asked())
    }

    /// Returns a part of a film's block, requested at `asked`, as bytes to send: from its copy, if
    /// it is sent often.
    pub fn bytes(&self, film: FileIdentity, part: BlockPart, asked: Epoch) -> Bytes {
        let Some(kept) = self.kept.as_ref().filter(|_| part.within().len() >= LEAST) else {
            return Bytes::from_owner(part);
        };
        let block = (film, part.number());
        let sent = kept.books().sent(block);
        let piece = match sent {
            Sent::Kept(piece) => Some(piece),
            Sent::Again => kept.keep(block, part.block(), asked),
            Sent::Seldom => None,
        };
        match piece {
            Some(piece) => Bytes::from_owner(piece.part(part.within())),
            None => Bytes::from_owner(part),
        }
    }

    /// Forgets the copies of a film's file, and of a view of it. Clients that are being sent a copy
    /// still get all of it.
    pub fn forget(&self, film: FileIdentity) {
        if let Some(kept) = &self.kept {
            kept.books().forget(|(of, _)| of.is_of(film));
        }
    }
}

impl Kept {
    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        // Each change leaves the bookkeeping consistent: a missing block is copied again.
        supervise::whole(self.books.lock())
    }

    /// Makes a copy of a block's bytes, which were requested at `asked`.
    fn keep(&self, block: Block, bytes: &[u8], asked: Epoch) -> Option<Piece> {
        // The copy is made without the lock. If two threads make one at the same time, the later
        // one is used, and the other's room is lost until its frame is evicted.
        let newest = self.books().newest();
        let newest = newest.and_then(|(number, frame)| Some((frame.put(bytes)?, number)));
        let (piece, number) = match newest {
            Some(there) => there,
            None => {
                let frame = self.frame()?;
                let piece = frame.put(bytes)?;
                (piece, self.books().add(frame))
            }
        };
        self.books().keep(block, piece.clone(), number, asked);
        Some(piece)
    }

    /// Returns memory for more copies. If there is none, a frame that was not used lately is
    /// evicted. `None` if all are used, or as long as viewers read from the evicted one.
    fn frame(&self) -> Option<Arc<Frame>> {
        let new = || match self.addresses.frame() {
            Ok(frame) => frame.map(Arc::new),
            Err(error) => {
                tracing::debug!("no memory for copies of blocks: {error}");
                None
            }
        };
        new().or_else(|| {
            let gone = self.books().give_up();
            drop(gone);
            new()
        })
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

    #[test]
    fn a_film_that_is_forgotten_is_sent_from_no_copy_nor_is_its_view() {
        let repeated = Repeated::new(4 << 20, 256 << 10);
        let kept = repeated.kept.as_ref().unwrap();
        for of in [file(1), file(1).of_view(77), file(2)] {
            kept.keep((of, 0), b"film", repeated.asked()).unwrap();
        }
        repeated.forget(file(1));
        let sent = |of| kept.books().sent((of, 0));
        assert!(matches!(sent(file(1)), Sent::Seldom));
        assert!(matches!(sent(file(1).of_view(77)), Sent::Seldom));
        assert!(matches!(sent(file(2)), Sent::Kept(piece) if piece.as_ref() == b"film"));
    }

    #[test]
    fn a_frame_makes_room_for_another_when_nobody_is_sent_its_copies() {
        let repeated = Repeated::new(FRAME as u64, FRAME as u64);
        let kept = repeated.kept.as_ref().unwrap();
        let block = vec![7; FRAME];
        let keep = |number| kept.keep((file(1), number), &block, repeated.asked());
        let piece = keep(0).expect("room");
        assert!(keep(1).is_none(), "it is new, so it gets another turn");
        assert!(keep(1).is_none(), "somebody is sent its copy");
        drop(piece);
        assert!(keep(1).is_some());
    }
}

//! The tier's contents: the bookkeeping under its lock, and the files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use reelway_cache::{BlockId, FilmId};
use reelway_clock::Monotonic;
use reelway_pool::tier::Books;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;

use super::files::Files;

/// The bookkeeping and the files.
pub(crate) struct Shelf {
    books: Mutex<Books<FileIdentity>>,
    pub files: Files,
    /// A panic may have corrupted the bookkeeping: the tier is not used again until the server
    /// restarts.
    off: AtomicBool,
    born: Monotonic,
}

impl Shelf {
    pub fn new(books: Books<FileIdentity>, files: Files) -> Shelf {
        Shelf {
            books: Mutex::new(books),
            files,
            off: AtomicBool::new(false),
            born: reelway_clock::now(),
        }
    }

    /// Locks the bookkeeping, whatever its state.
    pub fn torn_or_not(&self) -> MutexGuard<'_, Books<FileIdentity>> {
        self.books.lock().unwrap_or_else(|poisoned| {
            if !self.off.swap(true, Ordering::Relaxed) {
                let words = "switched off by a panic; films from elsewhere are fetched without it until the server starts again";
                tracing::error!("tier: {words}");
                supervise::raise("tier", words);
            }
            poisoned.into_inner()
        })
    }

    /// Locks the bookkeeping. `None`: the tier is switched off.
    pub fn books(&self) -> Option<MutexGuard<'_, Books<FileIdentity>>> {
        let books = self.torn_or_not();
        (!self.off.load(Ordering::Relaxed)).then_some(books)
    }

    /// Returns the policy's time.
    pub fn now(&self) -> Duration {
        reelway_clock::now().since(self.born)
    }

    /// Empties slots on the disk that the bookkeeping has emptied, so that they are empty after a
    /// restart, too.
    pub fn empty(&self, slots: &[u32]) {
        for slot in slots {
            // If this fails, the checksum reveals the slot's state after a restart.
            let _ = self.files.write_record(*slot, None);
        }
        if let Some(mut books) = self.books() {
            slots.iter().for_each(|slot| books.give_back(*slot));
        }
    }
}

/// A film that the bookkeeping keeps open as long as this handle exists.
pub(crate) struct Opened {
    pub shelf: Arc<Shelf>,
    pub identity: FileIdentity,
    pub number: FilmId,
}

impl Opened {
    pub fn new(shelf: &Arc<Shelf>, identity: FileIdentity) -> Arc<Opened> {
        let number = shelf.torn_or_not().open(identity, shelf.now());
        Arc::new(Opened {
            shelf: Arc::clone(shelf),
            identity,
            number,
        })
    }

    pub fn id(&self, block: u32) -> BlockId {
        BlockId {
            film: self.number,
            block,
        }
    }

    /// Returns whether the tier holds a block.
    pub fn holds(&self, block: u32) -> bool {
        let books = self.shelf.books();
        books.is_some_and(|books| books.holds(self.id(block)))
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(mut books) = self.shelf.books() {
            books.close(self.number);
        }
    }
}

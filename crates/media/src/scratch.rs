//! Storage outside of memory for indexing data that grows with the length of a film.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::index_error::{IndexError, IndexErrorKind};
use crate::stored::{Lost, Stored};

/// The maximum bytes put into a [`ScratchSpace`] at once. If a piece stays in memory, this size
/// makes the allocator map it separately and return it to the system when it is freed.
pub const SCRATCH_CHUNK: usize = 144 << 10;

/// Storage for bytes outside of memory, for example in a file.
pub trait ScratchSpace: std::fmt::Debug + Send + Sync {
    /// Stores these bytes, at most [`SCRATCH_CHUNK`], for as long as the returned object exists.
    /// `None` if it cannot, in which case they stay in memory.
    fn keep(&self, bytes: &[u8]) -> Option<Arc<dyn Stored>>;
}

/// A place for data that an indexer does not need at once, by default memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Scratch(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    space: Box<dyn ScratchSpace>,
    /// Whether some stored data could not be read back.
    is_lost: AtomicBool,
}

impl Scratch {
    /// Creates scratch storage that puts as much as possible into this space.
    pub fn new(space: impl ScratchSpace + 'static) -> Scratch {
        Scratch(Some(Arc::new(Inner {
            space: Box::new(space),
            is_lost: AtomicBool::new(false),
        })))
    }

    /// Stores bytes there, or in memory.
    pub(crate) fn keep(&self, bytes: &[u8]) -> Arc<dyn Stored> {
        let kept = self.0.as_ref().and_then(|inner| inner.space.keep(bytes));
        kept.unwrap_or_else(|| Arc::new(InMemory(bytes.into())))
    }

    /// Reads stored bytes and returns whether it succeeded; if not, derived results are invalid.
    pub(crate) fn read(&self, stored: &dyn Stored, at: u32, into: &mut [u8]) -> bool {
        let is_read = stored.read_at(at, into);
        if let Some(inner) = self.0.as_ref().filter(|_| !is_read) {
            inner.is_lost.store(true, Ordering::Relaxed);
        }
        is_read
    }

    /// Fails if data could not be read back, because results derived from the rest would be wrong.
    pub(crate) fn check(&self) -> Result<(), IndexError> {
        let is_lost = |inner: &Arc<Inner>| inner.is_lost.load(Ordering::Relaxed);
        if !self.0.as_ref().is_some_and(is_lost) {
            return Ok(());
        }
        Err(IndexError {
            path: String::new(),
            offset: 0,
            problem: Lost.to_string(),
            kind: IndexErrorKind::Scratch,
        })
    }
}

#[derive(Debug)]
struct InMemory(Box<[u8]>);

impl Stored for InMemory {
    fn read_at(&self, at: u32, into: &mut [u8]) -> bool {
        let bytes = self.0.get(at as usize..at as usize + into.len());
        bytes.inspect(|bytes| into.copy_from_slice(bytes)).is_some()
    }

    fn memory(&self) -> usize {
        self.0.len()
    }
}

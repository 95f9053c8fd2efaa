//! A block on its way from a source into the pool.

use std::ops::Range;
use std::sync::Arc;

use reelway_clock::Monotonic;
use reelway_sys::region::Page;

use crate::error::ReadError;
use crate::inner::Inner;
use crate::live::Read;
use crate::span::Pin;
use crate::tier::TierFilm;

/// A block to be filled with a film's bytes. It owns its memory, which is part of the pool and aligned
/// to 4096 bytes. Dropped without [`Fill::finish`] the read has failed.
pub struct Fill {
    /// `None` only while it is being finished.
    read: Option<Read>,
    store: Arc<Inner>,
    started: Monotonic,
    /// The film in the tier below, where the block is to be let in.
    keep: Option<Arc<TierFilm>>,
}

impl std::fmt::Debug for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fill({:?})", self.range())
    }
}

impl Fill {
    pub(crate) fn new(read: Read, store: Arc<Inner>) -> Fill {
        Fill {
            read: Some(read),
            store,
            started: reelway_clock::now(),
            keep: None,
        }
    }

    /// Has the block let in to the tier when it has come.
    pub(crate) fn keep_in(&mut self, film: Arc<TierFilm>) {
        self.keep = Some(film);
    }

    /// Its number in the film.
    pub(crate) fn block(&self) -> u32 {
        self.read.as_ref().map_or(0, |read| read.id.block)
    }

    /// First byte in the film: a multiple of the block size.
    pub fn offset(&self) -> u64 {
        let block_bytes = self.store.block_bytes();
        self.read
            .as_ref()
            .map_or(0, |read| u64::from(read.id.block) * block_bytes)
    }

    /// Bytes wanted: a block, less at the film's end.
    pub fn len(&self) -> usize {
        let film = self.read.as_ref().map_or(0, |read| read.source.len());
        film.saturating_sub(self.offset())
            .min(self.store.block_bytes()) as usize
    }

    /// Whether nothing is wanted, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes wanted.
    pub fn range(&self) -> Range<u64> {
        self.offset()..self.offset() + self.len() as u64
    }

    /// When the first who asked needs it. The pool gives nothing up when it has passed.
    pub fn deadline(&self) -> Monotonic {
        self.read
            .as_ref()
            .map_or(Monotonic::ZERO, |read| read.deadline)
    }

    /// All of the block's memory: as many bytes as are wanted, or more.
    pub fn buffer(&mut self) -> &mut [u8] {
        match &mut self.read {
            Some(Read {
                memory: Some(page), ..
            }) => page,
            _ => &mut [],
        }
    }

    /// The memory itself, for who hands it to the kernel; [`Fill::put_page`] brings it back.
    pub(crate) fn take_page(&mut self) -> Option<Page> {
        self.read.as_mut().and_then(|read| read.memory.take())
    }

    pub(crate) fn put_page(&mut self, page: Page) {
        if let Some(read) = &mut self.read {
            read.memory = Some(page);
        }
    }

    /// Tells all who wait for it: that the bytes are in the first [`Fill::len`] of [`Fill::buffer`], or
    /// why they are not. [`ReadError::Changed`] marks the whole film as changed: who asks for more of it
    /// fails at once, and [`crate::Store::open`] opens it anew.
    pub fn finish(mut self, result: Result<(), ReadError>) {
        self.end(result);
    }

    fn end(&mut self, result: Result<(), ReadError>) {
        let len = self.len();
        let Some(read) = self.read.take() else {
            return;
        };
        let result = match (result, &read.memory) {
            (Ok(()), None) => Err(ReadError::Closed),
            (result, _) => result,
        };
        if let Err(error) = &result {
            if matches!(error, ReadError::Changed { .. }) {
                read.source.set_changed();
            }
            if !matches!(error, ReadError::Closed) {
                tracing::warn!("{error}");
            }
        }
        let lane = &read.source.lane_by(read.queue).0;
        let now = reelway_clock::now();
        let time = now.since(self.started);
        if result.is_ok() {
            lane.note_wait(now.since(read.asked));
        }
        lane.note(time, result.is_ok().then_some(len));
        let (keep, number) = (self.keep.take(), read.id.block);
        let block = self
            .store
            .read_done(read, result.map(|()| len), keep.is_some());
        if let (Some(film), Some(block)) = (keep, block) {
            film.offer(number, Pin::new(block, Arc::clone(&self.store)), len);
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        // Dropped by a panic on its way: those who wait learn that.
        let error = match &self.read {
            Some(read) if std::thread::panicking() => ReadError::Fault {
                path: read.source.path().to_path_buf(),
            },
            _ => ReadError::Closed,
        };
        self.end(Err(error));
    }
}

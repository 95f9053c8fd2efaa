//! A block on its way from a source into the pool.

use std::ops::Range;

use reelway_clock::Monotonic;
use reelway_sys::region::Page;

use crate::error::ReadError;
use crate::span::Pin;

/// Called with a block that has come and its bytes, where it is kept for another purpose than who asked for it.
pub(crate) type Keep = Box<dyn FnOnce(Pin, usize) + Send>;

/// What becomes of a block when its read is over.
pub(crate) struct Read {
    /// Its memory, if it is there.
    pub page: Option<Page>,
    /// How it went; `None`: the fill was dropped.
    pub result: Option<Result<(), ReadError>>,
    pub keep: Option<Keep>,
}

/// Who asked for a block to be read.
pub(crate) trait Asker: Send {
    /// It has been read, or cannot be.
    fn is_over(self: Box<Self>, read: Read);
}

/// A block to be filled with a film's bytes. It owns its memory, which is part of the pool and aligned
/// to 4096 bytes. Dropped without [`Fill::finish`] the read has failed.
pub struct Fill {
    page: Option<Page>,
    /// Its number in the film.
    block: u32,
    range: Range<u64>,
    deadline: Monotonic,
    keep: Option<Keep>,
    /// `None` only while it is being finished.
    asker: Option<Box<dyn Asker>>,
}

impl std::fmt::Debug for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fill({:?})", self.range)
    }
}

impl Fill {
    /// A block of a film, by its number, that needs these bytes of the film by `deadline`.
    pub(crate) fn new(
        page: Option<Page>,
        (block, range): (u32, Range<u64>),
        deadline: Monotonic,
        asker: Box<dyn Asker>,
    ) -> Fill {
        Fill {
            page,
            block,
            range,
            deadline,
            keep: None,
            asker: Some(asker),
        }
    }

    /// Has the block kept for another purpose, too, when it has come.
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.keep = Some(keep);
    }

    /// Its number in the film.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// First byte in the film: a multiple of the block size.
    pub fn offset(&self) -> u64 {
        self.range.start
    }

    /// Bytes wanted: a block, less at the film's end.
    pub fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// Whether nothing is wanted, which cannot be.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes wanted.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// When the first who asked needs it. The pool gives nothing up when it has passed.
    pub fn deadline(&self) -> Monotonic {
        self.deadline
    }

    /// All of the block's memory: as many bytes as are wanted, or more.
    pub fn buffer(&mut self) -> &mut [u8] {
        match &mut self.page {
            Some(page) => page,
            None => &mut [],
        }
    }

    /// The memory itself, for who hands it to the kernel; [`Fill::put_page`] brings it back.
    pub(crate) fn take_page(&mut self) -> Option<Page> {
        self.page.take()
    }

    pub(crate) fn put_page(&mut self, page: Page) {
        self.page = Some(page);
    }

    /// Tells all who wait for it: that the bytes are in the first [`Fill::len`] of [`Fill::buffer`], or
    /// why they are not. [`ReadError::Changed`] marks the whole film as changed: who asks for more of it
    /// fails at once, and [`crate::Store::open`] opens it anew.
    pub fn finish(mut self, result: Result<(), ReadError>) {
        self.end(Some(result));
    }

    fn end(&mut self, result: Option<Result<(), ReadError>>) {
        if let Some(asker) = self.asker.take() {
            asker.is_over(Read {
                page: self.page.take(),
                result,
                keep: self.keep.take(),
            });
        }
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        self.end(None);
    }
}

//! A block being read from a source into the pool.

use std::ops::Range;

use reelway_clock::Monotonic;
use reelway_sys::region::Page;

use crate::error::ReadError;
use crate::span::Pin;

/// Called with a block that has been read, and its number of bytes, if it is kept for another
/// purpose, too.
pub(crate) type Keep = Box<dyn FnOnce(Pin, usize) + Send>;

/// The outcome of a read.
pub(crate) struct Read {
    /// The block's memory, if it has come back.
    pub page: Option<Page>,
    /// The result. `None`: the fill was dropped.
    pub result: Option<Result<(), ReadError>>,
    pub keep: Option<Keep>,
}

/// The requester of a block.
pub(crate) trait Asker: Send {
    /// Called when the block has been read, or cannot be.
    fn is_over(self: Box<Self>, read: Read);
}

/// A block to be filled with a film's bytes. It owns its memory, which is part of the pool and
/// aligned to 4096 bytes. If it is dropped without [`Fill::finish`], the read has failed.
pub struct Fill {
    page: Option<Page>,
    /// The block's number in the film.
    block: u32,
    range: Range<u64>,
    deadline: Monotonic,
    keep: Option<Keep>,
    /// `None` only while the fill is being finished.
    asker: Option<Box<dyn Asker>>,
}

impl std::fmt::Debug for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fill({:?})", self.range)
    }
}

impl Fill {
    /// Creates the fill of a block, given by its number, that needs these bytes of the film by
    /// `deadline`.
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

    /// Has the block kept for another purpose, too, once it has been read.
    pub(crate) fn keep(&mut self, keep: Keep) {
        self.keep = Some(keep);
    }

    /// Returns the block's number in the film.
    pub(crate) fn block(&self) -> u32 {
        self.block
    }

    /// Returns the offset of the first byte in the film, a multiple of the block size.
    pub fn offset(&self) -> u64 {
        self.range.start
    }

    /// Returns the number of bytes to read: the block size, or less at the film's end.
    pub fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    /// Returns whether no bytes are to be read, which never happens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the range of bytes to read.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the earliest deadline of the requests. The pool does not drop a read after its
    /// deadline.
    pub fn deadline(&self) -> Monotonic {
        self.deadline
    }

    /// Returns all of the block's memory, which is at least as long as the bytes to read.
    pub fn buffer(&mut self) -> &mut [u8] {
        match &mut self.page {
            Some(page) => page,
            None => &mut [],
        }
    }

    /// Takes the memory in order to pass it to the kernel; [`Fill::put_page`] returns it.
    pub(crate) fn take_page(&mut self) -> Option<Page> {
        self.page.take()
    }

    pub(crate) fn put_page(&mut self, page: Page) {
        self.page = Some(page);
    }

    /// Notifies all waiting requests that the bytes are in the first [`Fill::len`] of
    /// [`Fill::buffer`], or why they are not. [`ReadError::Changed`] marks the whole film as
    /// changed: further requests fail at once, and [`crate::Store::open`] opens it again.
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

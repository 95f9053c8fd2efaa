//! Blocks of the pool to write to.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use reelway_sys::region::Page;

use crate::inner::Inner;

/// An empty block of the pool, aligned to 4096 bytes, for assembling data that are written to a
/// disk past the page cache. Its initial contents are arbitrary. It returns to the pool when
/// dropped.
pub struct Buffer {
    /// `None` only while being dropped.
    page: Option<Page>,
    number: u32,
    store: Arc<Inner>,
}

impl Buffer {
    pub(crate) fn new(number: u32, page: Page, store: Arc<Inner>) -> Buffer {
        Buffer {
            page: Some(page),
            number,
            store,
        }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({})", self.number)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.page.as_deref().unwrap_or(&[])
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.page.as_deref_mut().unwrap_or(&mut [])
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(page) = self.page.take() {
            self.store.give_back(self.number, page);
        }
    }
}

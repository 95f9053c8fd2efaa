//! Blocks that the C program holds, by address.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{Buffer, Span};

/// Blocks given out to the C program.
#[derive(Default)]
pub(crate) struct Held(Mutex<BTreeMap<usize, Block>>);

enum Block {
    /// To be written to.
    Empty(Buffer),
    /// A block of a file, with one span for each time it was given out.
    Film(Vec<Span>),
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Block>> {
        // Consistent even after a panic: blocks are added and removed one at a time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out an empty block.
    pub fn lend(&self, mut buffer: Buffer) -> *mut u8 {
        let at = buffer.as_mut_ptr();
        self.lock().insert(at as usize, Block::Empty(buffer));
        at
    }

    /// Gives out a block of a file.
    pub fn show(&self, span: Span) -> *const u8 {
        let at = span
            .slices(span.range())
            .next()
            .map_or(std::ptr::null(), <[u8]>::as_ptr);
        if !at.is_null() {
            match self
                .lock()
                .entry(at as usize)
                .or_insert_with(|| Block::Film(Vec::new()))
            {
                Block::Film(spans) => spans.push(span),
                // A block is either a file's or empty.
                Block::Empty(_) => {}
            }
        }
        at
    }

    /// Takes a block back. Returns false if it was not given out.
    pub fn release(&self, at: *const u8) -> bool {
        let mut held = self.lock();
        let empty = match held.get_mut(&(at as usize)) {
            None => return false,
            Some(Block::Empty(_)) => true,
            Some(Block::Film(spans)) => {
                let span = spans.pop();
                let empty = spans.is_empty();
                if !empty {
                    drop(held);
                    drop(span);
                    return true;
                }
                empty
            }
        };
        let block = empty.then(|| held.remove(&(at as usize)));
        // Not under the lock: dropping a block may serve waiting requests on this thread.
        drop(held);
        drop(block);
        true
    }

    /// Calls `fill` with `len` bytes at this address if they begin in an empty block. Bytes beyond
    /// its end are left out.
    pub fn with<T>(&self, at: usize, len: usize, fill: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let (start, mut buffer) = {
            let mut held = self.lock();
            let (start, block) = held.range(..=at).next_back()?;
            let (start, inside) = match block {
                Block::Empty(buffer) => (*start, at < *start + buffer.len()),
                Block::Film(_) => return None,
            };
            match inside.then(|| held.remove(&start)) {
                Some(Some(Block::Empty(buffer))) => (start, buffer),
                _ => return None,
            }
        };
        // Taken out, so that other threads need not wait for the disk.
        let end = (at - start).saturating_add(len).min(buffer.len());
        let result = fill(&mut buffer[at - start..end]);
        self.lock().insert(start, Block::Empty(buffer));
        Some(result)
    }
}

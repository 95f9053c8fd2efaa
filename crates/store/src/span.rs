//! Pinned bytes.

use std::ops::Range;
use std::sync::Arc;

use reelway_hint as prefetch;
use reelway_sys::region::Page;

/// Notified when a block is released.
pub(crate) trait Owner: Send + Sync {
    /// Called when a block has been released.
    fn released(self: Arc<Self>);
}

/// A block in use. When it is released, waiting requests are served.
pub(crate) struct Pin {
    /// `None` only while being dropped.
    block: Option<reelway_pool::Pin<Page>>,
    owner: Arc<dyn Owner>,
}

impl Pin {
    pub fn new(block: reelway_pool::Pin<Page>, owner: Arc<dyn Owner>) -> Pin {
        Pin {
            block: Some(block),
            owner,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| block.memory())
    }
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        Pin {
            block: self.block.clone(),
            owner: Arc::clone(&self.owner),
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.block = None;
        Arc::clone(&self.owner).released();
    }
}

/// Bytes of a film, kept in memory as long as this span or a clone of it exists. Cheap to clone.
#[derive(Clone)]
pub struct Span(Arc<Pinned>);

struct Pinned {
    pins: Vec<Pin>,
    range: Range<u64>,
    block_bytes: u64,
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Span({:?})", self.0.range)
    }
}

/// Bytes of one block, which stays in memory as long as this part exists.
pub struct BlockPart {
    pin: Pin,
    number: u32,
    within: Range<usize>,
}

impl BlockPart {
    /// Returns the block's number in its film.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the whole block. Behind the film's end its contents are arbitrary.
    pub fn block(&self) -> &[u8] {
        self.pin.bytes()
    }

    /// Returns the range of these bytes in the block.
    pub fn within(&self) -> Range<usize> {
        self.within.clone()
    }
}

impl AsRef<[u8]> for BlockPart {
    fn as_ref(&self) -> &[u8] {
        &self.pin.bytes()[self.within.clone()]
    }
}

impl Span {
    pub(crate) fn new(pins: Vec<Pin>, range: Range<u64>, block_bytes: u64) -> Span {
        Span(Arc::new(Pinned {
            pins,
            range,
            block_bytes,
        }))
    }

    /// Returns its first block.
    pub(crate) fn first_block(&self) -> Option<Pin> {
        self.0.pins.first().cloned()
    }

    /// Returns the number of blocks that it keeps in memory.
    pub fn blocks(&self) -> usize {
        self.0.pins.len()
    }

    /// Returns the range of these bytes in the film.
    pub fn range(&self) -> Range<u64> {
        self.0.range.clone()
    }

    /// Returns the parts of blocks that hold `sub`, with the blocks' numbers. Bytes outside the
    /// span are left out.
    fn parts(&self, sub: Range<u64>) -> impl Iterator<Item = (&Pin, u64, Range<usize>)> + '_ {
        let Pinned {
            pins,
            range,
            block_bytes,
        } = &*self.0;
        let base = range.start / block_bytes * block_bytes;
        let (start, end) = (sub.start.max(range.start), sub.end.min(range.end));
        let mut at = start;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let number = (at - base) / block_bytes;
            let begin = base + number * block_bytes;
            let stop = end.min(begin + block_bytes);
            let within = (at - begin) as usize..(stop - begin) as usize;
            at = stop;
            Some((pins.get(number as usize)?, begin / block_bytes, within))
        })
    }

    /// Returns the film's bytes `sub` in order: one slice, or several if they cross blocks. Bytes
    /// outside the span are left out.
    #[inline]
    pub fn slices(&self, sub: Range<u64>) -> impl Iterator<Item = &[u8]> + '_ {
        self.parts(sub).map(|(pin, _, within)| &pin.bytes()[within])
    }

    /// Prefetches the pointers to the byte at `offset` into the processor's cache. Each call with
    /// the next `step`, from 0, goes one step further, because each step needs what the previous
    /// one has fetched. After three steps, the byte itself can be read or prefetched.
    pub fn prefetch(&self, offset: u64, step: u32) {
        if step == 0 {
            return prefetch::value(&*self.0);
        }
        let Pinned {
            pins,
            range,
            block_bytes,
        } = &*self.0;
        let Some(within) = offset.checked_sub(range.start / block_bytes * block_bytes) else {
            return;
        };
        let Some(pin) = pins.get((within / block_bytes) as usize) else {
            return;
        };
        match (step, &pin.block) {
            (1, _) => prefetch::value(pin),
            (_, Some(block)) => prefetch::value(block.memory()),
            _ => {}
        }
    }

    /// Returns the bytes `sub` as owned pieces, one per block, without copying. Each piece keeps
    /// its block.
    pub fn block_parts(&self, sub: Range<u64>) -> impl Iterator<Item = BlockPart> + '_ {
        self.parts(sub).map(|(pin, number, within)| BlockPart {
            pin: pin.clone(),
            // Films have fewer blocks than `u32::MAX`.
            number: number as u32,
            within,
        })
    }

    /// Copies the film's bytes from `offset` to all of `buf`. Returns false if the span does not
    /// contain all of them.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> bool {
        let Some(end) = offset.checked_add(buf.len() as u64) else {
            return false;
        };
        if offset < self.0.range.start || end > self.0.range.end {
            return false;
        }
        let mut at = 0;
        for slice in self.slices(offset..end) {
            buf[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        at == buf.len()
    }
}

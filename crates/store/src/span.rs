//! Pinned bytes.

use std::ops::Range;
use std::sync::Arc;

use reelway_hint as prefetch;
use reelway_sys::region::Page;

/// Who is told when a block is let go.
pub(crate) trait Owner: Send + Sync {
    /// A block was let go.
    fn released(self: Arc<Self>);
}

/// A block in use. When it is let go, those who wait for room are told.
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

/// Bytes of a film in memory, kept there as long as this or a clone of it exists. Cheap to clone.
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

/// Bytes of one block, which stays in memory as long as this.
pub struct BlockPart {
    pin: Pin,
    number: u32,
    within: Range<usize>,
}

impl BlockPart {
    /// The block's number in its film.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The whole block. Behind the film's end it holds anything.
    pub fn block(&self) -> &[u8] {
        self.pin.bytes()
    }

    /// Which bytes of the block these are.
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

    /// Its first block.
    pub(crate) fn first_block(&self) -> Option<Pin> {
        self.0.pins.first().cloned()
    }

    /// Blocks that it keeps in memory.
    pub fn blocks(&self) -> usize {
        self.0.pins.len()
    }

    /// Which bytes of the film these are.
    pub fn range(&self) -> Range<u64> {
        self.0.range.clone()
    }

    /// The parts of blocks that hold `sub`, with the blocks' numbers; what of it lies outside the span is left out.
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

    /// The bytes `sub` of the film, in order: one slice, or several where they cross blocks. What lies
    /// outside the span is left out.
    #[inline]
    pub fn slices(&self, sub: Range<u64>) -> impl Iterator<Item = &[u8]> + '_ {
        self.parts(sub).map(|(pin, _, within)| &pin.bytes()[within])
    }

    /// Fetches into the processor's cache what leads to the byte at `offset`, a step further each time it is
    /// called with the next `step`, from 0: each needs what the one before has fetched. After three, the
    /// next thing to read is the byte itself.
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

    /// The bytes `sub` as owned pieces, a piece a block, none of them copied. Each keeps its block.
    pub fn block_parts(&self, sub: Range<u64>) -> impl Iterator<Item = BlockPart> + '_ {
        self.parts(sub).map(|(pin, number, within)| BlockPart {
            pin: pin.clone(),
            // Films have fewer blocks than that.
            number: number as u32,
            within,
        })
    }

    /// Copies the film's bytes from `offset` on into all of `buf`; false if not all of them are here.
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

//! How much memory is made ready before it is used.
//!
//! As much is kept ready as is used already, and [`LEAST`] at least: a pool that is hardly used takes hardly any memory,
//! one that fills quickly finds what it needs. [`crate::Pool::wants_ready`] says when more is to be made ready.

/// Bytes kept ready at least, where the pool has them.
const LEAST: u64 = 64 << 20;
/// Bytes made ready at once, out of the pool meanwhile: those of a large page. A pool of no more is ready
/// from the beginning.
const AT_ONCE: u64 = 2 << 20;

/// How much of a pool is made ready, counted in blocks.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// Kept ready at least.
    pub least: usize,
    /// Made ready at once.
    pub at_once: usize,
}

impl Ahead {
    /// Of a pool of `count` blocks; `None` where it is so small that it is made ready at once.
    pub fn of(count: usize, block_bytes: u32) -> Option<Ahead> {
        let blocks = |bytes: u64| (bytes / u64::from(block_bytes)).max(1) as usize;
        (count > blocks(AT_ONCE)).then(|| Ahead {
            least: blocks(LEAST),
            at_once: blocks(AT_ONCE),
        })
    }
}

//! How much memory is made ready before it is used.
//!
//! [`LEAST`] before anybody is served, so that a large pool does not keep viewers waiting, and the rest little by little.

/// Bytes made ready before anybody is served, where the pool has them.
const LEAST: u64 = 64 << 20;
/// Bytes made ready at once, out of the pool meanwhile: those of a large page. A pool of no more is ready
/// from the beginning.
const AT_ONCE: u64 = 2 << 20;

/// How much of a pool is made ready, counted in blocks.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// Made ready before anybody is served.
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

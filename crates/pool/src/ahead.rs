//! How much memory is made ready before it is used.
//!
//! [`LEAST`] bytes are made ready before any viewer is served, so that a large pool does not delay
//! viewers; the rest follows little by little.

/// Bytes made ready before any viewer is served, if the pool is that large.
const LEAST: u64 = 64 << 20;
/// Bytes made ready at once, which are unavailable meanwhile: the size of a large page. A pool that
/// is no larger is ready from the beginning.
const AT_ONCE: u64 = 2 << 20;

/// How much of a pool is made ready in advance, in blocks.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// Blocks made ready before any viewer is served.
    pub least: usize,
    /// Blocks made ready at once.
    pub at_once: usize,
}

impl Ahead {
    /// Returns the amounts for a pool of `count` blocks. `None`: it is so small that all of it is
    /// made ready at once.
    pub fn of(count: usize, block_bytes: u32) -> Option<Ahead> {
        let blocks = |bytes: u64| (bytes / u64::from(block_bytes)).max(1) as usize;
        (count > blocks(AT_ONCE)).then(|| Ahead {
            least: blocks(LEAST),
            at_once: blocks(AT_ONCE),
        })
    }
}

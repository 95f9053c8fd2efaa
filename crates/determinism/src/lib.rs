//! Building blocks of repeatable runs: random numbers from a seed, and hash tables without one.
//!
//! Both are the same in every process, on every machine and in every version. Neither calls the
//! system, so pure crates may use them.
//!
//! | file | content |
//! |---|---|
//! | `random.rs` | [`Random`]: random numbers from a seed |
//! | `hash.rs` | [`FixedMap`]: a hash table whose order depends only on its contents |
#![forbid(unsafe_code)]

mod hash;
mod random;

pub use hash::{FixedHasher, FixedMap};
pub use random::Random;

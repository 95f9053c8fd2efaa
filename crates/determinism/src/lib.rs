//! What makes a run repeatable: random numbers from a seed, and hash tables without one.
//!
//! Both are the same in every process, on every machine and in every version. Neither asks the system for
//! anything, so pure crates may use them.
//!
//! | file | what lives there |
//! |---|---|
//! | `random.rs` | [`Random`]: random numbers from a seed |
//! | `hash.rs` | [`FixedMap`]: a hash table whose order depends only on what is put into it |
#![forbid(unsafe_code)]

mod hash;
mod random;

pub use hash::{FixedHasher, FixedMap};
pub use random::Random;

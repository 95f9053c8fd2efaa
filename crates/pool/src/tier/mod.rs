//! The bookkeeping of the tier: blocks of remote films that are kept on a local disk.
//!
//! It decides which block is in which slot, which blocks are admitted and evicted, and how much may
//! be written per day. The time, and what was found on the disk, are arguments; files and threads
//! belong to the store.
//!
//! | file | content |
//! |---|---|
//! | `books.rs` | which block is in which slot, which are evicted and admitted |
//! | `missed.rs` | how often a block was missed |
//! | `budget.rs` | bytes that may be written per day |
//! | `stats.rs` | statistics |

mod books;
mod budget;
mod missed;
mod stats;

pub use books::{Books, Look, Record, TierBlock};
pub use budget::{Budget, HOURS, Hours};
pub use stats::TierStats;

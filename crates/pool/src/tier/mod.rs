//! The books of the tier: blocks of films that lie afar, kept on a local disk.
//!
//! Which block is in which slot, which is let in, which makes room, and how much may be written in a day. Time, and what
//! was found on the disk, are arguments; the files and the threads are the store's.
//!
//! | file | what lives there |
//! |---|---|
//! | `books.rs` | which block lies where, which makes room, which is let in |
//! | `missed.rs` | how often a block was missed |
//! | `budget.rs` | bytes that may be written in a day |
//! | `stats.rs` | what is counted |

mod books;
mod budget;
mod missed;
mod stats;

pub use books::{Books, Look, Record, TierBlock};
pub use budget::{Budget, HOURS, Hours};
pub use stats::TierStats;

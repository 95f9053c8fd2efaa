//! Block pool, block cache, block sources.
//!
//! What lives here: a bounded pool of memory blocks that film files are read into by direct I/O, and
//! the cache that keeps them for the next viewer. Bytes are asked for by range and deadline
//! ([`Store::fetch`]) and given out as a [`Span`]: pinned blocks that nobody copies. Whoever holds a
//! span keeps its blocks; which of those that nobody holds is overwritten, a policy decides (`reelway-cache`).
//!
//! ```text
//!   fetch ──▶ pool: in memory? ──no──▶ the lane's queue ──by deadline──▶ BlockSource ──▶ Fill::finish
//!               └──yes──▶ Span                            at most depth    (disk, origin)      └──▶ Span
//! ```
//!
//! | file | what lives there |
//! |---|---|
//! | `draft.rs` | a film file in the making |
//! | `store.rs`, `inner.rs` | what others see; what their handles share |
//! | `pool.rs`, `pool/` | which blocks hold what, who waits for what: pure bookkeeping under one lock |
//! | `ahead.rs` | memory made ready before it is used |
//! | `sync.rs`, `orders.rs` | the locks, and the store under threads whose steps come in any order |
//! | `films.rs` | small numbers for films |
//! | `watcher.rs` | what the cache policy is told of viewers |
//! | `span.rs`, `fill.rs`, `buffer.rs` | pinned bytes; a block on its way; a block to write into |
//! | `source.rs`, `lane.rs` | where bytes come from, and how many at a time |
//! | `tier/` | blocks from afar on a local disk, below memory |
//! | `local.rs`, `disk.rs` | local files, and the thread of each disk |
#![forbid(unsafe_code)]

mod ahead;
mod buffer;
mod disk;
mod draft;
mod error;
mod fill;
mod films;
mod inner;
mod lane;
mod local;
#[cfg(test)]
mod orders;
mod pool;
mod source;
mod span;
mod store;
mod sync;
mod tier;
mod watcher;

pub use buffer::Buffer;
pub use draft::{Draft, remove_abandoned_drafts};
pub use error::{ReadError, StoreError};
pub use fill::Fill;
pub use lane::{Lane, LaneStats};
pub use source::{BlockSource, Opener, Source};
pub use span::Span;
pub use store::{Observer, ReadBy, Store, StoreConfig, StoreStats};
pub use tier::{TierConfig, TierStats};
pub use watcher::Watcher;

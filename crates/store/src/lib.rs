//! Block pool, block cache, block sources.
//!
//! What lives here: a bounded pool of memory blocks that film files are read into by direct I/O, and
//! the cache that keeps them for the next viewer. Its books are those of `reelway-pool`; this crate has the memory, the
//! sources, the clock, the lock and the threads. Bytes are asked for by range and deadline
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
//! | `fetch.rs` | how bytes are asked for |
//! | `live.rs` | what the pool's blocks, sources and answers are here |
//! | `ahead.rs` | the thread that makes memory ready before it is used |
//! | `sync.rs`, `orders.rs` | the locks, and the store under threads whose steps come in any order |
//! | `watcher.rs` | what the cache policy is told of viewers |
//! | `span.rs`, `buffer.rs` | pinned bytes; a block to write into |
//! | `fill.rs`, `landing.rs` | a block on its way, and what follows when it is there |
//! | `block_source.rs`, `source.rs`, `lane.rs` | where bytes come from, and how many at a time |
//! | `config.rs`, `observer.rs` | how a store is to be; who looks on |
//! | `metrics.rs` | what it counts, as metrics |
//! | `tier/` | blocks from afar on a local disk, below memory |
//! | `view.rs` | films whose samples do not lie in their files as they are played |
//! | `local.rs`, `disk.rs` | local files, and the thread of each disk |
#![forbid(unsafe_code)]

mod ahead;
mod block_source;
mod buffer;
mod config;
mod disk;
mod draft;
mod error;
mod fetch;
mod fill;
mod inner;
mod landing;
mod lane;
mod live;
mod local;
mod metrics;
mod observer;
#[cfg(test)]
mod orders;
mod source;
mod span;
mod store;
mod sync;
mod tier;
mod view;
mod watcher;

pub use block_source::{BlockSource, Opener};
pub use buffer::Buffer;
pub use config::{ReadBy, StoreConfig};
pub use draft::{Draft, remove_abandoned_drafts};
pub use error::{ReadError, StoreError};
pub use fill::Fill;
pub use lane::{Lane, LaneKind, LaneStats};
pub use observer::Observer;
pub use reelway_pool::tier::TierStats;
pub use source::Source;
pub use span::{BlockPart, Span};
pub use store::{Store, StoreStats};
pub use tier::TierConfig;
pub use view::{Making, View};
pub use watcher::Watcher;

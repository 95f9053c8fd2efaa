//! Block pool, block cache, block sources.
//!
//! This crate contains a bounded pool of memory blocks into which film files are read by direct
//! I/O, and the cache that keeps them for the next viewer. The bookkeeping is done by
//! `reelway-pool`; this crate has the memory, the sources, the clock, the lock and the threads.
//! Bytes are requested by range and deadline ([`Store::fetch`]) and returned as a [`Span`]: pinned
//! blocks that are never copied. A span keeps its blocks in memory. A policy (`reelway-cache`)
//! decides which of the unpinned blocks is overwritten.
//!
//! ```text
//!   fetch ──▶ pool: in memory? ──no──▶ the lane's queue ──by deadline──▶ BlockSource ──▶ Fill::finish
//!               └──yes──▶ Span                            at most depth    (disk, origin)      └──▶ Span
//! ```
//!
//! | file | content |
//! |---|---|
//! | `draft.rs` | a film file being written |
//! | `store.rs`, `inner.rs` | the public interface; the state that its handles share |
//! | `fetch.rs` | requests for bytes |
//! | `live.rs` | the types of the pool's blocks, sources and answers |
//! | `ahead.rs` | the thread that prepares memory before it is used |
//! | `sync.rs`, `orders.rs` | the locks; the store under many interleavings of threads |
//! | `watcher.rs` | reports about viewers to the cache policy |
//! | `span.rs`, `buffer.rs` | pinned bytes; a block to write to |
//! | `fill.rs`, `landing.rs` | a block being read; the follow-up of the read |
//! | `block_source.rs`, `source.rs`, `lane.rs` | the sources of bytes, and their capacity |
//! | `config.rs`, `observer.rs` | configuration; observers of accesses |
//! | `metrics.rs` | the statistics as metrics |
//! | `tier/` | remote blocks on a local disk, below memory |
//! | `view.rs` | films whose samples are not played as they lie in their files |
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

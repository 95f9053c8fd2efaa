//! Block pool, block cache, block sources.
//!
//! What lives here: a bounded pool of memory blocks that film files are read into by direct I/O, and
//! the cache that keeps them for the next viewer. Bytes are asked for by range and deadline
//! ([`Store::fetch`]) and given out as a [`Span`]: pinned blocks that nobody copies. Whoever holds a
//! span keeps its blocks; what nobody holds may be overwritten, the longest unused first.
//!
//! | file | what lives there |
//! |---|---|
//! | `draft.rs` | a film file in the making |
//! | `source.rs` | an opened film file and its identity |
//! | `span.rs` | pinned bytes |
//! | `pool.rs` | which blocks hold what, who waits for what: pure bookkeeping under one lock |
//! | `order.rs` | blocks in the order of their last use |
//! | `reader.rs` | the threads that read |
#![forbid(unsafe_code)]

mod draft;
mod error;
mod order;
mod pool;
mod reader;
mod source;
mod span;
mod store;

pub use draft::{Draft, remove_abandoned_drafts, sync_directory};
pub use error::{ReadError, StoreError};
pub use source::Source;
pub use span::Span;
pub use store::{Store, StoreConfig, StoreStats};

//! The bookkeeping of the block pool: which memory block holds what, which requests are waiting,
//! what is read next, and what is evicted for it.
//!
//! The crate is pure: it reads no clock, starts no thread, takes no lock and makes no callbacks.
//! The time is an argument of each call. The effects of a change are returned as values, which the
//! owner carries out after releasing its lock:
//!
//! | value | the owner's part |
//! |---|---|
//! | [`Finished`] | deliver a request's answer to the owner of its [`World::Tag`] |
//! | [`Read`] | carry out a read; return it through [`Pool::read_done`] |
//! | [`Pin`] | drop it after use, then call [`Pool::dispatch`] if a request is waiting |
//!
//! The same calls have the same outcome in every process: hash tables are never iterated, or only
//! for counting, their hasher has no seed, and nothing is ordered by address. The crate `store`
//! supplies memory, sources and threads; a simulation needs none of these.
//!
//! | file | content |
//! |---|---|
//! | `world.rs` | what the pool leaves to its owner: memory, sources, tags, errors, files |
//! | `request.rs` | requests, their answers, and reads |
//! | `pool/` | finding the blocks of requests, and filling them by reads |
//! | `pool/queue.rs`, `pool/lines.rs` | the reads of a place; waiting reads and requests |
//! | `pool/census.rs`, `pool/room.rs` | blocks by state; blocks are evicted and made ready |
//! | `block.rs` | a block that holds bytes, and its pins |
//! | `ahead.rs` | how much memory is made ready before it is used |
//! | `films.rs` | small numbers for films |
//! | `news.rs` | information about films and viewers for the cache policy |
//! | `tier/` | the bookkeeping of the tier on a local disk |
#![forbid(unsafe_code)]

mod ahead;
mod block;
mod films;
mod news;
mod pool;
mod request;
pub mod tier;
mod world;

pub use ahead::Ahead;
pub use block::Pin;
pub use news::News;
pub use pool::{Census, Counters, Pool};
pub use request::{Failure, Finished, Given, Purpose, Read, Request};
pub use world::{Source, World};

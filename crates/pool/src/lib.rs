//! The block pool's books: which block of memory holds what, who waits for what, what is read next and what is
//! forgotten for it.
//!
//! Pure: it reads no clock, starts no thread, takes no lock and calls nobody back. The moment comes in with each call, and
//! what follows from a change comes out as values, which the owner carries out when it has let go of its lock:
//!
//! | value | the owner's part |
//! |---|---|
//! | [`Finished`] | a request's answer, for the one whose [`World::Tag`] it carries |
//! | [`Read`] | a read to begin; it comes back by [`Pool::read_done`] |
//! | [`Pin`] | a block in use, until it is dropped; then [`Pool::dispatch`], if a request waits |
//!
//! The same calls have the same outcome in every process: tables of hashes are either never iterated or only counted,
//! their hasher has no seed, and nothing is ordered by an address. The crate `store` gives it memory, sources and
//! threads; a simulation gives it neither.
//!
//! | file | what lives there |
//! |---|---|
//! | `world.rs` | what the pool leaves to its owner: memory, sources, tags, errors, files |
//! | `request.rs` | requests, their answers, and reads |
//! | `pool/` | requests find their blocks, and reads fill them |
//! | `pool/queue.rs`, `pool/lines.rs` | a place's reads; who waits: for a lane's turn, for room, for a lane's part of the pool |
//! | `pool/census.rs`, `pool/room.rs` | how many blocks are where; which blocks are free, made free and made ready |
//! | `block.rs` | a block that holds bytes, and its pins |
//! | `ahead.rs` | how much memory is made ready before it is used |
//! | `films.rs` | small numbers for films |
//! | `news.rs` | what the cache policy learns of films and viewers |
//! | `tier/` | the books of the tier on a local disk |
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

//! Films on other servers.
//!
//! This crate is the network side of a film on another server. A *source* is one or several
//! *endpoints* (web servers, another Reelway, S3 and compatible stores) that have the same films.
//! It is read by byte ranges, each of the version that was indexed (its ETag is pinned; a recording
//! at another Reelway may grow meanwhile). Failed reads are retried, also at the other endpoints. A
//! source also lists its films. *Siblings*, other edges of the same films, are asked before it
//! ([`Group`]). For the other crates, a source is a [`reelway_store::Opener`] and a
//! [`reelway_catalogue::Shelf`]: its films play like films on a disk.
#![forbid(unsafe_code)]

mod address;
mod api;
mod beside;
mod check;
mod config;
mod endpoint;
mod fault;
mod folders;
mod follow;
mod indexes;
mod listing;
mod lists;
mod look;
mod made;
mod origin;
mod recording;
mod redirects;
mod retry;
mod rounds;
mod s3;
mod secret;
mod siblings;
mod source;
mod stats;
mod texts;
mod turns;
mod version;
mod via;
mod web;

pub use address::{Address, AddressError, Scheme};
pub use api::Api;
pub use config::{LONGEST_STALE, MOST_CONNECTIONS, S3Config, SourceConfig, Wanted};
pub use fault::{Fault, Meaning};
pub use origin::Origin;
pub use redirects::is_host;
pub use retry::{Attempts, Health, Next, Patience};
pub use secret::{Secret, SecretError};
pub use siblings::{Group, GroupConfig, Load, Own, Places, SiblingStats};
pub use stats::OriginStats;
pub use version::Version;

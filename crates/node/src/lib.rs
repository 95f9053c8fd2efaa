//! A node: the parts of the server, made according to the configuration and connected with each
//! other. It is a machine that serves films of its own, or an edge.
//!
//! | file | content |
//! |---|---|
//! | `serving.rs` | a machine that serves films: start and stop |
//! | `config/`, `config.toml` | the configuration file: reading, checks, keys, reference |
//! | `sources.rs`, `films.rs` | the films: configuration of remote sources, and the libraries |
//! | `edge.rs` | the differences of an edge, which serves films of other servers |
//! | `addresses.rs`, `lan.rs` | listening addresses, and the addresses shown to users |
//! | `amounts.rs`, `judging.rs` | capacity as users write it, and the rules of admission |
//! | `calibrate.rs`, `calibration.rs`, `process.rs` | measured capacity; its file; server process |
//! | `ticking.rs`, `disks.rs`, `wire.rs` | work of each second: measuring disks and networks |
//! | `kept.rs`, `prefill.rs`, `popularity.rs` | films to keep, films to prefetch, popularity |
//! | `keeping.rs` | fetching films to the tier |
//! | `film_addresses.rs` | redirects to the address of a film, behind a director |
//! | `elsewhere.rs` | the servers of remote films, for metrics and the API |
//! | `view.rs`, `token.rs` | the server's state for pages and API; its token and id |
#![forbid(unsafe_code)]

mod addresses;
pub mod amounts;
pub mod calibrate;
pub mod calibration;
pub mod config;
mod disks;
pub mod edge;
mod elsewhere;
mod film_addresses;
mod films;
mod judging;
mod keeping;
mod kept;
pub mod lan;
mod popularity;
mod prefill;
pub mod process;
mod serving;
pub mod sources;
mod ticking;
mod token;
mod view;
mod wire;

pub use addresses::Addresses;
pub use serving::Serving;

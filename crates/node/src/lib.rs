//! A node: the parts of the server, made as they are configured and connected with each other: a machine that serves films
//! of its own, or an edge.
//!
//! | file | what lives there |
//! |---|---|
//! | `serving.rs` | a machine that serves films: started, and stopped |
//! | `config/`, `config.toml` | the configuration file: read and checked, its keys, its commented reference |
//! | `sources.rs`, `films.rs` | which films: elsewhere as they are configured, and the libraries |
//! | `edge.rs` | what is different for an edge, which serves films of other servers |
//! | `addresses.rs`, `lan.rs` | where it listens, and what people are told of that |
//! | `amounts.rs`, `judging.rs` | what the machine carries, as it is written, and how newcomers are judged by it |
//! | `calibrate.rs`, `calibration.rs`, `process.rs` | what it carries is measured; what was found is kept; a server in another process |
//! | `ticking.rs`, `disks.rs`, `wire.rs` | what is done once a second: what disks and networks really carry |
//! | `kept.rs`, `prefill.rs`, `popularity.rs` | which films are kept on the tier, which are brought there at night, and how much each is watched |
//! | `keeping.rs` | films are brought to the tier |
//! | `film_addresses.rs` | viewers are sent to the address of their film, behind a director |
//! | `elsewhere.rs` | the servers that remote films come from, as metrics |
//! | `view.rs`, `token.rs` | what pages and API show of the server, what is made at the first start and kept |
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

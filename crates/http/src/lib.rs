//! HTTP: HLS, DASH, files by byte ranges, the control API, metrics, and the web pages.
//!
//! This crate serves everything that browsers and HTTP players request. Media bodies are slices of
//! the store's blocks between generated headers ([`reelway_package`]), copied only where that is
//! cheaper, at most one block ahead of the socket, and paced by the film's own time. Viewers are
//! sessions like those of RTSP.
//!
//! | file | content |
//! |---|---|
//! | `app.rs`, `status.rs`, `config.rs` | the parts, connected; the server's state; settings |
//! | `server.rs`, `connection.rs`, `peer.rs` | listening, connections and their peers |
//! | `tls/` | encrypted connections |
//! | `front.rs`, `guard.rs`, `route.rs` | a request's path: checks, addresses |
//! | `watch/`, `media.rs`, `conditional.rs` | playlists, segments and files; conditional and range requests |
//! | `desk.rs`, `blocking.rs` | texts made on request, off the reactor and within one limit |
//! | `films.rs`, `renditions.rs` | films, packaged and opened; their renditions |
//! | `shadow.rs` | hit ratios of other cache policies for the same requests |
//! | `viewers.rs`, `viewer.rs` | viewers and their sessions |
//! | `body.rs`, `flow.rs`, `pieces.rs` | media bodies, window by window |
//! | `budget.rs`, `downloads.rs`, `speed.rs` | what bodies may pin, what downloads may take, how fast a connection sends |
//! | `repeated.rs`, `giving.rs` | blocks sent more than once, and sending without a copy |
//! | `upload/` | uploading and deleting films |
//! | `api/`, `node.rs` | the control API; the rest of the server as it shows it |
//! | `metrics/`, `health.rs` | counters, Prometheus; health |
#![forbid(unsafe_code)]

mod answer;
mod api;
mod app;
mod blocking;
mod body;
mod budget;
mod conditional;
mod config;
mod connection;
mod desk;
mod downloads;
mod films;
mod flow;
mod front;
mod giving;
mod guard;
mod health;
mod media;
mod metrics;
mod node;
mod peer;
mod pieces;
mod process;
mod renditions;
mod repeated;
mod route;
mod server;
mod shadow;
mod speed;
mod status;
mod tls;
mod upload;
mod viewer;
mod viewers;
mod watch;

pub use config::{HttpConfig, TlsConfig};
pub use node::{
    Addresses, Calibrated, NodeState, NodeView, OtherServer, Prefill, PrefillFilm, Problem,
};
pub use reelway_viewing::pinned_blocks;
pub use repeated::repeated_bytes;
pub use server::HttpServer;

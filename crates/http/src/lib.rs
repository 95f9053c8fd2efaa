//! HTTP: HLS, DASH, files by byte ranges, the control API, metrics, and the web pages.
//!
//! What lives here: everything that a browser or an HTTP player asks for. Media bodies are slices of
//! the store's blocks between generated headers ([`reelway_package`]), never copied but where that is
//! cheaper, at most one block ahead of the socket, and paced by the film's own time. Viewers are
//! sessions like those of RTSP.
//!
//! | file | what lives there |
//! |---|---|
//! | `server.rs`, `connection.rs`, `peer.rs` | listening, connections and whose they are |
//! | `app.rs`, `guard.rs`, `route.rs` | a request's way: checks, addresses |
//! | `watch.rs`, `media.rs`, `conditional.rs` | playlists, segments and files; conditional and range requests |
//! | `desk.rs` | texts that are made on request, off the reactor and within one bound |
//! | `films.rs` | films, packaged and opened |
//! | `shadow.rs` | what other cache policies would have made of the same requests |
//! | `viewers.rs`, `viewer.rs`, `pace.rs` | who watches, and how fast he is sent |
//! | `body.rs`, `pieces.rs` | bodies of media |
//! | `upload.rs`, `upload/` | films that are put and deleted |
//! | `api/` | the control API of `docs/reference/api.md` |
//! | `metrics/`, `health.rs` | counters, Prometheus; whether the server is well |
//! | `web.rs` | the web pages in the binary |
#![forbid(unsafe_code)]

mod answer;
mod api;
mod app;
mod body;
mod conditional;
mod config;
mod connection;
mod desk;
mod films;
mod guard;
mod health;
mod media;
mod metrics;
mod node;
mod pace;
mod peer;
mod pieces;
mod process;
mod route;
mod server;
mod shadow;
mod spare;
mod upload;
mod viewer;
mod viewers;
mod watch;
mod web;

pub use body::pinned_blocks;
pub use config::HttpConfig;
pub use node::{Addresses, Calibrated, NodeState, NodeView, Problem, Sending};
pub use server::HttpServer;

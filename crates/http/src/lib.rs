//! HTTP: HLS, DASH, files by byte ranges, the control API, metrics, and the web pages.
//!
//! What lives here: everything that a browser or an HTTP player asks for. Media bodies are slices of
//! the store's blocks between generated headers ([`reelway_package`]), never copied but where that is
//! cheaper, at most one block ahead of the socket, and paced by the film's own time. Viewers are
//! sessions like those of RTSP.
//!
//! | file | what lives there |
//! |---|---|
//! | `app.rs`, `status.rs`, `config.rs` | the parts, put together; how the server is; settings |
//! | `server.rs`, `connection.rs`, `peer.rs` | listening, connections and whose they are |
//! | `tls/` | connections that are encrypted |
//! | `front.rs`, `guard.rs`, `route.rs` | a request's way: checks, addresses |
//! | `watch/`, `media.rs`, `conditional.rs` | playlists, segments and files; conditional and range requests |
//! | `desk.rs`, `blocking.rs` | texts that are made on request, off the reactor and within one bound |
//! | `films.rs`, `renditions.rs` | films, packaged and opened; which renditions of them players may change between |
//! | `shadow.rs` | what other cache policies would have made of the same requests |
//! | `viewers.rs`, `viewer.rs` | who watches |
//! | `body.rs`, `flow.rs`, `pieces.rs` | bodies of media, window by window |
//! | `budget.rs`, `downloads.rs`, `speed.rs` | what bodies may pin, what downloads may take, how fast a connection sends |
//! | `repeated.rs`, `giving.rs` | blocks that are sent more than once, and how sockets get them without a copy |
//! | `upload/` | films that are put and deleted |
//! | `api/`, `names.rs` | the control API of `docs/reference/api.md` |
//! | `metrics/`, `health.rs` | counters, Prometheus; whether the server is well |
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

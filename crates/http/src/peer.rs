//! Where a request came from.

use std::net::SocketAddr;

/// The address a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

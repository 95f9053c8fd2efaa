//! The peer of a request.

use std::net::SocketAddr;

/// The address from which a request came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

//! A viewer who wants to watch.

use std::net::SocketAddr;
use std::time::Duration;

use reelway_admission::Wants;

use crate::protocol::Protocol;

/// A newcomer.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// How the film is to be delivered.
    pub protocol: Protocol,
    /// The viewer's address.
    pub peer: SocketAddr,
    /// The number of the connection that they came over ([`crate::new_connection`]).
    pub connection: u64,
    /// What the viewer wants to see.
    pub title: String,
    /// The film's length.
    pub duration: Duration,
    /// What the viewer's program calls itself, already cut to a sane length by the protocol.
    pub user_agent: Option<String>,
    /// What follows `?` in the address of the request: it may name the user ([`crate::Users`]).
    pub query: Option<String>,
    /// What they take of the film; if that is not known, nothing is booked for them.
    pub wants: Option<Wants>,
}

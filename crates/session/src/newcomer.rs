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
    /// The number of their connection ([`crate::new_connection`]).
    pub connection: u64,
    /// The title they want to watch.
    pub title: String,
    /// The film's length.
    pub duration: Duration,
    /// The name of the viewer's program, already cut to a reasonable length by the protocol.
    pub user_agent: Option<String>,
    /// The query of the request's URL: it may name the user ([`crate::Users`]).
    pub query: Option<String>,
    /// What they take of the film; if that is not known, nothing is booked for them.
    pub wants: Option<Wants>,
}

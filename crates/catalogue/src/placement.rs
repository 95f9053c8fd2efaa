//! Chooses the server to which a viewer of a film is sent, if several servers have the same films.

use std::pin::Pin;
use std::sync::Arc;

use crate::entry::Film;

/// A film on another server, by the addresses that viewers use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `rtsp://host:port`.
    pub rtsp: String,
    /// `http://host:port`.
    pub http: String,
    /// The film's title there.
    pub title: String,
}

/// A film, with what a server's viewers watch of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Number of the film's version ([`reelway_sys::FileIdentity::number`]).
    pub film: u128,
    /// Number of viewers.
    pub viewers: u64,
    /// Bytes per second that they take together, on average.
    pub rate: u64,
}

/// Maximum number of films that a server reports to others: those with the most viewers.
pub const MOST_WATCHED: usize = 32;

/// A future value, for example where films are.
pub type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Knows the server to which viewers of a film are sent.
pub trait Placement: Send + Sync {
    /// Returns where a new viewer of this film is to be sent. `None`: this server is to serve them.
    /// Answers within a second.
    fn place<'a>(&'a self, film: &'a Arc<Film>) -> Soon<'a, Option<Place>>;

    /// Returns the addresses of the other servers for viewers over HTTP: `http://host:port`.
    fn addresses(&self) -> Vec<String>;

    /// Returns other servers that play this film, the best first. Players continue there if this
    /// server fails.
    fn others<'a>(&'a self, film: &'a Arc<Film>) -> Soon<'a, Vec<Place>>;
}

/// A server without others.
#[derive(Debug)]
pub struct Alone;

impl Placement for Alone {
    fn place<'a>(&'a self, _: &'a Arc<Film>) -> Soon<'a, Option<Place>> {
        Box::pin(async { None })
    }

    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn others<'a>(&'a self, _: &'a Arc<Film>) -> Soon<'a, Vec<Place>> {
        Box::pin(async { Vec::new() })
    }
}

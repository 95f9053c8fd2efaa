//! Which server a viewer of a film is sent to, where several have the same films.

use std::pin::Pin;
use std::sync::Arc;

use crate::entry::Film;

/// A film at another server, as viewers reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// `rtsp://host:port`.
    pub rtsp: String,
    /// `http://host:port`.
    pub http: String,
    /// What it is called there.
    pub title: String,
}

/// A film, by what viewers of a server watch of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The number of its version ([`reelway_sys::FileIdentity::number`]).
    pub film: u128,
    /// How many there are.
    pub viewers: u64,
    /// Bytes a second that they take together, on average.
    pub rate: u64,
}

/// Films with the most viewers that a server tells others of.
pub const MOST_WATCHED: usize = 32;

/// What will be known of where films are.
pub type Soon<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Knows which of several servers viewers of a film are sent to.
pub trait Placement: Send + Sync {
    /// Where a new viewer of this film is to go; `None`: they are to be served here. Answers within a second.
    fn place<'a>(&'a self, film: &'a Arc<Film>) -> Soon<'a, Option<Place>>;

    /// Where viewers reach the other servers over HTTP: `http://host:port`.
    fn addresses(&self) -> Vec<String>;

    /// Other servers that play this film, the best first: a player goes on there if this one fails.
    fn others<'a>(&'a self, film: &'a Arc<Film>) -> Soon<'a, Vec<Place>>;
}

/// One server alone.
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

//! What the cache policy learns of films and viewers.

use std::time::Duration;

use reelway_cache::{Film, FilmId, Policy, ViewerId, Watching};

/// News for the policy, which has to know them before it is asked for anything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// A film's shape is known.
    Film(FilmId, Film),
    /// A viewer has come to a place.
    Watches(ViewerId, Watching),
    /// A viewer has left.
    Left(ViewerId),
}

impl News {
    pub(crate) fn tell(self, policy: &mut dyn Policy, now: Duration) {
        match self {
            News::Film(film, shape) => policy.film(film, shape, now),
            News::Watches(viewer, watching) => policy.watch(viewer, watching, now),
            News::Left(viewer) => policy.left(viewer, now),
        }
    }
}

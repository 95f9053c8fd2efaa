//! Information about films and viewers for the cache policy.

use std::time::Duration;

use reelway_cache::{Film, FilmId, Policy, ViewerId, Watching};

/// News for the policy, which must receive it before its next decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// The size and duration of a film are known.
    Film(FilmId, Film),
    /// A viewer has moved to a position.
    Watches(ViewerId, Watching),
    /// A viewer has left.
    Left(ViewerId),
}

impl News {
    pub(crate) fn pass_on(self, policy: &mut dyn Policy, now: Duration) {
        match self {
            News::Film(film, shape) => policy.film(film, shape, now),
            News::Watches(viewer, watching) => policy.watch(viewer, watching, now),
            News::Left(viewer) => policy.left(viewer, now),
        }
    }
}

//! What a look at the shelf makes of the entries of films.

use std::sync::Arc;

use reelway_clock::Monotonic;

use crate::entry::{Entry, State};
use crate::growth::{First, Growing};
use crate::sets::Set;
use crate::shelf::Found;

/// The entry of a film in this state.
pub(crate) fn new_entry(name: &str, found: &Found, state: State) -> Entry {
    Entry {
        name: name.to_owned(),
        path: found.path.clone(),
        file: found.file.clone(),
        identity: found.identity,
        via: found.via.clone(),
        subtitles: found.subtitles.clone(),
        set: Set::default(),
        state,
        first: None,
        growing: None,
    }
}

/// The entry of a film that is the same file; whether lists show something else.
pub(crate) fn same(old: Arc<Entry>, found: &Found, set: Set, now: Monotonic) -> (Arc<Entry>, bool) {
    let shows_else = old.subtitles != found.subtitles || old.set != set;
    // Whether a recording on another server grows, that one says.
    let (first, growing) = match (&old.state, found.said) {
        (State::Ready(summary), Some(said)) => (
            First::of_any(old.identity, summary.duration, Some(said), old.first),
            said.grows.then_some(Growing {
                seen: now,
                is_behind: false,
                is_begun: false,
            }),
        ),
        _ => (old.first, old.growing),
    };
    let is_same =
        !shows_else && old.via == found.via && (first, growing) == (old.first, old.growing);
    let entry = match is_same {
        true => old,
        false => Arc::new(Entry {
            via: found.via.clone(),
            subtitles: found.subtitles.clone(),
            set,
            first,
            growing,
            ..(*old).clone()
        }),
    };
    (entry, shows_else)
}

/// The entry of a film that has grown, and plays as far as it was indexed.
pub(crate) fn grown(old: &Entry, found: &Found, set: Set, now: Monotonic) -> Entry {
    let first = match &old.state {
        State::Ready(summary) => {
            let first = First::of(old.identity, summary.duration);
            let known = old.first.or(Some(first));
            First::of_any(old.identity, summary.duration, found.said, known)
        }
        _ => old.first,
    };
    Entry {
        subtitles: found.subtitles.clone(),
        set,
        first,
        growing: Some(Growing {
            seen: now,
            is_behind: true,
            is_begun: old.is_begun(),
        }),
        ..old.clone()
    }
}

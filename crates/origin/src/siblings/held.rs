//! What is known of a film at each sibling.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_supervise as supervise;
use reelway_sys::FileIdentity;

use crate::version::Version;

/// Time after which a sibling that lacks the film is asked for it again.
const ABSENT: Duration = Duration::from_secs(3);

/// A film as siblings have it.
#[derive(Debug)]
pub(crate) struct AtSiblings {
    /// Identifies its version among all others. `None` if nothing does so reliably; then it is not
    /// shared.
    number: Option<u128>,
    len: u64,
    held: Mutex<HashMap<usize, AtSibling>>,
}

/// A film at a sibling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AtSibling {
    /// The sibling was not asked for it.
    Unknown,
    /// Its file has this path and version there.
    Here(String, Version),
    /// It was missing or not ready, and counts as such until this time.
    Absent(Monotonic),
}

impl AtSiblings {
    /// Creates the record of a film. `is_lasting`: the identity changes whenever the film's bytes
    /// do.
    pub fn new(identity: &FileIdentity, is_lasting: bool) -> AtSiblings {
        AtSiblings {
            number: identity.number().filter(|_| is_lasting),
            len: identity.size,
            held: Mutex::default(),
        }
    }

    /// The number that identifies the film's version among all others.
    pub(super) fn number(&self) -> Option<u128> {
        self.number
    }

    /// Length of the file in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// What is known of it at a sibling.
    pub(super) fn at(&self, sibling: usize, now: Monotonic) -> AtSibling {
        match self.held().get(&sibling) {
            Some(AtSibling::Absent(until)) if *until <= now => AtSibling::Unknown,
            Some(held) => held.clone(),
            None => AtSibling::Unknown,
        }
    }

    /// Notes that it is there under this path, in this version.
    pub(super) fn is_here(&self, sibling: usize, path: &str, version: &Version) {
        let here = AtSibling::Here(path.to_owned(), version.clone());
        self.held().insert(sibling, here);
    }

    /// Notes that it is not there.
    pub(super) fn is_absent(&self, sibling: usize, now: Monotonic) {
        self.held().insert(sibling, AtSibling::Absent(now + ABSENT));
    }

    fn held(&self) -> MutexGuard<'_, HashMap<usize, AtSibling>> {
        // Each entry is set in one step.
        supervise::whole(self.held.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_that_a_sibling_lacks_is_asked_for_again_after_three_seconds() {
        let film = AtSiblings::new(&FileIdentity::remote(7, 10, 0), true);
        let at = |seconds: u64| Monotonic::from_nanos(seconds * 1_000_000_000);
        assert_eq!(film.at(0, at(1)), AtSibling::Unknown);
        film.is_absent(0, at(1));
        assert!(matches!(film.at(0, at(3)), AtSibling::Absent(_)));
        assert_eq!(film.at(0, at(4)), AtSibling::Unknown);
        assert_eq!(film.at(1, at(1)), AtSibling::Unknown, "another one");
    }

    #[test]
    fn a_film_whose_changes_would_not_show_is_not_shared() {
        let identity = FileIdentity::remote(7, 10, 0);
        assert!(AtSiblings::new(&identity, true).number().is_some());
        assert_eq!(AtSiblings::new(&identity, false).number(), None);
    }
}

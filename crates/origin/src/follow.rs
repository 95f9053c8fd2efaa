//! Recordings that grow at another Reelway are checked more often than its list of films is
//! fetched, each with a request of one byte, however many viewers it has.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::join_all;
use reelway_catalogue::FoundFilm;
use reelway_sys::FileIdentity;

use crate::look::{Entry, PROBES};
use crate::origin::{Inner, Known};
use crate::source::{Film, Pin};
use crate::version::Version;

impl Inner {
    /// Returns the time until the next look; `every` is the time between two fetches of the list.
    pub fn patience(&self, every: Duration) -> Duration {
        let growing = self.films().values().any(|known| known.status.soon);
        self.at_rounds(|rounds, _| {
            rounds.every = every;
            rounds.patience(growing)
        })
    }

    /// Asks how far recordings have grown, and returns all films; `None` if the list has to be
    /// fetched.
    pub async fn follow(&self) -> Option<Vec<FoundFilm>> {
        let may_wait = self.at_rounds(|rounds, now| rounds.may_wait(now));
        if !may_wait || self.silent().is_some() {
            return None;
        }
        let soon: Vec<Known> = {
            let films = self.films();
            let growing = films.iter().filter(|(_, known)| known.status.soon);
            let all = growing.map(|(path, _)| path.clone()).collect();
            let turn = self.at_rounds(|rounds, _| rounds.turn(all));
            turn.iter()
                .filter_map(|path| films.get(path).cloned())
                .collect()
        };
        for some in soon.chunks(PROBES) {
            let has_answered = AtomicBool::new(false);
            let asked = some
                .iter()
                .map(|known| self.ask(known.clone(), &has_answered));
            join_all(asked).await;
            if !has_answered.into_inner() {
                // Without this, each further chunk would wait for an origin that does not answer.
                break;
            }
            self.has_answered();
        }
        let mut found = self.known();
        found.extend(self.at_rounds(|rounds, _| rounds.problems.clone()));
        found.sort_by(|a, b| a.file.cmp(&b.file));
        Some(found)
    }

    async fn ask(&self, known: Known, has_answered: &AtomicBool) {
        let pinned = |endpoint: &usize| matches!(known.film.pin(*endpoint), Pin::Is(_));
        let Some(endpoint) = (0..self.source.endpoints.len()).find(pinned) else {
            return;
        };
        let listed = Entry {
            path: known.film.path.clone(),
            file: known.file,
            // Without a hint the endpoint is always asked.
            hint: None,
            via: known.via,
            subtitles: known.subtitles,
            version: None,
        };
        // A film that is gone leaves the list when the list is fetched again.
        self.take(endpoint, listed, has_answered).await;
    }

    /// Notes that a recording had this version at an endpoint when its index was fetched, and
    /// returns its identity.
    pub fn has_grown(&self, film: &Film, endpoint: usize, version: Version) -> FileIdentity {
        if film.pin(endpoint) == Pin::Is(version.clone()) {
            return film.identity;
        }
        let endpoints = self.source.endpoints.len();
        let grown = Film::new(
            film.path.clone(),
            film.address.clone(),
            endpoints,
            endpoint,
            version,
        );
        let identity = grown.identity;
        if let Some(known) = self.films().get_mut(&film.address)
            && known.film.identity.may_have_grown_into(&identity)
        {
            known.film = Arc::new(grown);
        }
        identity
    }
}

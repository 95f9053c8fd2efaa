//! Recordings that grow at another Reelway are asked for more often than its list of films: each with a request of one byte,
//! however many viewers they have.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::future::join_all;
use reelway_catalogue::Found;
use reelway_clock::Monotonic;
use reelway_supervise::lock;
use reelway_sys::FileIdentity;

use crate::film::{Film, Pin};
use crate::look::{Entry, PROBES};
use crate::origin::{Inner, Known};
use crate::version::Version;

/// Time between two rounds: as often as a server indexes a recording that grows.
const OFTEN: Duration = Duration::from_secs(5);
/// Recordings that are asked for in a round at most; the others have their turn in the next.
const MOST: usize = 64;

/// When it is looked which films there are, and how far recordings have grown.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// When the list was fetched last.
    listed: Option<Monotonic>,
    /// Time from one list to the next.
    every: Duration,
    /// The recording that was asked for last.
    last: Option<PathBuf>,
    /// Films that were found with a problem when the list was fetched.
    problems: Vec<Found>,
}

impl Rounds {
    /// The list is to be fetched at the next look.
    pub fn is_due(&mut self) {
        self.listed = None;
    }

    /// The list was fetched, or could not be.
    pub fn has_listed(&mut self, now: Monotonic, found: &[Found]) {
        self.listed = Some(now);
        let problems = found.iter().filter(|found| found.problem.is_some());
        self.problems = problems.cloned().collect();
    }

    /// Whether the list need not be fetched now.
    fn may_wait(&self, now: Monotonic) -> bool {
        // Waking takes its time: half of a round is not worth another one.
        let listed = self.listed.map(|listed| now.since(listed) + OFTEN / 2);
        listed.is_some_and(|since| since < self.every)
    }

    /// Those of `all` that are asked for now.
    fn turn(&mut self, all: BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let is_later = |path: &&PathBuf| self.last.as_ref().is_none_or(|last| *path > last);
        let (later, earlier): (Vec<_>, Vec<_>) = all.iter().partition(is_later);
        let turn = later.into_iter().chain(earlier).take(MOST);
        let turn: Vec<PathBuf> = turn.cloned().collect();
        self.last = turn.last().cloned();
        turn
    }
}

impl Inner {
    /// Time to the next look, where `every` lies between two of the list.
    pub fn patience(&self, every: Duration) -> Duration {
        lock(&self.rounds).every = every;
        let films = self.films();
        match films.values().any(|known| known.told.soon) {
            true => every.min(OFTEN),
            false => every,
        }
    }

    /// All films, once it was asked how far recordings have grown; `None`: the list is to be fetched.
    pub async fn follow(&self) -> Option<Vec<Found>> {
        let may_wait = lock(&self.rounds).may_wait(reelway_clock::now());
        if !may_wait || self.silent().is_some() {
            return None;
        }
        let soon: Vec<Known> = {
            let films = self.films();
            let growing = films.iter().filter(|(_, known)| known.told.soon);
            let turn = lock(&self.rounds).turn(growing.map(|(path, _)| path.clone()).collect());
            turn.iter().filter_map(|path| films.get(path).cloned()).collect()
        };
        for some in soon.chunks(PROBES) {
            let has_answered = AtomicBool::new(false);
            let asked = some.iter().map(|known| self.ask(known.clone(), &has_answered));
            join_all(asked).await;
            if !has_answered.into_inner() {
                // An origin that is away would be waited for again and again.
                break;
            }
            self.has_answered();
        }
        let mut found = self.known();
        found.extend(lock(&self.rounds).problems.iter().cloned());
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
            // Whatever the list said.
            hint: None,
            via: known.via,
            subtitles: known.subtitles,
            version: None,
        };
        // What is gone leaves the list when that is fetched.
        self.take(endpoint, listed, has_answered).await;
    }

    /// A recording was found to be of this version of an endpoint when its index came; its identity.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_list_is_fetched_as_often_as_is_set_whatever_grows() {
        let mut rounds = Rounds {
            every: Duration::from_secs(60),
            ..Rounds::default()
        };
        assert!(!rounds.may_wait(at(1)), "never yet");
        rounds.has_listed(at(1), &[]);
        assert!(rounds.may_wait(at(6)) && rounds.may_wait(at(56)));
        assert!(!rounds.may_wait(at(61)));
        rounds.is_due();
        assert!(!rounds.may_wait(at(6)));
    }

    #[test]
    fn of_many_recordings_all_have_their_turn() {
        let all: BTreeSet<PathBuf> = (0..150).map(|n| format!("{n:03}").into()).collect();
        let mut rounds = Rounds::default();
        let mut asked = BTreeSet::new();
        for _ in 0..3 {
            let turn = rounds.turn(all.clone());
            assert_eq!(turn.len(), MOST);
            asked.extend(turn);
        }
        assert_eq!(asked, all);
        assert!(rounds.turn(BTreeSet::new()).is_empty());
    }
}

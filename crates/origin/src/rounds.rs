//! When the list of films is fetched, and which recordings are checked between two fetches. Pure:
//! time is an argument.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use reelway_catalogue::FoundFilm;
use reelway_clock::Monotonic;

use crate::fault::Fault;

/// Default time between two rounds: as often as a server indexes a recording that grows.
pub(crate) const OFTEN: Duration = Duration::from_secs(5);
/// Maximum number of recordings that are checked in one round; the others follow in the next.
const MOST: usize = 64;

/// The schedule for fetching the list of films and for checking how far recordings have grown.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// When the list was fetched last.
    listed: Option<Monotonic>,
    /// Time between two fetches of the list.
    pub every: Duration,
    /// Time between two rounds.
    often: Duration,
    /// The recording that was checked last.
    last: Option<PathBuf>,
    /// Films that had a problem when the list was fetched.
    pub problems: Vec<FoundFilm>,
    /// Folders that could not be listed when the list was fetched.
    left_out: HashSet<String>,
}

impl Rounds {
    /// Creates a schedule under which nothing was fetched yet; `often` is the time between two
    /// rounds.
    pub fn new(often: Duration) -> Rounds {
        Rounds {
            listed: None,
            every: Duration::ZERO,
            often,
            last: None,
            problems: Vec::new(),
            left_out: HashSet::new(),
        }
    }

    /// Returns the time until the next look. `growing`: there are recordings.
    pub fn patience(&self, growing: bool) -> Duration {
        match growing {
            true => self.every.min(self.often),
            false => self.every,
        }
    }

    /// Makes the next look fetch the list.
    pub fn is_due(&mut self) {
        self.listed = None;
    }

    /// Notes that the list was fetched, or that the attempt failed.
    pub fn has_listed(&mut self, now: Monotonic, found: &[FoundFilm]) {
        self.listed = Some(now);
        let problems = found.iter().filter(|found| found.problem.is_some());
        self.problems = problems.cloned().collect();
    }

    /// Notes the folders that could not be listed, and returns those that are new among them.
    pub fn leave_out(&mut self, folders: Vec<(String, Fault)>) -> Vec<(String, Fault)> {
        let now = folders.iter().map(|(folder, _)| folder.clone()).collect();
        let before = std::mem::replace(&mut self.left_out, now);
        let is_new = |(folder, _): &(String, Fault)| !before.contains(folder);
        folders.into_iter().filter(is_new).collect()
    }

    /// Whether the list need not be fetched now.
    pub fn may_wait(&self, now: Monotonic) -> bool {
        // A wake-up may come a little early: less than half a round is not worth another one.
        let listed = self.listed.map(|listed| now.since(listed) + self.often / 2);
        listed.is_some_and(|since| since < self.every)
    }

    /// Returns the recordings of `all` that are checked in this round.
    pub fn turn(&mut self, all: BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let is_later = |path: &&PathBuf| self.last.as_ref().is_none_or(|last| *path > last);
        let (later, earlier): (Vec<_>, Vec<_>) = all.iter().partition(is_later);
        let turn = later.into_iter().chain(earlier).take(MOST);
        let turn: Vec<PathBuf> = turn.cloned().collect();
        self.last = turn.last().cloned();
        turn
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
        let mut rounds = Rounds::new(OFTEN);
        rounds.every = Duration::from_secs(60);
        assert!(!rounds.may_wait(at(1)), "never yet");
        rounds.has_listed(at(1), &[]);
        assert!(rounds.may_wait(at(6)) && rounds.may_wait(at(56)));
        assert!(!rounds.may_wait(at(61)));
        rounds.is_due();
        assert!(!rounds.may_wait(at(6)));
    }

    #[test]
    fn recordings_are_asked_for_more_often_than_the_list() {
        let [second, minute] = [1, 60].map(Duration::from_secs);
        let mut rounds = Rounds::new(second);
        rounds.every = minute;
        assert_eq!(
            [false, true].map(|grows| rounds.patience(grows)),
            [minute, second]
        );
        rounds.has_listed(at(0), &[]);
        assert!(rounds.may_wait(at(59)) && !rounds.may_wait(at(60)));
        rounds.every = second / 2;
        assert_eq!(rounds.patience(true), second / 2);
    }

    #[test]
    fn of_many_recordings_all_have_their_turn() {
        let all: BTreeSet<PathBuf> = (0..150).map(|n| format!("{n:03}").into()).collect();
        let mut rounds = Rounds::new(OFTEN);
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

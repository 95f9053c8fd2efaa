//! The choice of the sibling to ask for each part of a film. Pure: time and chance are arguments.
//!
//! Each part of a film belongs to the edge with the highest score for it (rendezvous hashing:
//! Thaler and Ravishankar, IEEE/ACM Transactions on Networking 6(1), 1998), so the parts are spread
//! evenly, and an edge that joins or leaves moves only its own. Where viewers of a film are sent to
//! the edge with the highest score for the film, all parts of the film belong to that edge: other
//! edges would keep parts that none of their viewers watch.
//!
//! An edge asks only siblings whose score is higher than its own. A request can therefore only be
//! passed on to ever higher scores. It cannot return to an edge it came from, even if the edges
//! know different siblings, or only some of them redirect viewers.

use std::time::Duration;

use reelway_clock::Monotonic;
use xxhash_rust::xxh3::Xxh3;

/// How long a sibling rests after its first fault; doubled with each further fault.
const FIRST_REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(30);
/// Time between two attempts to learn a sibling's id.
const UNMET: Duration = Duration::from_secs(5);

/// Stands for the part when edges are ranked for the viewers of a film.
const WHOLE: u64 = u64::MAX - 1;

/// An edge of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Edge {
    /// Empty while it is not known.
    pub id: String,
    /// Whether it sends viewers to the edge that has their film.
    pub redirects: bool,
}

impl Edge {
    /// The score by which edges are ranked. It depends only on the edge, the film and the part.
    fn score(&self, film: u128, part: u64) -> (u64, &str) {
        let part = if self.redirects { WHOLE } else { part };
        let mut hash = Xxh3::new();
        hash.update(&film.to_le_bytes());
        hash.update(&part.to_le_bytes());
        hash.update(self.id.as_bytes());
        (hash.digest(), &self.id)
    }
}

/// The siblings, as far as they are known.
#[derive(Debug)]
pub(super) struct Choice {
    own: Edge,
    /// A sibling whose id is known is asked again after this time.
    again: Duration,
    siblings: Vec<Sibling>,
}

#[derive(Clone, Debug, Default)]
struct Sibling {
    edge: Edge,
    ask_at: Monotonic,
    faults: u32,
    rests_until: Monotonic,
}

/// A sibling that may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its number.
    pub number: usize,
    /// Its score is higher than that of this server.
    pub is_above: bool,
}

impl Choice {
    /// Creates the books for `siblings` siblings of this server, all unknown. A sibling that has
    /// answered is asked again after the time `again`.
    pub fn new(own: Edge, siblings: usize, again: Duration) -> Choice {
        Choice {
            own,
            again,
            siblings: vec![Sibling::default(); siblings],
        }
    }

    /// The available siblings, the highest score for this part of the film first.
    pub fn candidates(&self, film: u128, part: u64, now: Monotonic) -> Vec<Candidate> {
        let own = self.own.score(film, part);
        let siblings = self.siblings.iter().enumerate();
        let well = siblings.filter(|(_, sibling)| {
            let id = &sibling.edge.id;
            !id.is_empty() && *id != self.own.id && sibling.rests_until <= now
        });
        let mut scored: Vec<_> = well
            .map(|(number, sibling)| {
                let score = sibling.edge.score(film, part);
                let is_above = score > own;
                (score, Candidate { number, is_above })
            })
            .collect();
        scored.sort_by(|a, b| b.0.cmp(&a.0));
        scored.into_iter().map(|(_, candidate)| candidate).collect()
    }

    /// The available siblings, in the order of their rank for a film's viewers.
    pub fn for_viewers(&self, film: u128, now: Monotonic) -> Vec<Candidate> {
        self.candidates(film, WHOLE, now)
    }

    /// Returns the siblings that are to be asked for their id now, and counts them as asked.
    pub fn unmet(&mut self, now: Monotonic) -> Vec<usize> {
        let siblings = self.siblings.iter_mut().enumerate();
        let due = siblings.filter(|(_, sibling)| sibling.ask_at <= now);
        due.map(|(number, sibling)| {
            sibling.ask_at = now + UNMET;
            number
        })
        .collect()
    }

    /// Notes a sibling's answer about itself. Returns true if its id is a new one.
    pub fn met(&mut self, number: usize, edge: Edge, now: Monotonic) -> bool {
        let Some(sibling) = self.siblings.get_mut(number) else {
            return false;
        };
        sibling.ask_at = now + self.again;
        let is_new = sibling.edge.id != edge.id;
        sibling.edge = edge;
        is_new
    }

    /// Notes that a sibling has answered as it should.
    pub fn good(&mut self, number: usize) {
        if let Some(sibling) = self.siblings.get_mut(number) {
            sibling.faults = 0;
        }
    }

    /// Notes that a sibling has failed. `chance` is any number: it shortens the rest by up to a
    /// half. Returns true if the sibling was well before.
    pub fn bad(&mut self, number: usize, now: Monotonic, chance: u64) -> bool {
        let Some(sibling) = self.siblings.get_mut(number) else {
            return false;
        };
        let was_well = sibling.faults == 0;
        // Requests that failed together count as one fault.
        if now >= sibling.rests_until {
            let rest = FIRST_REST
                .saturating_mul(1 << sibling.faults.min(16))
                .min(LONGEST_REST);
            let half = rest.as_nanos() as u64 / 2;
            sibling.rests_until = now + (rest - Duration::from_nanos(chance % (half + 1)));
            sibling.ask_at = sibling.ask_at.min(sibling.rests_until);
            sibling.faults += 1;
        }
        was_well
    }

    /// Whether a sibling's id is known, and the sibling has answered as it should since its last
    /// failure.
    pub fn is_up(&self, number: usize) -> bool {
        let sibling = self.siblings.get(number);
        sibling.is_some_and(|sibling| !sibling.edge.id.is_empty() && sibling.faults == 0)
    }

    /// Whether a sibling is this server itself.
    pub fn is_own(&self, number: usize) -> bool {
        let sibling = self.siblings.get(number);
        sibling.is_some_and(|sibling| !self.own.id.is_empty() && sibling.edge.id == self.own.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MET: Duration = Duration::from_secs(60);

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    fn edge(id: &str, redirects: bool) -> Edge {
        let id = id.to_owned();
        Edge { id, redirects }
    }

    /// A server that knows all siblings. Those in `redirect` send viewers to the edge that has
    /// their film.
    fn met(own: &str, ids: &[&str], redirect: &[&str]) -> Choice {
        let edge = |id: &str| edge(id, redirect.contains(&id));
        let mut choice = Choice::new(edge(own), ids.len(), MET);
        for (number, id) in ids.iter().enumerate() {
            choice.met(number, edge(id), at(0));
        }
        choice
    }

    /// The id of the first sibling above a server; `None` if the server asks the origin.
    fn asked<'a>(
        own: &str,
        ids: &[&'a str],
        redirect: &[&str],
        (film, part): (u128, u64),
    ) -> Option<&'a str> {
        let candidates = met(own, ids, redirect).candidates(film, part, at(0));
        let first = candidates.into_iter().next()?;
        first.is_above.then(|| ids[first.number])
    }

    proptest! {
        /// Each server knows some of the others, and some of them redirect viewers. The numbers are
        /// bit sets: which servers server N knows, and which servers redirect.
        #[test]
        fn a_request_never_returns_whomever_each_server_knows(
            knows in prop::collection::vec(0u8..32, 5),
            redirect in 0u8..32,
            film: u128,
            part: u64,
        ) {
            const IDS: [&str; 5] = ["ann", "bob", "cid", "dee", "eve"];
            for start in IDS {
                let (mut server, mut hops) = (start, 0);
                loop {
                    let number = IDS.iter().position(|id| *id == server).unwrap();
                    let known: Vec<&str> = (0..5)
                        .filter(|bit| knows[number] >> bit & 1 == 1)
                        .map(|bit| IDS[bit])
                        .collect();
                    let redirect: Vec<&str> = (0..5)
                        .filter(|bit| redirect >> bit & 1 == 1)
                        .map(|bit| IDS[bit])
                        .collect();
                    let Some(next) = asked(server, &known, &redirect, (film, part)) else { break };
                    server = next;
                    hops += 1;
                    prop_assert!(hops < IDS.len());
                }
            }
        }
    }

    #[test]
    fn servers_that_know_each_other_agree_whose_each_part_is_and_parts_are_spread() {
        const IDS: [&str; 3] = ["ann", "bob", "cid"];
        let mut parts = [0; 3];
        for part in 0..3000 {
            // The owner is the server that asks no sibling.
            let asked = IDS.map(|own| asked(own, &IDS, &[], (7, part)));
            let owner = asked.iter().position(Option::is_none).expect("an owner");
            for (number, asked) in asked.iter().enumerate() {
                assert_eq!(asked.is_none(), number == owner, "part {part}");
                assert!(number == owner || *asked == Some(IDS[owner]));
            }
            parts[owner] += 1;
        }
        assert!(
            parts.iter().all(|parts| (900..1100).contains(parts)),
            "{parts:?}"
        );
    }

    #[test]
    fn all_parts_belong_to_the_edge_that_the_film_s_viewers_are_sent_to_if_they_are() {
        const IDS: [&str; 3] = ["ann", "bob", "cid"];
        let mut films = [0; 3];
        for film in 0..300 {
            let choice = met("ann", &IDS, &IDS);
            let viewers = choice.for_viewers(film, at(0));
            for part in 0..20 {
                assert_eq!(choice.candidates(film, part, at(0)), viewers);
            }
            let owner = IDS.map(|own| asked(own, &IDS, &IDS, (film, 1)));
            films[owner.iter().position(Option::is_none).expect("an owner")] += 1;
        }
        assert!(
            films.iter().all(|films| (75..125).contains(films)),
            "{films:?}"
        );
    }

    #[test]
    fn one_edge_less_moves_only_its_own_parts() {
        let owner = |ids: &[&'static str], part| {
            let choice = met("nobody", ids, &[]);
            ids[choice.candidates(7, part, at(0))[0].number]
        };
        for part in 0..300 {
            let before = owner(&["ann", "bob", "cid"], part);
            let after = owner(&["ann", "cid"], part);
            assert!(before == after || before == "bob", "part {part}");
        }
    }

    #[test]
    fn what_is_not_known_or_this_server_itself_is_not_asked() {
        let mut choice = met("ann", &["ann", "bob"], &[]);
        assert!(choice.is_own(0) && !choice.is_own(1));
        let numbers = |choice: &Choice| -> Vec<usize> {
            let candidates = choice.candidates(1, 1, at(0)).into_iter();
            candidates.map(|candidate| candidate.number).collect()
        };
        assert_eq!(numbers(&choice), [1]);
        assert!(!choice.met(1, edge("bob", false), at(0)), "the same one");
        assert!(numbers(&Choice::new(edge("ann", false), 2, MET)).is_empty());
    }

    #[test]
    fn a_sibling_that_failed_rests_twice_as_long_each_time_and_an_answer_ends_that() {
        let mut choice = met("ann", &["bob"], &[]);
        let rests = |choice: &Choice, millis| choice.candidates(1, 1, at(millis)).is_empty();
        assert!(choice.bad(0, at(0), 0), "it was well");
        assert!(!choice.bad(0, at(10), 0), "one fault with the first");
        assert!(rests(&choice, 499) && !rests(&choice, 500));
        choice.bad(0, at(500), 0);
        assert!(rests(&choice, 1499) && !rests(&choice, 1500));
        assert!(!choice.is_up(0), "it has not answered since");
        choice.good(0);
        assert!(choice.is_up(0));
        assert!(choice.bad(0, at(1500), u64::MAX));
        assert!(!rests(&choice, 2000));
        for n in 0..20 {
            choice.bad(0, at(10_000 + n * 40_000), 0);
        }
        assert!(!rests(&choice, 10_000 + 19 * 40_000 + 30_000));
    }

    #[test]
    fn a_sibling_that_failed_is_asked_for_its_id_when_it_has_rested() {
        let mut choice = met("ann", &["bob"], &[]);
        choice.bad(0, at(1000), 0);
        assert!(choice.unmet(at(1499)).is_empty());
        assert_eq!(choice.unmet(at(1500)), [0]);
    }

    #[test]
    fn ids_are_asked_for_every_five_seconds_until_known_and_then_as_often_as_configured() {
        let mut choice = Choice::new(edge("ann", false), 2, MET);
        assert_eq!(choice.unmet(at(0)), [0, 1]);
        assert!(choice.unmet(at(4_999)).is_empty());
        choice.met(1, edge("bob", false), at(100));
        assert_eq!(choice.unmet(at(5_000)), [0]);
        assert_eq!(choice.unmet(at(60_100)), [0, 1]);
    }
}

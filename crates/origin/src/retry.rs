//! Decides when and where to ask again. Pure: time and chance are arguments.
//!
//! A read goes to the first healthy endpoint. After a fault, the endpoint rests for a time that
//! doubles with each fault in a row; chance shortens it by up to a half, so that many readers that
//! were refused at once do not come back at once. The read goes on at the next healthy endpoint, or
//! waits for the one that rests least. A server's `Retry-After` applies only to the read that it
//! answered: it may be about this film, and others play on. An endpoint that is useless for the
//! film (the film is missing there, or another one) is excluded for this read. A read ends when its
//! patience or its attempts are used up. If no endpoint has answered for longer than a read's
//! patience, new reads get a single attempt, so that viewers of a dead origin get an error soon and
//! hold nothing for long.

use std::time::Duration;

use reelway_clock::Monotonic;

use crate::fault::{Fault, Meaning};

/// How long and how often to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Time limit for one read, with all its attempts.
    pub whole: Duration,
    /// Maximum number of attempts of one read.
    pub attempts: u32,
    /// How long an endpoint rests after its first fault.
    pub first: Duration,
    /// Longest rest.
    pub most: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            whole: Duration::from_secs(20),
            attempts: 8,
            first: Duration::from_millis(200),
            most: Duration::from_secs(5),
        }
    }
}

/// The health of a source's endpoints.
#[derive(Clone, Debug)]
pub struct Health {
    endpoints: Vec<EndpointState>,
    /// Since when no endpoint has answered.
    silent_since: Option<Monotonic>,
}

#[derive(Clone, Copy, Debug, Default)]
struct EndpointState {
    faults: u32,
    rests_until: Monotonic,
}

/// The attempts of one read.
#[derive(Clone, Debug)]
pub struct Attempts {
    patience: Patience,
    began: Monotonic,
    left: u32,
    excluded: Vec<bool>,
    /// Until when each endpoint has asked this read to wait.
    asked_to_wait: Vec<Monotonic>,
}

/// Where to ask next, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Number of the endpoint.
    pub endpoint: usize,
    /// How long to wait first.
    pub after: Duration,
}

impl Health {
    /// All endpoints are healthy.
    pub fn new(endpoints: usize) -> Health {
        Health {
            endpoints: vec![EndpointState::default(); endpoints.max(1)],
            silent_since: None,
        }
    }

    /// Notes that an endpoint has answered as it should. Returns true if it had failed before.
    pub fn good(&mut self, endpoint: usize) -> bool {
        self.silent_since = None;
        let endpoint = self.endpoints.get_mut(endpoint);
        endpoint.is_some_and(|endpoint| std::mem::take(endpoint).faults > 0)
    }

    /// Notes that an endpoint has failed. `chance` is any number. Returns true if the endpoint was
    /// healthy before.
    pub fn bad(
        &mut self,
        endpoint: usize,
        fault: &Fault,
        patience: &Patience,
        now: Monotonic,
        chance: u64,
    ) -> bool {
        if fault.meaning() == Meaning::Final {
            // The endpoint answers; a missing film is not its fault.
            self.silent_since = None;
            return false;
        }
        self.silent_since.get_or_insert(now);
        let Some(endpoint) = self.endpoints.get_mut(endpoint) else {
            return false;
        };
        let was_well = endpoint.faults == 0;
        // A wrong answer may concern one film only: reads of others must not wait longer each time.
        let faults = match fault {
            Fault::Wrong(_) => 0,
            _ => endpoint.faults.min(16),
        };
        let rest = patience
            .first
            .saturating_mul(1 << faults)
            .min(patience.most);
        let half = rest.as_nanos() as u64 / 2;
        let rest = rest - Duration::from_nanos(chance % (half + 1));
        // Requests that were refused together count as one fault.
        if now >= endpoint.rests_until {
            endpoint.faults = endpoint.faults.saturating_add(1);
        }
        endpoint.rests_until = endpoint.rests_until.max(now + rest);
        was_well
    }

    /// Whether any endpoint is free of faults since its last answer.
    pub fn is_up(&self) -> bool {
        self.endpoints.iter().any(|endpoint| endpoint.faults == 0)
    }

    /// The number of endpoints that rest.
    pub fn resting(&self, now: Monotonic) -> usize {
        self.endpoints
            .iter()
            .filter(|endpoint| endpoint.rests_until > now)
            .count()
    }
}

impl Attempts {
    /// Begins a read.
    pub fn new(health: &Health, patience: Patience, now: Monotonic) -> Attempts {
        let dead = health
            .silent_since
            .is_some_and(|since| now.since(since) > patience.whole);
        Attempts {
            patience,
            began: now,
            left: if dead { 1 } else { patience.attempts.max(1) },
            excluded: vec![false; health.endpoints.len()],
            asked_to_wait: vec![Monotonic::default(); health.endpoints.len()],
        }
    }

    /// Notes a fault of this endpoint in this read.
    pub fn note(&mut self, endpoint: usize, fault: &Fault, now: Monotonic) {
        if fault.meaning() == Meaning::Final
            && let Some(excluded) = self.excluded.get_mut(endpoint)
        {
            *excluded = true;
        }
        if let Fault::SlowDown {
            after: Some(after), ..
        } = fault
            && let Some(until) = self.asked_to_wait.get_mut(endpoint)
        {
            *until = now + *after;
        }
    }

    /// The next attempt, or `None` to give up.
    pub fn next(&mut self, health: &Health, now: Monotonic) -> Option<Next> {
        let spent = now.since(self.began);
        if self.left == 0 || spent >= self.patience.whole {
            return None;
        }
        let usable = || {
            let endpoints = health.endpoints.iter().enumerate();
            let usable = endpoints.filter(|(number, _)| !self.excluded[*number]);
            usable.map(|(number, of)| (number, of.rests_until.max(self.asked_to_wait[number])))
        };
        let well = usable().find(|(_, rests_until)| *rests_until <= now);
        let (endpoint, after) = match well {
            Some((number, _)) => (number, Duration::ZERO),
            None => {
                let (number, rests_until) = usable().min_by_key(|(_, until)| *until)?;
                (number, rests_until.since(now))
            }
        };
        if spent + after >= self.patience.whole {
            return None;
        }
        self.left -= 1;
        Some(Next { endpoint, after })
    }

    /// Gives back the last attempt, as it brought some of the bytes.
    pub fn refund(&mut self) {
        self.left += 1;
    }

    /// Time that this read has left.
    pub fn left(&self, now: Monotonic) -> Duration {
        self.patience.whole.saturating_sub(now.since(self.began))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Monotonic {
        Monotonic::from_nanos(1_000_000_000 + millis * 1_000_000)
    }

    fn broken() -> Fault {
        Fault::Broken("reset".into())
    }

    const PATIENCE: Patience = Patience {
        whole: Duration::from_secs(20),
        attempts: 8,
        first: Duration::from_millis(200),
        most: Duration::from_secs(5),
    };

    #[test]
    fn wrong_answers_for_one_film_do_not_keep_others_waiting_longer_each_time() {
        let mut health = Health::new(1);
        let wrong = Fault::Wrong("no Content-Range".into());
        for n in 0..20 {
            let now = at(n * 1000);
            health.bad(0, &wrong, &PATIENCE, now, 0);
            let mut other = Attempts::new(&health, PATIENCE, now);
            let next = other.next(&health, now).expect("an attempt");
            assert!(next.after <= PATIENCE.first, "{:?}", next.after);
            other.note(0, &wrong, now);
        }
    }

    #[test]
    fn the_first_place_is_asked_while_it_is_well() {
        let health = Health::new(3);
        let mut read = Attempts::new(&health, PATIENCE, at(0));
        assert_eq!(
            read.next(&health, at(0)),
            Some(Next {
                endpoint: 0,
                after: Duration::ZERO
            })
        );
    }

    #[test]
    fn a_place_that_fails_rests_and_the_next_one_is_asked_at_once() {
        let mut health = Health::new(2);
        let mut read = Attempts::new(&health, PATIENCE, at(0));
        read.next(&health, at(0));
        health.bad(0, &broken(), &PATIENCE, at(0), 0);
        assert_eq!(
            read.next(&health, at(0)),
            Some(Next {
                endpoint: 1,
                after: Duration::ZERO
            })
        );
        // After its rest, the first endpoint is preferred again.
        assert_eq!(
            read.next(&health, at(200)).map(|next| next.endpoint),
            Some(0)
        );
    }

    #[test]
    fn rests_double_and_chance_shortens_them_by_at_most_half() {
        for chance in [0, 1, 12_345_678, u64::MAX] {
            let mut health = Health::new(1);
            let mut now = at(0);
            for rest in [200, 400, 800, 1600, 3200, 5000, 5000] {
                health.bad(0, &broken(), &PATIENCE, now, chance);
                let mut read = Attempts::new(&Health::new(1), PATIENCE, now);
                let after = read.next(&health, now).unwrap().after;
                let rest = Duration::from_millis(rest);
                assert!((rest / 2..=rest).contains(&after), "{after:?} of {rest:?}");
                now += after;
            }
        }
    }

    #[test]
    fn a_server_that_says_how_long_is_given_that_long_and_other_films_do_not_wait_for_it() {
        let mut health = Health::new(1);
        let slow_down = |seconds| Fault::SlowDown {
            status: 503,
            after: Some(Duration::from_secs(seconds)),
        };
        let mut read = Attempts::new(&health, PATIENCE, at(0));
        let mut fails = |read: &mut Attempts, seconds| {
            health.bad(0, &slow_down(seconds), &PATIENCE, at(0), 7);
            read.note(0, &slow_down(seconds), at(0));
            let other = Attempts::new(&health, PATIENCE, at(0)).next(&health, at(0));
            assert!(other.is_some_and(|other| other.after <= PATIENCE.first * 2));
            read.next(&health, at(0))
        };
        let next = fails(&mut read, 3).expect("another attempt");
        assert_eq!(next.after, Duration::from_secs(3));
        assert_eq!(fails(&mut read, 60), None, "longer than a read lasts");
    }

    #[test]
    fn a_place_without_the_film_is_left_out_for_the_read_alone() {
        let mut health = Health::new(2);
        let mut read = Attempts::new(&health, PATIENCE, at(0));
        let gone = Fault::Gone(404);
        health.bad(0, &gone, &PATIENCE, at(0), 0);
        read.note(0, &gone, at(0));
        assert_eq!(read.next(&health, at(0)).unwrap().endpoint, 1);
        read.note(1, &gone, at(0));
        assert_eq!(read.next(&health, at(0)), None, "nowhere");
        let mut other = Attempts::new(&health, PATIENCE, at(0));
        assert_eq!(other.next(&health, at(0)).unwrap().endpoint, 0);
    }

    #[test]
    fn attempts_and_time_are_bounded() {
        let mut health = Health::new(1);
        let mut read = Attempts::new(&health, PATIENCE, at(0));
        let mut now = at(0);
        let mut count = 0;
        while let Some(next) = read.next(&health, now) {
            count += 1;
            now += next.after;
            health.bad(0, &broken(), &PATIENCE, now, 3);
            assert!(count < 100);
        }
        assert!(
            count <= 8 && now.since(at(0)) < PATIENCE.whole,
            "{count} in {:?}",
            now.since(at(0))
        );
        let mut late = Attempts::new(&Health::new(1), PATIENCE, at(0));
        assert_eq!(late.next(&Health::new(1), at(20_000)), None);
    }

    #[test]
    fn readers_of_a_dead_source_get_one_attempt_until_it_answers() {
        let mut health = Health::new(1);
        health.bad(0, &broken(), &PATIENCE, at(0), 0);
        health.bad(0, &broken(), &PATIENCE, at(15_000), 0);
        let now = at(25_000);
        let mut read = Attempts::new(&health, PATIENCE, now);
        assert!(read.next(&health, now).is_some());
        assert_eq!(read.next(&health, now), None);
        health.good(0);
        let mut read = Attempts::new(&health, PATIENCE, now);
        assert!(read.next(&health, now).is_some() && read.next(&health, now).is_some());
    }
}

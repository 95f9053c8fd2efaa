//! Newcomers: their place is reserved, then confirmed or released.

use std::net::IpAddr;
use std::time::Duration;

use reelway_time::Monotonic;

use crate::config::Config;
use crate::curves::{Needs, Wants};
use crate::desk::room::{ROUNDS, Trial};
use crate::desk::state::{Beside, Booked, Desk, Stage, Viewer};
use crate::unplayed::{Claim, GRACE, Owner};
use crate::verdict::{Admitted, BookingId, Newcomer, Refusal, Refused};

/// A newcomer as the desk sees them.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The film that they want to watch.
    pub title: &'a str,
    /// Their address.
    pub address: IpAddr,
    /// The number of their connection.
    pub connection: u64,
    /// The user, if known.
    pub user: Option<&'a str>,
    /// The interface by which they are reached, if it is limited.
    pub link: Option<u8>,
    /// What they take of the film; `None` if that is not known, and nothing is booked.
    pub wants: Option<&'a Wants>,
    /// The needs that follow from it ([`crate::Curves::needs`]).
    pub needs: &'a Needs,
}

/// A place that is held for a newcomer.
#[must_use = "it is held until it is confirmed, released, or its deadline has passed"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Their booking.
    pub id: BookingId,
    /// Time from now until their film begins.
    pub starts_in: Duration,
    /// Deadline by which it has to be confirmed.
    pub until: Monotonic,
}

/// An answer, and the sessions that end because of it. Nothing is held for those any more.
#[must_use = "sessions are to be ended"]
#[derive(Debug)]
pub struct Outcome<T> {
    /// The answer.
    pub answer: Result<T, Refusal>,
    /// The sessions that end.
    pub ended: Vec<BookingId>,
}

impl Desk {
    /// Judges a newcomer, and holds a place for them until `until`. Sessions that have not asked
    /// for media may end to make room. A refusal changes nothing but the record of refusals.
    pub fn reserve(
        &mut self,
        now: Monotonic,
        arrival: &Arrival<'_>,
        until: Monotonic,
    ) -> Outcome<Reservation> {
        self.advance(now);
        let owner = Owner::new(arrival.address, arrival.connection);
        let mut trial = Trial::default();
        match self.leaves_for_bounds(now, owner, 0) {
            Ok(Some(id)) => self.take_out(now, &mut trial, id),
            Ok(None) => {}
            Err(refusal) => return Outcome::refused(refusal),
        }
        if !self.config.is_open() {
            self.make_room(now, arrival, owner, &mut trial);
        }
        let (id, wait, beside) = match self.judge(now, arrival) {
            Ok(admitted) => admitted,
            Err(refused) => {
                self.undo(now, trial);
                return Outcome::refused(self.refusal(now, arrival, owner, &refused));
            }
        };
        let mut ended = self.settle(now, trial);
        let since = now + wait;
        let booked = beside.map(|beside| {
            self.join(now, id, since, arrival.needs, beside);
            Booked {
                wants: arrival
                    .wants
                    .filter(|_| !arrival.needs.of.is_empty())
                    .cloned(),
                link: arrival.link,
                from: 0,
                since,
                is_current: true,
                is_judged: true,
                played: false,
            }
        });
        let viewer = Viewer {
            owner,
            since: now,
            wait,
            stage: Stage::Reserved(until),
            booked,
        };
        self.enter(id, viewer);
        // Sessions that went back to waiting for media may exceed the bounds.
        for _ in 0..ROUNDS {
            let Ok(Some(more)) = self.leaves_for_bounds(now, owner, 1) else {
                break;
            };
            self.remove(now, more);
            ended.push(more);
        }
        Outcome {
            answer: Ok(Reservation {
                id,
                starts_in: wait,
                until,
            }),
            ended,
        }
    }

    /// Admits the newcomer. Returns false if the place is no longer held.
    #[must_use = "the place may have been released by its deadline"]
    pub fn confirm(&mut self, now: Monotonic, id: BookingId) -> bool {
        self.advance(now);
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return false;
        };
        if let Stage::Reserved(until) = viewer.stage {
            self.deadlines.remove(&(until, id));
            let seat = self
                .unplayed
                .enter(viewer.owner, viewer.since, viewer.wait, id);
            viewer.stage = Stage::Unplayed(seat);
        }
        true
    }

    /// Frees the place of a newcomer who is not admitted. Does nothing if it was confirmed.
    pub fn release(&mut self, now: Monotonic, id: BookingId) {
        self.advance(now);
        let viewer = self.viewers.get(&id);
        if viewer.is_some_and(|viewer| matches!(viewer.stage, Stage::Reserved(_))) {
            self.remove(now, id);
        }
    }

    /// The answer that a newcomer would get: how long they would wait for the beginning. Changes
    /// nothing.
    ///
    /// # Errors
    /// They would be refused; the error says why, and when they could be admitted.
    pub fn what_if(&mut self, now: Monotonic, arrival: &Arrival<'_>) -> Result<Duration, Refused> {
        self.advance(now);
        let beside = self.beside(now, None, arrival.needs);
        let newcomer = newcomer(arrival, &self.config, &beside);
        self.books.what_if(now.nanos(), &newcomer, self.config.wait)
    }

    /// Takes viewers without media out of the books, if the newcomer can be admitted without them.
    fn make_room(
        &mut self,
        now: Monotonic,
        arrival: &Arrival<'_>,
        owner: Owner,
        trial: &mut Trial,
    ) {
        for _ in 0..ROUNDS {
            let candidates =
                self.candidates(now, owner, Claim::Newcomer, |id| trial.out.contains(&id));
            let go = self.who_must_go(now, arrival, &candidates);
            if go.is_empty() {
                break;
            }
            for id in go {
                self.take_out(now, trial, id);
            }
        }
    }

    /// Which of `candidates` have to leave so that the newcomer can be admitted. Empty if there is
    /// room, or if it would not help.
    fn who_must_go(
        &mut self,
        now: Monotonic,
        arrival: &Arrival<'_>,
        candidates: &[BookingId],
    ) -> Vec<BookingId> {
        if candidates.is_empty() {
            return Vec::new();
        }
        let beside = self.beside(now, None, arrival.needs);
        let newcomer = newcomer(arrival, &self.config, &beside);
        let wait = self.config.wait;
        let go = self
            .books
            .who_must_go(now.nanos(), &newcomer, wait, candidates);
        go.unwrap_or_default()
    }

    /// Judges a newcomer and books for them. Returns their booking, how long they wait, and beside
    /// whom they play. If no viewer is ever refused, nothing is booked.
    fn judge(
        &mut self,
        now: Monotonic,
        arrival: &Arrival<'_>,
    ) -> Result<(BookingId, Duration, Option<Beside>), Refused> {
        if self.config.is_open() {
            return Ok((self.books.new_id(), Duration::ZERO, None));
        }
        let beside = self.beside(now, None, arrival.needs);
        let newcomer = newcomer(arrival, &self.config, &beside);
        let wait = self.config.wait;
        let Admitted { id, starts_in } = self.books.decide(now.nanos(), &newcomer, wait)?;
        Ok((id, starts_in, Some(beside)))
    }

    /// The answer to a refused newcomer. If viewers without media hold the room, asking again soon
    /// is worthwhile: they may begin to play, or become the first to leave.
    fn refusal(
        &mut self,
        now: Monotonic,
        arrival: &Arrival<'_>,
        owner: Owner,
        refused: &Refused,
    ) -> Refusal {
        let mut refusal = Refusal::from(refused);
        let candidates = self.candidates(now, owner, Claim::Player, |_| false);
        if !self.who_must_go(now, arrival, &candidates).is_empty() {
            refusal.retry_after = refusal.retry_after.map(|after| after.min(GRACE));
        }
        refusal
    }
}

impl<T> Outcome<T> {
    /// A refusal for which no session ends.
    pub(super) fn refused(refusal: Refusal) -> Outcome<T> {
        Outcome {
            answer: Err(refusal),
            ended: Vec::new(),
        }
    }
}

fn newcomer<'a>(arrival: &Arrival<'a>, config: &Config, beside: &'a Beside) -> Newcomer<'a> {
    Newcomer {
        title: arrival.title,
        address: arrival.address,
        user: arrival.user,
        class: config.class_of(arrival.address, arrival.title),
        fast: false,
        fetches: arrival.wants.is_some_and(Wants::fetches),
        needs: &beside.needs,
        later: beside.is_less().then_some(&arrival.needs.of),
        from: arrival.needs.range.0,
        to: arrival.needs.range.1,
    }
}

//! Viewers arrive and are judged, seek, pause, resume and leave.

use std::time::Duration;

use reelway_admission::{Activity, Arrival, BookingId, Needs, Refusal, Reservation, Wants};
use reelway_demand::Carriage;
use reelway_media::Nanos;
use reelway_pool::News;
use reelway_time::Monotonic;
use reelway_viewing::End;

use crate::client::address;
use crate::config::{Rule, Wrong};
use crate::connection::Connection;
use crate::events::Event;
use crate::node::Node;
use crate::trace::Line;
use crate::viewer::{Sent, State, Viewer};

/// How long a place is held for a newcomer.
const HELD: Duration = Duration::from_secs(3);
/// Why viewers leave whose sessions end before they played.
pub(crate) const MADE_WAY: &str = "they made way for others";
/// The time between two attempts to resume.
const AGAIN: Duration = Duration::from_secs(3);

impl Node {
    /// Lets a viewer arrive, who is judged and for whom a place is held.
    pub fn come(&mut self) {
        let id = self.came;
        self.came += 1;
        let film = self.any_film();
        let wish = match self.random.once_in(2) {
            true => 0,
            false => self.random.within(0, self.films[film].length() as u64) as Nanos,
        };
        let at = self.beginning(film, wish);
        if self.has_http && self.random.once_in(2) {
            return self.opens(id, film, wish);
        }
        if self.random.once_in(2) {
            self.connects(id, film, at, false);
            return self.change_later(id);
        }
        let until = self.now + HELD;
        let connection = match self.random.once_in(2) {
            true => Some(self.connection(film)),
            false => None,
        };
        let carriage = match connection {
            Some(_) => Carriage::Tcp,
            None => Carriage::UdpV4,
        };
        let Ok(reservation) = self.reserve(id, (film, carriage), at, until) else {
            return;
        };
        let (booking, starts_in) = (reservation.id, reservation.starts_in);
        let viewer = Viewer {
            connection,
            ..Viewer::new(film, booking, starts_in, at)
        };
        self.viewers.insert(id, viewer);
        // Other parties must agree: they do, or do not, or never respond.
        let after = Duration::from_millis(self.random.within(0, 20));
        match self.random.within(0, 40) {
            0 => self.after(after, Event::Confirm(id, false)),
            1 => self.after(HELD, Event::Forget(id)),
            _ => self.after(after, Event::Confirm(id, true)),
        }
    }

    /// Lets `many` RTSP clients that never play connect at once.
    pub fn crowd(&mut self, many: u64) {
        for _ in 0..many {
            let (id, film) = (self.came, self.any_film());
            self.came += 1;
            self.connects(id, film, 0, true);
        }
    }

    /// Returns one of the current films.
    fn any_film(&mut self) -> usize {
        *self.random.one_of(&self.titles)
    }

    /// Judges a newcomer who receives `film` over `carriage` and plays it from `at` on. If they are
    /// admitted, their place is held until they are confirmed, or until `until`.
    pub fn reserve(
        &mut self,
        id: u64,
        (film, carriage): (usize, Carriage),
        at: Nanos,
        until: Monotonic,
    ) -> Result<Reservation, Refusal> {
        let needs = self.needs((film, carriage), at);
        let wants = self.wants((film, carriage));
        let arrival = Arrival {
            title: &self.films[film].name,
            address: address(id),
            connection: id,
            user: None,
            link: None,
            wants: Some(&wants),
            needs: &needs,
        };
        let outcome = self.desk.reserve(self.now, &arrival, until);
        self.sent_away(&outcome.ended);
        match &outcome.answer {
            Ok(reservation) => {
                self.note(&Line::Admitted {
                    viewer: id,
                    film,
                    at_ms: at / 1_000_000,
                    starts_in_ms: reservation.starts_in.as_millis() as u64,
                });
                self.bookings.insert(reservation.id, id);
            }
            Err(refusal) => {
                self.counters.refused += 1;
                let why = refusal.reason.clone();
                self.note(&Line::Refused {
                    viewer: id,
                    film,
                    why,
                });
            }
        }
        outcome.answer
    }

    /// The same if no other party must agree: the newcomer is confirmed at once.
    pub fn admit(
        &mut self,
        id: u64,
        wanted: (usize, Carriage),
        at: Nanos,
    ) -> Result<Reservation, Refusal> {
        let reservation = self.reserve(id, wanted, at, Monotonic::MAX)?;
        if !self.desk.confirm(self.now, reservation.id) {
            let what = format!("the booking of viewer {id} cannot be confirmed");
            self.broken(Rule::BookingsReturn, what);
        }
        self.counters.admitted += 1;
        Ok(reservation)
    }

    /// Confirms a newcomer, or releases the reservation.
    pub fn confirm(&mut self, id: u64, yes: bool) {
        let (now, Some(viewer)) = (self.now, self.viewers.get(&id)) else {
            return;
        };
        let (booking, starts_in) = (viewer.booking, viewer.starts_in);
        if !yes {
            self.desk.release(now, booking);
            return self.leave(id, "their reservation was cancelled");
        }
        if !self.desk.confirm(now, booking) {
            return self.leave(id, "their reservation no longer exists");
        }
        self.counters.admitted += 1;
        self.after(starts_in, Event::Begin(id, 0));
        self.change_later(id);
    }

    /// Removes a newcomer for whom the other parties never responded; the desk must find
    /// out by itself.
    pub fn forget(&mut self, id: u64) {
        if let Some(viewer) = self.viewers.remove(&id) {
            self.bookings.remove(&viewer.booking);
            let why = "their reservation was never confirmed";
            self.note(&Line::Leaves { viewer: id, why });
        }
    }

    /// Ends the sessions that the desk has ended to make room for others.
    pub fn sent_away(&mut self, bookings: &[BookingId]) {
        for booking in bookings {
            if let Some(id) = self.bookings.get(booking).copied() {
                self.counters.sent_away += 1;
                if self.fetchers.contains_key(&id) {
                    self.stops_fetching(id, End::Silent, MADE_WAY);
                } else if self.is_over_rtsp(id) {
                    self.makes_way(id);
                } else {
                    self.leave(id, MADE_WAY);
                }
            }
        }
    }

    /// Returns what a viewer needs who receives `film` over `carriage` and plays it from `at` to
    /// its end.
    pub fn needs(&mut self, (film, carriage): (usize, Carriage), at: Nanos) -> Needs {
        let wants = self.wants((film, carriage));
        self.curves.needs(&wants, None, (at, Nanos::MAX))
    }

    /// Returns what such a viewer takes of the film.
    pub fn wants(&mut self, (film, carriage): (usize, Carriage)) -> Wants {
        let wants = self.films[film].wants(carriage);
        self.curves.slowly_if_narrow(wants, None, None)
    }

    /// Releases the bookings of viewers who do not play, and books for those who do.
    pub fn keep_books(&mut self) {
        self.desk.advance(self.now);
        for id in self.viewers.keys().copied().collect::<Vec<_>>() {
            let Some(viewer) = self.viewers.get(&id) else {
                continue;
            };
            let activity = match viewer.state {
                State::Waiting | State::Preparing => Activity::Ready,
                State::Playing => Activity::Playing,
                State::Paused => Activity::Paused,
            };
            let booking = viewer.booking;
            let is_due = self
                .desk
                .keep_books(self.now, booking, activity, Duration::ZERO);
            if is_due {
                let at = self.position(id);
                let _ = self.rebook(id, at, false);
            }
        }
    }

    /// Returns a viewer's position in their film.
    pub fn position(&self, id: u64) -> Nanos {
        let place = self.lane.place_of(id);
        let stream = place.and_then(|place| self.lane.stream(place));
        let at = stream.map(|stream| stream.position(self.now.nanos()));
        at.or_else(|| Some(self.viewers.get(&id)?.at))
            .unwrap_or_default()
    }

    /// Returns where a play begins for the requested position `wish`, as the server finds it.
    fn beginning(&self, film: usize, wish: Nanos) -> Nanos {
        let film = &self.films[film];
        let found = film.script.outline.locate(&film.tracks(), wish);
        found.map_or(wish, |found| found.at)
    }

    /// Handles the time at which a viewer's film begins.
    pub fn begin_film(&mut self, id: u64, epoch: u32) {
        let waits = |viewer: &&Viewer| viewer.epoch == epoch && viewer.state == State::Waiting;
        let Some(viewer) = self.viewers.get(&id).filter(waits) else {
            return;
        };
        if !self.desk.begins(self.now, viewer.booking) {
            return self.leave(id, "their session has ended");
        }
        self.prepare(id);
    }

    pub fn change_later(&mut self, id: u64) {
        let after = self.random.within(500, 25_000);
        self.after(Duration::from_millis(after), Event::Change(id));
    }

    /// Lets a viewer do something.
    pub fn change(&mut self, id: u64) {
        if self.fetchers.contains_key(&id) {
            return self.changes_over_http(id);
        }
        if self.clients.contains_key(&id) || self.is_over_rtsp(id) {
            self.changes_over_rtsp(id);
            return self.change_later(id);
        }
        let what = self.random.within(0, 10);
        let stands = self.random.once_in(3);
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        match (what, viewer.state) {
            (_, State::Paused) => {}
            (_, State::Playing) if stands && viewer.connection.is_some() => self.stops_reading(id),
            (0..5, State::Preparing | State::Playing) => self.seek(id),
            (5..8, State::Playing) => self.pause(id),
            (8, _) => return self.leave(id, "they have seen enough"),
            (9, _) => viewer.vanishes = true,
            _ => {}
        }
        self.change_later(id);
    }

    /// Books the film from `at` on instead of the previous booking; returns whether
    /// that is granted.
    pub fn rebook(&mut self, id: u64, at: Nanos, may_refuse: bool) -> bool {
        let Some(viewer) = self.viewers.get(&id) else {
            return false;
        };
        let (film, booking, carriage) = (viewer.film, viewer.booking, viewer.carriage());
        let needs = self.needs((film, carriage), at);
        let outcome = self.desk.plays(self.now, booking, &needs, may_refuse);
        self.sent_away(&outcome.ended);
        outcome.answer.is_ok()
    }

    fn seek(&mut self, id: u64) {
        let Some(viewer) = self.viewers.get(&id) else {
            return;
        };
        let film = viewer.film;
        let wish = self.random.within(0, self.films[film].length() as u64) as Nanos;
        let at = self.beginning(film, wish);
        let may = self.rebook(id, at, true);
        let to_ms = at / 1_000_000;
        self.note(&Line::Seeks {
            viewer: id,
            to_ms,
            may,
        });
        if !may {
            return;
        }
        self.counters.seeks += 1;
        self.goes_elsewhere(id, at);
        self.lane.seek(id, at, None, id);
        self.acts();
    }

    /// Resets the state for a new position: the next packets do not follow those sent so far.
    pub fn goes_elsewhere(&mut self, id: u64, at: Nanos) {
        if let Some(viewer) = self.viewers.get_mut(&id) {
            (viewer.at, viewer.state) = (at, State::Preparing);
            viewer.restart();
            (viewer.begins, viewer.unseen) = (at, 0);
            viewer.is_apart = false;
            viewer.epoch += 1;
            let connection = viewer.connection.iter_mut();
            connection.for_each(Connection::goes_elsewhere);
            viewer.sent.iter_mut().for_each(Sent::leave);
        }
    }

    fn pause(&mut self, id: u64) {
        self.stands(id);
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        viewer.tries = 5;
        self.desk.rests(self.now, viewer.booking);
        self.counters.pauses += 1;
        let after = self.random.within(200, 15_000);
        self.after(Duration::from_millis(after), Event::Resume(id));
    }

    /// Pauses a viewer's stream, and returns its position.
    pub fn stands(&mut self, id: u64) -> Option<Nanos> {
        let at = self.lane.pause(id, self.now.nanos());
        self.acts();
        let now = self.now;
        let mut waits = self.waits.range((id, 0, 0, 0)..(id + 1, 0, 0, 0));
        let is_missing = waits.any(|(_, due)| *due < now);
        let viewer = self.viewers.get_mut(&id)?;
        viewer.is_apart |= is_missing;
        viewer.state = State::Paused;
        viewer.restart();
        viewer.connection.iter_mut().for_each(Connection::rests);
        viewer.at = at.unwrap_or(viewer.at);
        self.note(&Line::Pauses { viewer: id });
        at
    }

    /// Returns whether a viewer came over RTSP.
    pub fn is_over_rtsp(&self, id: u64) -> bool {
        self.viewers
            .get(&id)
            .is_some_and(|viewer| viewer.is_over_rtsp)
    }

    /// Lets a paused viewer try to resume.
    pub fn resume(&mut self, id: u64) {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        let left = viewer.tries;
        viewer.tries = left.saturating_sub(1);
        let at = viewer.at;
        let may = self.rebook(id, at, true);
        self.note(&Line::Resumes { viewer: id, may });
        if may {
            if let Some(viewer) = self.viewers.get_mut(&id) {
                viewer.state = State::Preparing;
                viewer.restart();
            }
            self.lane.resume(id, id, self.now.nanos());
            self.acts();
        } else if left == 0 {
            self.leave(id, "they gave up trying to resume");
        } else {
            self.after(AGAIN, Event::Resume(id));
        }
    }

    /// Lets a viewer leave.
    pub fn leave(&mut self, id: u64, why: &'static str) {
        let Some(mut viewer) = self.viewers.remove(&id) else {
            return;
        };
        self.note(&Line::Leaves { viewer: id, why });
        let wrongly = self.random.once_in(4);
        if !(wrongly && self.config.wrong == Some(Wrong::BookingKept)) {
            self.desk.end(self.now, viewer.booking);
        }
        if wrongly && self.config.wrong == Some(Wrong::PinLeaked) {
            self.leaked.extend(viewer.kept.pop_back());
        }
        self.bookings.remove(&viewer.booking);
        self.news(News::Left(id));
        drop(self.lane.remove(id));
        drop(viewer);
        self.release();
    }
}

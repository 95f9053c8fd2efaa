//! HTTP viewers arrive, request segments, seek, pause, stop reading and leave.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use reelway_admission::Activity;
use reelway_demand::Carriage;
use reelway_media::{Nanos, SECOND};
use reelway_pool::News;
use reelway_viewing::{Caller, Delivery, Doing, End, Film, Key, Mismatch, Piece, Window, Windows};

use crate::client::address;
use crate::config::Rule;
use crate::events::Event;
use crate::fetcher::{Answer, Answering, Fetcher, Fetching, Plays, token};
use crate::node::Node;
use crate::trace::Line;

/// The buffered film beyond which a player requests no more.
const ENOUGH: Nanos = 30 * SECOND;

impl Node {
    /// Lets a viewer request the playlist of a film, to watch it from `at` on.
    pub fn opens(&mut self, id: u64, film: usize, at: Nanos) {
        // Their position is not known before they request a segment.
        let Ok(reservation) = self.admit(id, (film, Carriage::Http), 0) else {
            return;
        };
        let (booking, starts_in) = (reservation.id, reservation.starts_in);
        let film_of = Film {
            title: &self.films[film].name,
            edition: &self.films[film].version,
            as_stream: false,
        };
        let began = (Delivery::Hls, None);
        let entry = self.known.enter(Key::Token(token(id)), film_of, began, id);
        // Some connections are hardly faster than the film's rate, others much faster.
        let rate = self.films[film].rate();
        let speed = rate * self.random.within(12, 200) / 10;
        let eager = self.wants((film, Carriage::Http)).eager.unwrap_or_default();
        let mut fetcher = Fetcher::new((film, booking, entry), speed, eager, self.now);
        fetcher.heard = self.now + starts_in;
        self.fetchers.insert(id, fetcher);
        self.moves_to(id, at);
        self.after(starts_in, Event::Fetches(id, 0, 1));
        self.after(starts_in, Event::Fetches(id, 1, 1));
        self.change_later(id);
    }

    /// Moves a player to another position: answers in transit are aborted.
    fn moves_to(&mut self, id: u64, at: Nanos) {
        let now = self.now;
        for track in 0..2 {
            self.breaks_off(id, track);
        }
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        let package = &self.films[fetcher.film].package;
        // A track that the film does not have must not delay the player.
        for track in &mut fetcher.tracks {
            track.reached = Nanos::MAX;
        }
        for (track, of) in fetcher.tracks.iter_mut().zip(package.tracks()) {
            let next = of.number_at(at);
            *track = Fetching {
                next,
                reached: of.start(next).unwrap_or(at),
                turn: track.turn + 1,
                ..Fetching::default()
            };
        }
        fetcher.clock = (now, fetcher.tracks[0].reached);
        fetcher.since = now;
    }

    /// Lets a player request more of a track, unless it has enough. `turn` is that of the scheduled
    /// request: it is ignored after other actions.
    pub fn fetches(&mut self, id: u64, track: usize, turn: u64) {
        let now = self.now;
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        if track >= self.films[fetcher.film].title.tracks.len() {
            return;
        }
        let fetching = &fetcher.tracks[track];
        let is_due = fetching.turn == turn && fetching.answer.is_none();
        if !is_due || self.closing || fetcher.plays == Plays::Vanished {
            return;
        }
        let ahead = fetching.reached - fetcher.position(now);
        if ahead > ENOUGH {
            // Paused players request more when they resume.
            if fetcher.plays == Plays::Playing {
                let after = Duration::from_nanos((ahead - ENOUGH) as u64);
                self.after(after, Event::Fetches(id, track, turn));
            }
            return;
        }
        let (film, number) = (fetcher.film, fetching.next);
        let of = &self.films[film].package.tracks()[track];
        let segment = (
            of.kind.into(),
            of.segment_len(number),
            of.start(number),
            of.duration(number),
        );
        let (flow, Some(len), Some(start), Some(duration)) = segment else {
            return self.has_all(id);
        };
        let Some(slices) = of.slices(number, 0..len) else {
            return;
        };
        match self.knows(id) {
            Some(Err(Mismatch::Replaced)) => {
                self.counters.replaced += 1;
                return self.stops_fetching(id, End::Over, "their film was replaced");
            }
            Some(_) => {}
            None => {
                let what = format!("viewer {id} is watching, but is not recognised");
                self.broken(Rule::Known, what);
            }
        }
        let piece = Piece {
            flow,
            at: number.into(),
            next: u64::from(number) + 1,
            time: start..start + duration,
            main: track == 0,
            extra: 0.0,
        };
        let answering = Answering {
            viewer: id,
            track,
            number: self.events.number(),
        };
        self.note(&Line::Fetches {
            viewer: id,
            track,
            segment: number,
            bytes: len,
        });
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        fetcher.heard = now;
        let moved = fetcher.place.asks(&piece, now);
        fetcher.tracks[track].answer = Some(Answer {
            number: answering.number,
            segment: number,
            len,
            sent: 0,
            slices,
            windows: Windows::of_parts(),
            due: VecDeque::new(),
            window: Window::default(),
            leave: 0,
            pins: Vec::new(),
            copies: Vec::new(),
            given: None,
        });
        if let Some(moved) = moved {
            // Viewers who seek may always go on.
            self.is_unjudged |= !moved.begins;
            let booking = fetcher.booking;
            let may_refuse = moved.begins;
            let needs = self.needs((film, Carriage::Http), moved.to);
            let outcome = self.desk.plays(now, booking, &needs, may_refuse);
            self.sent_away(&outcome.ended);
            if outcome.answer.is_err() {
                if let Some(fetcher) = self.fetchers.get_mut(&id) {
                    fetcher.place.is_refused();
                }
                self.counters.refused += 1;
                return self.stops_fetching(
                    id,
                    End::Over,
                    "there is no room for them at their position",
                );
            }
        }
        self.answers(answering);
    }

    /// Returns whether a viewer came over HTTP.
    pub fn is_over_http(&self, id: u64) -> bool {
        self.fetchers.contains_key(&id) || self.away.contains_key(&id)
    }

    /// Returns whether the server recognises a viewer by their token, and whether the film of this
    /// title is still the one that they watch.
    fn knows(&mut self, id: u64) -> Option<Result<(), Mismatch>> {
        let fetcher = self.fetchers.get(&id).map(|fetcher| fetcher.film);
        let away = self.away.get(&id).map(|(film, _)| *film);
        let watched = fetcher.or(away)?;
        let now = self.is_now(watched);
        let caller = Caller {
            peer: SocketAddr::new(address(id), 40_000),
            connection: id,
            agent: None,
            token: Some(token(id)),
            query: None,
        };
        let film = Film {
            title: &self.films[now].name,
            edition: &self.films[now].version,
            as_stream: false,
        };
        let found = self
            .known
            .find(&caller, film.title, Delivery::Hls, self.now);
        let present = found.ok().and_then(|found| found.present)?;
        let (other, check) = (present.viewer, present.check(film));
        let right = match now == watched {
            true => Ok(()),
            false => Err(Mismatch::Replaced),
        };
        if (other, check) != (id, right) {
            let what = format!("viewer {id} is recognised as viewer {other}; film: {check:?}");
            self.broken(Rule::Known, what);
        }
        Some(check)
    }

    /// Lets a player do something else.
    pub fn changes_over_http(&mut self, id: u64) {
        let what = self.random.within(0, 10);
        let now = self.now;
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        let film = fetcher.film;
        match (what, fetcher.plays) {
            (0..4, Plays::Playing) => {
                let to = self.random.within(0, self.films[film].length() as u64) as Nanos;
                self.counters.seeks += 1;
                let to_ms = to / 1_000_000;
                let may = true;
                self.note(&Line::Seeks {
                    viewer: id,
                    to_ms,
                    may,
                });
                self.moves_to(id, to);
                self.asks_for_both(id);
            }
            (4..8, Plays::Playing) => {
                let at = fetcher.position(now);
                (fetcher.plays, fetcher.clock) = (Plays::Paused, (now, at));
                self.counters.pauses += 1;
                self.note(&Line::Pauses { viewer: id });
                // Sometimes for longer than a silent viewer is remembered.
                let longest = if self.random.once_in(4) {
                    90_000
                } else {
                    15_000
                };
                let after = self.random.within(200, longest);
                self.after(Duration::from_millis(after), Event::Resume(id));
            }
            (8, _) => return self.stops_fetching(id, End::Over, "they have seen enough"),
            (9, Plays::Playing) => {
                fetcher.plays = Plays::Vanished;
                self.counters.vanished += 1;
            }
            _ => {}
        }
        self.change_later(id);
    }

    /// Resumes a paused player. If the server has given its viewer up meanwhile, they come back
    /// with their old token.
    pub fn resumes_over_http(&mut self, id: u64) {
        let now = self.now;
        if self.closing {
            return;
        }
        if self.away.contains_key(&id) {
            if self.knows(id).is_some() {
                let what = format!("viewer {id} was given up, but is still recognised");
                self.broken(Rule::Known, what);
            }
            if let Some((film, at)) = self.away.remove(&id) {
                let film = self.is_now(film);
                let at = at.min(self.films[film].length());
                self.opens(id, film, at);
            }
            return;
        }
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        if fetcher.plays == Plays::Paused {
            (fetcher.plays, fetcher.clock.0) = (Plays::Playing, now);
            fetcher.resumed = now;
            self.note(&Line::Resumes {
                viewer: id,
                may: true,
            });
            self.asks_for_both(id);
        }
    }

    fn asks_for_both(&mut self, id: u64) {
        for track in 0..2 {
            let fetcher = self.fetchers.get(&id);
            if let Some(turn) = fetcher.map(|fetcher| fetcher.tracks[track].turn) {
                self.fetches(id, track, turn);
            }
        }
    }

    /// Handles that a player has all of a track. When it has the whole film, it leaves.
    fn has_all(&mut self, id: u64) {
        let Some(fetcher) = self.fetchers.get(&id) else {
            return;
        };
        let package = &self.films[fetcher.film].package;
        let mut tracks = fetcher.tracks.iter().zip(package.tracks());
        let is_whole = tracks.all(|(fetching, of)| of.start(fetching.next).is_none());
        if is_whole {
            self.stops_fetching(id, End::Over, "they have the whole film");
        }
    }

    /// Once a second: viewers who are silent for too long are given up, and bookings of viewers who
    /// pause are released.
    pub fn gives_up_the_silent(&mut self) {
        for id in self.fetchers.keys().copied().collect::<Vec<_>>() {
            let Some(fetcher) = self.fetchers.get(&id) else {
                continue;
            };
            // While the server stood still, it heard of no viewer.
            let silence = self.now.since(fetcher.heard.max(self.frozen));
            let plays = fetcher.plays;
            let away = (fetcher.film, fetcher.position(self.now));
            let progress = fetcher.place.progress(silence, self.now);
            let limit = fetcher.place.idle_limit();
            // A player with much buffered film may request nothing for a while after a pause.
            let since = fetcher.resumed.max(fetcher.heard).max(self.frozen);
            let has_played = self.now.since(since) > limit;
            let (booking, film) = (fetcher.booking, fetcher.film);
            if silence > limit {
                if plays == Plays::Playing && has_played {
                    let what = format!("viewer {id} is given up while playing");
                    self.broken(Rule::Known, what);
                }
                if plays != Plays::Vanished {
                    self.away.insert(id, away);
                }
                if plays == Plays::Playing {
                    self.after(Duration::from_secs(2), Event::Resume(id));
                }
                self.counters.given_up += 1;
                self.stops_fetching(id, End::Silent, "they were silent for too long");
                continue;
            }
            let activity = match progress.doing {
                Doing::Ready => Activity::Ready,
                Doing::Playing => Activity::Playing,
                Doing::Paused => Activity::Paused,
            };
            let is_due = self
                .desk
                .keep_books(self.now, booking, activity, Duration::ZERO);
            if is_due {
                let at = (progress.position.unwrap_or(0.0) * SECOND as f64) as Nanos;
                let needs = self.needs((film, Carriage::Http), at);
                self.is_unjudged = true;
                let outcome = self.desk.plays(self.now, booking, &needs, false);
                self.sent_away(&outcome.ended);
            }
        }
    }

    /// Removes an HTTP viewer.
    pub fn stops_fetching(&mut self, id: u64, end: End, why: &'static str) {
        for track in 0..2 {
            self.breaks_off(id, track);
        }
        let Some(fetcher) = self.fetchers.remove(&id) else {
            return;
        };
        self.note(&Line::Leaves { viewer: id, why });
        self.known.leave(fetcher.entry, end, self.now);
        self.desk.end(self.now, fetcher.booking);
        self.bookings.remove(&fetcher.booking);
        self.news(News::Left(id));
    }
}

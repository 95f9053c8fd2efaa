//! Answers over HTTP, window by window: each is requested when it is due, read, handed
//! over and received.
//!
//! An answer has one window in transit at a time. (The server requests the next one while a fast
//! connection receives this one.)

use std::ops::Range;
use std::time::Duration;

use reelway_media::{Nanos, SECOND};
use reelway_viewing::{Beyond, COPIED, End, Next, Pace, Standing};

use crate::config::Rule;
use crate::events::Event;
use crate::fetcher::{Answer, Answering, Fetcher, Plays};
use crate::film::Film;
use crate::held::InPages;
use crate::node::{Ask, For, Held, Node};
use crate::trace::Line;
use crate::world::{BLOCK, LEAD};

/// Film seconds after which a player has enough buffered, however slowly it began.
const WELL_BEGUN: f64 = 20.0;
/// A connection with this many times the film's rate is fast.
const FAST: u64 = 4;
/// The time after which a connection is closed whose client reads nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

impl Node {
    /// Continues an answer when its time has come: the next window is requested.
    pub fn answers(&mut self, answering: Answering) {
        let (id, track, now) = (answering.viewer, answering.track, self.now);
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        let film = fetcher.film;
        let of = &self.films[film];
        let packaged = &of.package.tracks()[track];
        let Standing { wait, ahead, .. } = fetcher.place.standing(packaged.kind.into(), now);
        if fetcher.answer(answering).is_none() {
            return;
        }
        if !wait.is_zero() {
            return self.after(wait, Event::Answers(answering));
        }
        let leave = self.budget.window(self.leaves, false);
        let most = leave.map_or(COPIED, |leave| leave.bytes);
        let per_byte = seconds_per_byte(of, track, fetcher);
        let size = fetcher.place.window(packaged.kind.into(), most, per_byte);
        let Some(answer) = fetcher.answer(answering) else {
            return;
        };
        let window = loop {
            match answer.windows.next(size) {
                Next::Window(window) => break Some(window),
                Next::End => break None,
                Next::Parts => match answer.slices.next(packaged, &*of.samples) {
                    Ok(Some(segment)) => {
                        answer.due.extend(segment.parts.iter().cloned());
                        answer.windows.add(segment.parts);
                    }
                    _ => answer.windows.end(),
                },
            }
        };
        let Some(window) = window else {
            let what = format!(
                "segment {} of track {track} of film {film} ends after {} of {} bytes",
                answer.segment, answer.sent, answer.len
            );
            self.broken(Rule::Fetched, what);
            return self.breaks_off(id, track);
        };
        let (follows, segment) = (answer.follows(&window), answer.segment);
        answer.leave = leave.map_or(0, |leave| leave.blocks as usize);
        self.leaves = self.leaves.saturating_sub(answer.leave);
        let range = window.film.clone();
        answer.window = window;
        if !follows {
            let what = format!(
                "a window of segment {segment} of track {track} of film {film} does not contain the bytes that follow"
            );
            self.broken(Rule::Fetched, what);
        }
        let Some(range) = range else {
            return self.handed(answering);
        };
        let due = now + Duration::from_secs_f64(ahead.clamp(0.0, 3600.0));
        let first = (range.start / BLOCK) as u32;
        let blocks = range.end.div_ceil(BLOCK) as u32 - first;
        if track == 0 {
            self.watches(id, film, first);
        }
        if due < now + Duration::from_nanos(LEAD as u64) {
            let blocks = self.films[film].reads(blocks);
            self.goes_ahead(blocks);
        }
        self.ask(Ask {
            film,
            whom: For::Answer(answering),
            first,
            blocks,
            at: now,
            due,
        });
    }

    /// Handles a window's blocks that were read, or that cannot be read.
    pub fn window_read(&mut self, ask: &Ask, answering: Answering, held: Option<Held>) {
        let id = answering.viewer;
        if let Some(held) = &held {
            self.pinned(ask, held);
        }
        let fetcher = self.fetchers.get_mut(&id);
        let answer = fetcher.and_then(|fetcher| fetcher.answer(answering));
        let Some(answer) = answer else {
            return self.lets_go(held.unwrap_or_default());
        };
        let Some(held) = held else {
            self.counters.failed += 1;
            let why = "the film cannot be read";
            return self.stops_fetching(id, End::Failed(why.to_owned()), why);
        };
        if let Some(range) = answer.window.film.clone() {
            let blocks = u64::from(ask.first)..u64::from(ask.first + ask.blocks);
            if range.start < blocks.start * BLOCK || range.end > blocks.end * BLOCK {
                let what = format!("bytes {range:?} are not all in blocks {blocks:?}");
                self.broken(Rule::Fetched, what);
            }
            self.compares(ask, range, &held);
        }
        let by = self.now.since(ask.due);
        if !by.is_zero() {
            let what = format!("the blocks from {} on of film {}", ask.first, ask.film);
            self.explain(
                id,
                (ask.at, ask.due),
                self.films[ask.film].reads(ask.blocks),
                by.as_nanos() as Nanos,
                &what,
            );
        }
        let answer = self.fetchers.get_mut(&id);
        let answer = answer.and_then(|fetcher| fetcher.answer(answering));
        match answer {
            Some(answer) if answer.leave > 0 => self.pins_window(ask, answering, held),
            // Without permission to pin, they are copied.
            _ => self.lets_go(held),
        }
        let pinned = self.pinned_over_http();
        if pinned > self.budget.blocks {
            let what = format!(
                "answers over HTTP pin {pinned} blocks, but may pin only {}",
                self.budget.blocks
            );
            self.broken(Rule::WithinBudget, what);
        }
        self.handed(answering);
    }

    /// Checks that bytes of a film in a file have the known content.
    fn compares(&mut self, ask: &Ask, range: Range<u64>, held: &Held) {
        let film = &self.films[ask.film];
        let Some(played) = film.played(range.clone()) else {
            return;
        };
        let pages = InPages {
            film,
            first: ask.first,
            pins: held,
        };
        self.counters.compared += 1;
        if !pages.are(range.start, played) {
            let what = format!(
                "bytes {range:?} of film {} differ from the known content",
                ask.film
            );
            self.broken(Rule::AsPutIn, what);
        }
    }

    /// Returns the number of blocks that answers pin.
    pub fn pinned_over_http(&self) -> usize {
        let tracks = self.fetchers.values().flat_map(|fetcher| &fetcher.tracks);
        let answers = tracks.flat_map(|track| &track.answer);
        answers.map(|answer| answer.pins.len()).sum()
    }

    /// Hands a window over to the connection, which needs some time for it.
    fn handed(&mut self, answering: Answering) {
        let (id, track, now) = (answering.viewer, answering.track, self.now);
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        let of = &self.films[fetcher.film];
        let per_byte = seconds_per_byte(of, track, fetcher);
        let flow = of.package.tracks()[track].kind.into();
        let Some(answer) = fetcher.answer(answering) else {
            return;
        };
        let bytes = answer.window.bytes();
        answer.sent += bytes;
        let (sent, len) = (answer.sent, answer.len);
        let seconds = bytes as f64 * per_byte;
        let standing = fetcher.place.standing(flow, now);
        let begins = fetcher.place.sent(flow, bytes, seconds);
        fetcher.heard = now;
        let fetching = &mut fetcher.tracks[track];
        fetching.sent_before = fetching.sent;
        fetching.sent += seconds;
        let passed = now.since(fetcher.since).as_nanos() as Nanos;
        let may = fetcher.eager.sent_by(passed) as f64 / SECOND as f64;
        let (was, booking) = (fetching.sent_before, fetcher.booking);
        let pace = Pace::booked(&fetcher.eager);
        let limit = pace.connection_speed(&standing, per_byte, Beyond::Nothing);
        self.note(&Line::Sends {
            viewer: id,
            track,
            bytes,
        });
        // The first window after a beginning is always allowed, and each may be a debt.
        if was > may + 1e-3 {
            let what = format!(
                "viewer {id} has been sent {was:.3} s of track {track} in {:.3} s, but only {may:.3} s are booked",
                passed as f64 / SECOND as f64
            );
            self.broken(Rule::Paced, what);
        }
        if sent > len {
            let what = format!("viewer {id} is sent {sent} bytes of a segment of {len} bytes");
            self.broken(Rule::Fetched, what);
        }
        if begins && !self.desk.begins(now, booking) {
            return self.stops_fetching(id, End::Silent, "their session has ended");
        }
        self.gives_copies(answering);
        self.goes_out(answering, bytes, limit);
    }

    /// Handles that the viewer has received a window.
    pub fn is_taken(&mut self, answering: Answering) {
        let (id, track, now) = (answering.viewer, answering.track, self.now);
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        if fetcher.plays == Plays::Vanished {
            return self.after(PATIENCE, Event::Cut(answering));
        }
        fetcher.heard = now;
        let Some(answer) = fetcher.answer(answering) else {
            return;
        };
        let (segment, is_whole) = (answer.segment, answer.sent >= answer.len);
        self.gives_back(id, track);
        if !is_whole {
            return self.answers(answering);
        }
        self.counters.fetched += 1;
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        let of = &self.films[fetcher.film].package.tracks()[track];
        fetcher
            .place
            .ends(of.kind.into(), segment.into(), true, now);
        // A player that had run dry continues from where it stopped.
        fetcher.clock = (now, fetcher.position(now));
        let fetching = &mut fetcher.tracks[track];
        let end = of.start(segment).zip(of.duration(segment));
        fetching.reached = end.map_or(fetching.reached, |(start, duration)| start + duration);
        fetching.answer = None;
        fetching.next = segment + 1;
        let turn = fetching.turn;
        self.fetches(id, track, turn);
    }

    /// Once a second: checks that players with fast connections do not run dry.
    pub fn check_supply(&mut self) {
        if self.explains(self.now) {
            return;
        }
        let waits = self.fetchers.iter().filter_map(|(id, fetcher)| {
            let film = &self.films[fetcher.film];
            let mut tracks = fetcher.tracks.iter().zip(film.package.tracks());
            let is_playing = fetcher.plays == Plays::Playing && fetcher.tracks[0].sent > WELL_BEGUN;
            let is_fast = fetcher.speed >= film.rate() * FAST;
            let has_more = tracks.any(|(track, of)| of.start(track.next).is_some());
            let lacks = fetcher.lacks(self.now);
            (is_playing && is_fast && has_more && lacks > SECOND).then_some((*id, lacks))
        });
        for (id, lacks) in waits.collect::<Vec<_>>() {
            let what = format!(
                "viewer {id} has waited {:.3} s for more of the film",
                lacks as f64 / SECOND as f64
            );
            self.broken(Rule::OnTime, what);
        }
    }

    /// Releases what an answer pinned.
    fn gives_back(&mut self, id: u64, track: usize) {
        let fetcher = self.fetchers.get_mut(&id);
        let answer = fetcher.and_then(|fetcher| fetcher.tracks[track].answer.as_mut());
        let Some(answer) = answer else {
            return;
        };
        self.leaves += std::mem::take(&mut answer.leave);
        let pins = std::mem::take(&mut answer.pins);
        answer.copies.clear();
        if let Some(window) = answer.given.take() {
            self.has_given(window);
        }
        self.lets_go(pins);
    }

    pub fn lets_go(&mut self, mut pins: Held) {
        self.let_go.borrow_mut().append(&mut pins);
        self.release();
    }

    /// Closes the connection of an answer whose client reads nothing.
    pub fn is_cut(&mut self, answering: Answering) {
        let fetcher = self.fetchers.get_mut(&answering.viewer);
        if fetcher.is_some_and(|fetcher| fetcher.answer(answering).is_some()) {
            self.breaks_off(answering.viewer, answering.track);
        }
    }

    /// Aborts an answer, if there is one.
    pub fn breaks_off(&mut self, id: u64, track: usize) {
        self.gives_back(id, track);
        let now = self.now;
        let Some(fetcher) = self.fetchers.get_mut(&id) else {
            return;
        };
        if let Some(answer) = fetcher.tracks[track].answer.take() {
            let flow = self.films[fetcher.film].package.tracks()[track].kind.into();
            fetcher.place.ends(flow, answer.segment.into(), false, now);
            fetcher.heard = now;
        }
    }
}

/// Returns the film seconds that a byte of the current answer plays.
fn seconds_per_byte(film: &Film, track: usize, fetcher: &Fetcher) -> f64 {
    let answer = fetcher.tracks[track].answer.as_ref();
    let of = &film.package.tracks()[track];
    let seconds = |answer: &Answer| {
        let duration = of.duration(answer.segment).unwrap_or(0).max(0);
        duration as f64 / SECOND as f64 / answer.len.max(1) as f64
    };
    answer.map_or(0.0, seconds)
}

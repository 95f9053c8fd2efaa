//! A stream as its sender thread has it: what it does, where it stands, what it may send now.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reelway_clock::Monotonic;
use reelway_media::Nanos;
use reelway_rtp::Header;
use reelway_sys::udp::Destination;
use reelway_timetable::Beginning;

use crate::FrameWriter;
use crate::cursor::{Cursor, Unit};
use crate::inbox::{Inbox, Reply, StreamId};
use crate::pacing::{Pace, TURN, Window};
use crate::planner::{Planner, Waiter};
use crate::plans::Script;
use crate::shared::Shared;
use crate::stream::{PlayInfo, State, StreamError, StreamEvent, TrackInfo};
use crate::thread::Counters;

/// How long after the last packet BYE leaves at the earliest: players take it for the end even when
/// packets are still waiting in their other socket.
const BEFORE_BYE: u64 = 150_000_000;
/// How long after the last packet BYE leaves at the latest.
const BYE_LATEST: u64 = 5_000_000_000;

/// How long before it is sent a picture counts as taken, by sender reports. Pictures are sent by
/// decode time and stamped with presentation time, which may be later by what reordering takes. A
/// report of the moment of sending would then lie before the first packet's timestamp, and
/// GStreamer throws such reports away: it would learn how sound and picture belong together 5 s
/// later, and jump. More than a second ahead it throws away too.
const CAPTURED: Nanos = 300_000_000;

/// Where a track's packets go.
pub(crate) enum Path {
    /// Through the thread's RTP socket and the common RTCP socket of these numbers.
    Udp {
        socket: u8,
        rtp: Destination,
        rtcp_socket: usize,
        rtcp: Destination,
    },
    /// Into an RTSP connection.
    Tcp {
        conn: Arc<FrameWriter>,
        rtp: u8,
        rtcp: u8,
    },
}

/// A track of a viewer.
pub(crate) struct Track {
    pub path: Path,
    pub payload_type: u8,
    pub ssrc: u32,
    /// Sequence number of the next packet.
    pub seq: u16,
    pub rtp_base: u32,
    /// Sent so far, as sender reports count.
    pub packets: u32,
    pub octets: u32,
    pub cursor: Cursor,
}

/// What may leave now.
pub(crate) struct Due {
    pub track: usize,
    /// Packets of the unit at hand: from the first, up to but not with the last.
    pub first: u32,
    pub end: u32,
    /// When they should leave, CLOCK_MONOTONIC ns.
    pub at: u64,
}

/// What all streams of a thread have in common.
pub(crate) struct Rules {
    pub burst: u16,
    pub ahead: Nanos,
    pub lag_limit: u64,
    pub catch_up: u64,
    pub report_interval: u64,
}

/// What a stream needs of its surroundings.
pub(crate) struct Means {
    pub inbox: Inbox,
    pub planner: Planner,
    pub rules: Arc<Rules>,
    /// Of the thread.
    pub counters: Arc<Counters>,
}

/// A stream on its thread.
pub(crate) struct Active {
    pub shared: Arc<Shared>,
    pub script: Arc<Script>,
    pub tracks: Vec<Track>,
    pub inbox: Inbox,
    pub planner: Planner,
    pub rules: Arc<Rules>,
    counters: Arc<Counters>,
    /// What was asked for first.
    pub wish: (Nanos, Option<Nanos>),
    /// Who waits for it to be ready.
    pub reply: Option<Reply>,
    pub state: State,
    /// Counts beginnings.
    epoch: u32,
    /// Film time `film` leaves at `wall`.
    wall: u64,
    film: Nanos,
    /// Presentation time it began with; the range's end.
    start: Nanos,
    end: Nanos,
    /// `go` came before it was ready.
    go: bool,
    pub window: Window,
    /// The turn it is in on the wheel.
    pub armed: u64,
    /// The kernel had no room, or a TCP reader was slow: not before this.
    pub retry_at: u64,
    /// Whether runs may be cut by the kernel on this stream's way.
    pub gso: bool,
    /// When sender reports are due; 0: with the first packets.
    next_report: u64,
    /// When BYE is due.
    over_at: Option<u64>,
    /// BYE was sent for what was sent.
    bye: bool,
    /// A TCP stream that was behind sends at most at twice the film's rate.
    pub not_before: u64,
    /// When it last waited for a plan, that it is not blamed on the reader.
    starved: bool,
}

impl Active {
    /// A stream to be prepared; `reply` waits for it.
    pub fn new(
        shared: Arc<Shared>,
        script: Arc<Script>,
        tracks: Vec<Track>,
        means: Means,
        wish: (Nanos, Option<Nanos>),
        reply: Reply,
    ) -> Active {
        let Means {
            inbox,
            planner,
            rules,
            counters,
        } = means;
        Active {
            shared,
            script,
            tracks,
            inbox,
            planner,
            rules,
            counters,
            wish,
            reply: Some(reply),
            state: State::Preparing,
            epoch: 0,
            wall: 0,
            film: 0,
            start: wish.0,
            end: 0,
            go: false,
            window: Window::default(),
            armed: 0,
            retry_at: 0,
            gso: true,
            next_report: 0,
            over_at: None,
            bye: true,
            not_before: 0,
            starved: false,
        }
    }

    pub fn id(&self) -> StreamId {
        self.shared.id
    }

    pub fn is_tcp(&self) -> bool {
        self.tracks
            .iter()
            .any(|track| matches!(track.path, Path::Tcp { .. }))
    }

    fn enter(&mut self, state: State) {
        match (self.state, state) {
            (State::Playing, State::Playing) => {}
            (State::Playing, _) => drop(self.counters.playing.fetch_sub(1, Ordering::Relaxed)),
            (_, State::Playing) => drop(self.counters.playing.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        self.state = state;
        self.shared.set_state(state);
    }

    /// When something due at this film time should leave.
    fn wall_of(&self, film: Nanos) -> u64 {
        self.wall
            .saturating_add_signed(film.saturating_sub(self.film))
    }

    /// What film time it is.
    fn film_at(&self, now: u64) -> Nanos {
        self.film.saturating_add(now.wrapping_sub(self.wall) as i64)
    }

    /// The presentation time a viewer sees at `now`.
    pub fn position(&self, now: u64) -> Nanos {
        match self.state {
            State::Playing => self
                .film_at(now)
                .clamp(self.start, self.end.max(self.start)),
            _ => self.shared.position.load(Ordering::Relaxed),
        }
    }

    /// RTP timestamp of a track for the wall time `now`, for sender reports: one line through film
    /// time and wall time, the same for all tracks, [`CAPTURED`] ahead of what is being sent.
    pub fn rtp_now(&self, track: &Track, now: u64) -> u32 {
        let captured = self.film_at(now).saturating_add(CAPTURED);
        track
            .rtp_base
            .wrapping_add(self.script.rtp_time(track.cursor.track, captured))
    }

    // --- beginning, stopping -------------------------------------------------------------------

    /// Leaves the place it is at, and looks for the beginning of another.
    pub fn seek(&mut self, start: Nanos, end: Option<Nanos>, reply: Option<Reply>) {
        self.wish = (start, end);
        self.epoch += 1;
        self.go = false;
        self.over_at = None;
        // An older request that was not answered yet is overtaken.
        self.reply = reply.or(self.reply.take());
        for track in &mut self.tracks {
            track.cursor.place(None, 0);
        }
        self.shared.position.store(start, Ordering::Relaxed);
        self.enter(State::Preparing);
        let tracks = self.tracks.iter().map(|track| track.cursor.track).collect();
        self.planner.locate(
            Arc::clone(&self.script),
            tracks,
            start,
            self.inbox.clone(),
            self.id(),
            self.epoch,
        );
    }

    /// Takes in where it begins.
    pub fn located(&mut self, epoch: u32, result: Result<Beginning, StreamError>, now: u64) {
        if epoch != self.epoch || self.state != State::Preparing {
            return;
        }
        let beginning = match result {
            Ok(beginning) => beginning,
            Err(error) => return self.fail(error),
        };
        self.start = beginning.at;
        let duration = self.script.duration();
        let limit = self.wish.1.unwrap_or(Nanos::MAX);
        self.end = limit.min(duration).max(self.start);
        self.film = Nanos::MAX;
        for (track, at) in self.tracks.iter_mut().zip(&beginning.tracks) {
            track.cursor.place(at.map(|at| (at.group, at.due)), limit);
            if let Some(at) = at {
                self.film = self.film.min(at.due);
            }
        }
        if self.film == Nanos::MAX {
            self.film = self.start;
        }
        self.shared.position.store(self.start, Ordering::Relaxed);
        self.want(now);
        self.check_ready(now);
    }

    /// Takes in a plan. True if the stream waited for it: it is to be looked at.
    pub fn planned(
        &mut self,
        epoch: u32,
        track: usize,
        group: usize,
        result: Result<Arc<crate::plans::Planned>, StreamError>,
        now: u64,
    ) -> bool {
        if epoch != self.epoch
            || matches!(
                self.state,
                State::Paused | State::Ended | State::Failed | State::Stopped
            )
        {
            return false;
        }
        let Some(to) = self.tracks.get_mut(track) else {
            return false;
        };
        let waited = !to.cursor.is_ready();
        if let Err(error) = to.cursor.give(group, result) {
            self.fail(error);
            return false;
        }
        self.want(now);
        self.check_ready(now);
        waited
    }

    fn check_ready(&mut self, now: u64) {
        if self.state != State::Preparing
            || !self.tracks.iter().all(|track| track.cursor.is_ready())
        {
            return;
        }
        self.enter(State::Ready);
        let info = self.play_info();
        if let Some(reply) = self.reply.take() {
            // Nobody waits any more: the stream will be stopped or sought by whoever has its handle.
            let _ = reply.send(Ok(info));
        }
        if self.go {
            self.go(now);
        }
    }

    fn play_info(&self) -> PlayInfo {
        let start = self.shared.position.load(Ordering::Relaxed);
        let info = |track: &Track| TrackInfo {
            seq: track.seq,
            rtp_time: track
                .rtp_base
                .wrapping_add(self.script.rtp_time(track.cursor.track, start)),
        };
        PlayInfo {
            start,
            end: self.end,
            tracks: self.tracks.iter().map(info).collect(),
        }
    }

    /// Begins to send what is ready.
    pub fn go(&mut self, now: u64) {
        match self.state {
            State::Ready => {
                self.wall = now;
                self.go = false;
                self.next_report = 0;
                self.bye = false;
                self.not_before = 0;
                self.enter(State::Playing);
                self.want(now);
            }
            State::Preparing => self.go = true,
            _ => {}
        }
    }

    /// Stands still, and lets go of all memory.
    pub fn pause(&mut self, now: u64) -> Nanos {
        // Where a slow reader is, not where it should be.
        let now = now - self.behind(now);
        let position = self.position(now);
        match self.state {
            State::Playing => {
                self.film = self.film_at(now);
                self.wall = now;
                self.stand(position);
            }
            State::Ready => self.stand(position),
            State::Preparing => self.go = false,
            _ => {}
        }
        position
    }

    fn stand(&mut self, position: Nanos) {
        self.epoch += 1;
        self.over_at = None;
        self.shared.position.store(position, Ordering::Relaxed);
        self.shared.behind.store(0, Ordering::Relaxed);
        for track in &mut self.tracks {
            track.cursor.let_go();
        }
        self.enter(State::Paused);
    }

    /// Prepares to go on where it stands.
    pub fn resume(&mut self, reply: Reply, now: u64) {
        match self.state {
            State::Paused => {
                self.reply = Some(reply);
                self.enter(State::Preparing);
                self.epoch += 1;
                self.want(now);
                self.check_ready(now);
            }
            // Already on its way: the answer is where it is.
            State::Playing | State::Ready => {
                let _ = reply.send(Ok(self.play_info()));
            }
            State::Preparing => self.reply = Some(reply),
            State::Ended | State::Failed | State::Stopped => {
                let _ = reply.send(Err(StreamError("the stream is over".to_owned())));
            }
        }
    }

    /// Cannot go on.
    pub fn fail(&mut self, error: StreamError) {
        self.let_go();
        self.enter(State::Failed);
        match self.reply.take() {
            Some(reply) => {
                let _ = reply.send(Err(error));
            }
            None => (self.shared.events)(StreamEvent::Failed(error.0)),
        }
    }

    fn let_go(&mut self) {
        self.epoch += 1;
        self.over_at = None;
        for track in &mut self.tracks {
            track.cursor.let_go();
        }
    }

    /// Whether BYE is still to be said when it is stopped.
    pub fn owes_bye(&self) -> bool {
        !self.bye
    }

    /// BYE was said: at the end of the range, or for good.
    pub fn said_bye(&mut self, ended: bool) {
        self.bye = true;
        self.let_go();
        if ended {
            self.shared.position.store(self.end, Ordering::Relaxed);
            self.enter(State::Ended);
            (self.shared.events)(StreamEvent::Ended);
        } else {
            self.enter(State::Stopped);
        }
    }

    // --- playing ---------------------------------------------------------------------------------

    /// Asks for groups that will be needed soon.
    pub fn want(&mut self, now: u64) {
        let playing = self.state == State::Playing;
        let ahead = if playing {
            self.film_at(now).saturating_add(self.rules.ahead)
        } else {
            Nanos::MIN
        };
        for number in 0..self.tracks.len() {
            let Some((group, due)) = self.tracks[number].cursor.want(&self.script, ahead) else {
                continue;
            };
            let deadline = if playing { self.wall_of(due) } else { now };
            let waiter = Waiter {
                inbox: self.inbox.clone(),
                stream: self.id(),
                epoch: self.epoch,
                track: number,
                group,
                urgent: !self.tracks[number].cursor.is_ready(),
            };
            let id = (self.tracks[number].cursor.track, group);
            self.planner
                .request(&self.script, id, Monotonic::from_nanos(deadline), waiter);
        }
    }

    /// The unit track number `track` is at.
    pub fn unit_of(&self, track: usize) -> Option<Unit<'_>> {
        let cursor = &self.tracks.get(track)?.cursor;
        let payload = self.script.payload(cursor.track).ok().flatten();
        cursor.unit(payload.map(|payload| payload.preface()))
    }

    /// The next slice of a track, and how many packets may leave in its millisecond.
    pub fn slice(&self, track: usize) -> Option<(Due, u32)> {
        let unit = self.unit_of(track)?;
        let pace = Pace::new(unit.packets.len() as u32, unit.duration, self.rules.burst);
        let slice = pace.slice_at(unit.at);
        // What is due before the play began (sound packed with what comes before) is not late at its
        // beginning.
        let at = self.wall_of(unit.due.saturating_add(slice.after).max(self.film));
        Some((
            Due {
                track,
                first: slice.packets.start,
                end: slice.packets.end,
                at,
            },
            pace.cap,
        ))
    }

    /// What may leave now of what is due before `horizon`: at most one slice a track, the earliest
    /// first, and no more than the rule of the millisecond allows.
    pub fn due(&self, now: u64, horizon: u64, out: &mut Vec<Due>) {
        if self.state != State::Playing || now < self.retry_at {
            return;
        }
        let first = out.len();
        let mut cap = u32::from(self.rules.burst);
        for track in 0..self.tracks.len() {
            if let Some((due, needed)) = self.slice(track).filter(|(due, _)| due.at < horizon) {
                cap = cap.max(needed);
                out.push(due);
            }
        }
        out[first..].sort_by_key(|due| due.at);
        let mut room = self.window.room(now, cap);
        let mut kept = first;
        for number in first..out.len() {
            let packets = out[number].end - out[number].first;
            // A slice waits until it can leave whole, unless its stream needs every millisecond.
            let may = if packets <= room || cap > u32::from(self.rules.burst) {
                packets.min(room)
            } else {
                0
            };
            if may == 0 {
                break;
            }
            out[number].end = out[number].first + may;
            room -= may;
            out.swap(kept, number);
            kept += 1;
        }
        out.truncate(kept);
    }

    /// When to look at the stream again; `None`: something must happen first. What is due before
    /// `horizon` and may leave at `now` gives `now`.
    pub fn next_look(&self, now: u64, horizon: u64) -> Option<u64> {
        if self.state != State::Playing {
            return None;
        }
        let mut next = self.over_at.unwrap_or(u64::MAX);
        if self.next_report > 0 {
            next = next.min(self.next_report);
        }
        for (number, track) in self.tracks.iter().enumerate() {
            if !track.cursor.is_ready() {
                // Its plan is late; nobody wakes the thread for a plan that was asked for in time.
                next = next.min((now / TURN + 1) * TURN);
            }
            if let Some((due, cap)) = self.slice(number) {
                let look = if due.at >= horizon {
                    due.at
                } else if self.is_tcp() {
                    self.retry_at.max(self.not_before).max(now)
                } else {
                    let opens = self.window.opens_for(now, cap, due.end - due.first);
                    // The next turn will do, unless the stream needs every millisecond.
                    let needs_all = opens <= now || cap > u32::from(self.rules.burst);
                    let at = if needs_all {
                        opens
                    } else {
                        opens.next_multiple_of(TURN)
                    };
                    at.max(self.retry_at)
                };
                next = next.min(look);
            }
            if let Some((_, due)) = track.cursor.lacking(&self.script) {
                let ask = self.wall_of(due.saturating_sub(self.rules.ahead));
                next = next.min(ask.max((now / TURN + 1) * TURN));
            }
        }
        (next < u64::MAX).then_some(next)
    }

    /// How far behind the stream is: the first packet that should have left.
    pub fn behind(&self, now: u64) -> u64 {
        let first = (0..self.tracks.len())
            .filter_map(|track| Some(self.slice(track)?.0.at))
            .min();
        now.saturating_sub(first.unwrap_or(now))
    }

    /// Moves the timetable on by `nanos`: what was late is due now.
    pub fn shift(&mut self, nanos: u64) {
        self.wall += nanos;
        self.over_at = self.over_at.map(|at| at + nanos);
        self.next_report = 0;
        self.shared.shifts.fetch_add(1, Ordering::Relaxed);
    }

    /// Sees to what is due beside packets. True if the timetable was moved.
    pub fn look_after(&mut self, now: u64) -> bool {
        if self.state != State::Playing {
            return false;
        }
        self.want(now);
        let behind = self.behind(now);
        self.shared.behind.store(behind, Ordering::Relaxed);
        self.shared
            .position
            .store(self.position(now.saturating_sub(behind)), Ordering::Relaxed);
        let starved = self.tracks.iter().any(|track| !track.cursor.is_ready());
        // A plan that came late is our fault, a connection that takes no more is its reader's.
        let ours = std::mem::replace(&mut self.starved, starved) || !self.is_tcp();
        let shift = ours && behind > self.rules.catch_up;
        if shift {
            self.shift(behind);
        } else if behind > self.rules.lag_limit {
            let words = format!(
                "the reader is {:.1} s behind and was given up",
                behind as f64 / 1e9
            );
            self.fail(StreamError(words));
            return false;
        }
        if self.over_at.is_none() && self.tracks.iter().all(|track| track.cursor.is_done()) {
            let end = self.wall_of(self.end);
            self.over_at = Some(end.clamp(now + BEFORE_BYE, now + BYE_LATEST));
        }
        shift
    }

    /// Whether the range's end has been played.
    pub fn is_over(&self, now: u64) -> bool {
        self.state == State::Playing && self.over_at.is_some_and(|at| at <= now)
    }

    /// Whether sender reports are due now; counts as sent then. At the beginning they follow the first
    /// packets.
    pub fn takes_report(&mut self, now: u64) -> bool {
        let due = self.state == State::Playing
            && self.next_report <= now
            && self.tracks.iter().any(|track| track.packets > 0);
        if due {
            self.next_report = now + self.rules.report_interval;
        }
        due
    }

    /// Notes that packets of the unit at hand are gone: `taken` sent, `refused` lost, at `after` the
    /// latest. The bytes of RTP sent.
    pub fn gone(&mut self, due: &Due, taken: u32, refused: u32, after: u64) -> u64 {
        let count = taken + refused;
        if count == 0 {
            return 0;
        }
        let Some(unit) = self.unit_of(due.track) else {
            return 0;
        };
        let of = unit.packets.len() as u32;
        let octets_of = |packets: u32| {
            let packets = &unit.packets[due.first as usize..(due.first + packets) as usize];
            packets
                .iter()
                .map(|packet| u32::from(packet.len))
                .sum::<u32>()
        };
        let octets = octets_of(count);
        let bytes = u64::from(octets_of(taken)) + u64::from(taken) * Header::BYTES as u64;
        let payload = self
            .script
            .payload(self.tracks[due.track].cursor.track)
            .ok()
            .flatten();
        let has_preface = payload.is_some_and(|payload| !payload.preface().packets.is_empty());
        let track = &mut self.tracks[due.track];
        track.seq = track.seq.wrapping_add(count as u16);
        track.packets = track.packets.wrapping_add(count);
        track.octets = track.octets.wrapping_add(octets);
        let moved = track.cursor.advance(count, of, has_preface);
        self.window.note(after, count);
        let shared = &self.shared;
        shared.late.note(after.saturating_sub(due.at), count);
        crate::shared::add(&shared.packets, u64::from(taken));
        crate::shared::add(&shared.bytes, bytes);
        crate::shared::add(&shared.refused, u64::from(refused));
        if let Err(error) = moved {
            self.fail(error);
        }
        bytes
    }
}

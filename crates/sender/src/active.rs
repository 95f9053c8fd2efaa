//! A stream as its sender thread has it: what it does, where it stands, what it may send now.

mod near;
mod on_link;
mod playing;
mod rules;
mod slow;
mod track;

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use reelway_hint::LINE;
use reelway_media::Nanos;
use reelway_playout::{StreamError, Window};
use reelway_store::Watcher;
use reelway_timetable::{Beginning, Schedule};

use crate::inbox::{Inbox, Reply, StreamId};
use crate::planner::Planner;
use crate::plans::{Resend, Script};
use crate::shared::Shared;
use crate::stream::{PlayInfo, State, StreamEvent, TrackInfo};
use crate::thread::Counters;

pub(crate) use self::on_link::{BEGINS_LATER, OnLink};
pub(crate) use self::rules::{Due, Rules};
use self::slow::Slow;
pub(crate) use self::track::{Path, Track, UdpPath};

/// How long after the last packet BYE leaves at the earliest: players take it for the end even when packets still wait in
/// their other socket. ffmpeg reads that of RTCP first, and loses what came while it had no processor.
const BEFORE_BYE: u64 = 500_000_000;
/// How long after the last packet BYE leaves at the latest.
const BYE_LATEST: u64 = 5_000_000_000;

/// How long before it is sent a picture counts as taken, by sender reports. Pictures are sent by
/// decode time and stamped with presentation time, which may be later by what reordering takes. A
/// report of the moment of sending would then lie before the first packet's timestamp, and
/// GStreamer throws such reports away: it would learn how sound and picture belong together 5 s
/// later, and jump. More than a second ahead it throws away too.
const CAPTURED: Nanos = 300_000_000;

/// What a stream needs of its surroundings.
pub(crate) struct Means {
    pub inbox: Inbox,
    pub planner: Planner,
    pub rules: Arc<Rules>,
    /// Of the thread.
    pub counters: Arc<Counters>,
    /// The viewer, as the store's cache knows them.
    pub watcher: Arc<Watcher>,
    /// The limited links that its packets pass, if any.
    pub link: Option<Box<OnLink>>,
}

/// A stream on its thread. What a turn reads and writes of it comes first, in as few cache lines as it takes:
/// other streams and the films' bytes have pushed them out since its last turn.
#[repr(C, align(64))]
pub(crate) struct Active {
    pub state: State,
    /// Whether the kernel holds packets until they are to depart.
    pub held: bool,
    /// Whether runs may be cut by the kernel on this stream's way.
    pub gso: bool,
    /// When it last waited for a plan, that it is not blamed on the reader.
    starved: bool,
    /// The first sender report has left since the stream was put where it is.
    reported: bool,
    /// It is sent through a connection.
    tcp: bool,
    pub tracks: Vec<Track>,
    /// Film time `film` leaves at `wall`.
    wall: u64,
    film: Nanos,
    pub window: Window,
    /// The kernel had no room, or a TCP reader was slow: not before this.
    pub retry_at: u64,
    /// When sender reports are due.
    next_report: u64,
    /// When BYE is due.
    over_at: Option<u64>,
    /// A TCP stream's connection took no more when it was last tried.
    slow: Option<Box<Slow>>,
    pub shared: Arc<Shared>,
    pub rules: Arc<Rules>,
    /// What to send by, if not the film's own times.
    pub schedule: Option<Arc<Schedule>>,
    /// Presentation time it began with; the range's end.
    start: Nanos,
    end: Nanos,
    pub script: Arc<Script>,
    /// The limited links that its packets pass, if any.
    pub link: Option<Box<OnLink>>,

    pub inbox: Inbox,
    pub planner: Planner,
    counters: Arc<Counters>,
    /// Told of where the viewer is.
    watcher: Arc<Watcher>,
    /// The track that tells where he is: the picture, if there is one.
    leader: usize,
    /// What was asked for first.
    pub wish: (Nanos, Option<Nanos>),
    /// Who waits for it to be ready.
    pub reply: Option<Reply>,
    /// Counts beginnings.
    pub epoch: u32,
    /// Where it begins has been found, and not yet when its first packets leave.
    found: bool,
    /// How far ahead of its time the first packet left.
    lead: Nanos,
    /// `go` came before it was ready.
    go: bool,
    /// BYE was sent for what was sent.
    bye: bool,
    /// Whether another thread had it first.
    moved: bool,
    /// A TCP stream that was behind sends at most at twice the film's rate.
    pub not_before: u64,
    /// It is listed among those whose receivers miss packets.
    pub is_resending: bool,
}

/// Bytes of [`Active`] that a turn touches.
pub(crate) const HOT: usize = 3 * LINE;
const _: () = assert!(offset_of!(Active, inbox) <= HOT);

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
            watcher,
            link,
        } = means;
        let is_picture = |track: &Track| script.outline.is_picture(track.cursor.track);
        let leader = tracks.iter().position(is_picture).unwrap_or(0);
        // On a limited link its pacer says when packets leave.
        let held = link.is_none()
            && tracks
                .iter()
                .all(|track| matches!(&track.path, Path::Udp(udp) if udp.held));
        let tcp = tracks
            .iter()
            .any(|track| matches!(track.path, Path::Tcp { .. }));
        Active {
            tcp,
            link,
            held,
            shared,
            script,
            tracks,
            inbox,
            planner,
            rules,
            counters,
            watcher,
            leader,
            wish,
            reply: Some(reply),
            state: State::Preparing,
            schedule: None,
            epoch: 0,
            wall: 0,
            film: 0,
            found: false,
            lead: 0,
            start: wish.0,
            end: 0,
            go: false,
            window: Window::default(),
            retry_at: 0,
            gso: true,
            next_report: 0,
            reported: false,
            over_at: None,
            bye: true,
            not_before: 0,
            slow: None,
            starved: false,
            moved: false,
            is_resending: false,
        }
    }

    pub fn id(&self) -> StreamId {
        self.shared.id
    }

    pub fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// Whether another thread may take it over: while it plays, and once, so that what its handle says
    /// goes at most over one thread on to another and stays in order.
    pub fn may_move(&self) -> bool {
        self.state == State::Playing && !self.moved
    }

    /// Goes over to another thread.
    pub fn move_to(&mut self, inbox: Inbox, counters: Arc<Counters>) {
        self.counters.playing.fetch_sub(1, Ordering::Relaxed);
        counters.playing.fetch_add(1, Ordering::Relaxed);
        (self.inbox, self.counters) = (inbox, counters);
        self.moved = true;
        for track in &mut self.tracks {
            track.cursor.ask_again();
            track.resends(Resend::ask_again);
        }
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
    pub fn wall_of(&self, film: Nanos) -> u64 {
        self.wall
            .saturating_add_signed(film.saturating_sub(self.film))
    }

    /// How far ahead of its time anything may leave.
    fn most_ahead(&self) -> Nanos {
        let by_schedule = self.schedule.as_ref().map_or(0, |schedule| schedule.most());
        let by_link = self
            .link
            .as_ref()
            .map_or(0, |_| self.rules.link_ahead as Nanos);
        by_schedule.max(self.script.outline.ahead()).max(by_link)
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
            _ => self.shared.tally.position.load(Ordering::Relaxed),
        }
    }

    /// RTP timestamp of a track for the wall time `now`, for sender reports: one line through film
    /// time and wall time, the same for all tracks, [`CAPTURED`] ahead of what is being sent.
    pub fn rtp_now(&self, track: &Track, now: u64) -> u32 {
        let captured = self.film_at(now).saturating_add(self.lead + CAPTURED);
        track
            .rtp_base
            .wrapping_add(self.script.outline.rtp_time(track.cursor.track, captured))
    }

    // --- beginning, stopping -------------------------------------------------------------------

    /// Leaves the place it is at, and looks for the beginning of another.
    pub fn seek(&mut self, start: Nanos, end: Option<Nanos>, reply: Option<Reply>) {
        self.wish = (start, end);
        self.schedule = None;
        self.epoch += 1;
        self.go = false;
        self.over_at = None;
        self.slow = None;
        // An older request that was not answered yet is overtaken.
        self.reply = reply.or(self.reply.take());
        for track in &mut self.tracks {
            track.cursor.place(None, 0);
            track.resends(Resend::leave);
        }
        self.shared.tally.position.store(start, Ordering::Relaxed);
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
        let duration = self.script.outline.duration();
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
        self.found = true;
        self.shared
            .tally
            .position
            .store(self.start, Ordering::Relaxed);
        self.want(now);
        self.check_ready(now);
    }

    /// Takes in a plan. True if the stream waited for it to go on: it is to be looked at.
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
        let resend = to.resend.as_mut();
        if let Some(resend) = resend {
            resend.give(group, result.as_ref().ok());
        }
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
        if std::mem::take(&mut self.found) {
            self.begin_ahead();
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

    /// What is sent ahead of its time begins ahead of it.
    fn begin_ahead(&mut self) {
        let heads = self.tracks.iter().filter_map(|track| track.cursor.head());
        let first = heads.map(|head| head.due).min().unwrap_or(self.film);
        self.lead = match &self.link {
            // Its first packets may leave at once, and are not late while the link is busy with others' pictures.
            Some(_) => BEGINS_LATER,
            None if self.script.outline.ahead() > 0 => (self.film - first).max(0),
            None => 0,
        };
        self.film -= self.lead;
    }

    fn play_info(&self) -> PlayInfo {
        let start = self.shared.tally.position.load(Ordering::Relaxed);
        let info = |track: &Track| TrackInfo {
            seq: track.seq,
            rtp_time: track
                .rtp_base
                .wrapping_add(self.script.outline.rtp_time(track.cursor.track, start)),
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
                self.report_first();
                self.bye = false;
                self.not_before = 0;
                self.retry_at = 0;
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
        self.slow = None;
        self.watcher.pauses();
        self.shared
            .tally
            .position
            .store(position, Ordering::Relaxed);
        self.shared.tally.behind.store(0, Ordering::Relaxed);
        for track in &mut self.tracks {
            track.cursor.let_go();
            track.resends(Resend::let_go);
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

    /// Sends no more, for now or for good.
    fn let_go(&mut self) {
        self.epoch += 1;
        self.over_at = None;
        self.slow = None;
        self.watcher.leaves();
        for track in &mut self.tracks {
            track.cursor.let_go();
            track.resends(Resend::let_go);
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
            self.shared
                .tally
                .position
                .store(self.end, Ordering::Relaxed);
            self.enter(State::Ended);
            (self.shared.events)(StreamEvent::Ended);
        } else {
            self.enter(State::Stopped);
        }
    }
}

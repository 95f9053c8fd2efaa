//! Beginning, pausing, seeking and ending.

use std::sync::Arc;

use reelway_media::Nanos;

use super::body::Stream;
use super::over_link::BEGINS_LATER;
use super::track::Track;
use crate::again::Resend;
use crate::beginning::Beginning;
use crate::effect::{Effect, Effects};
use crate::error::StreamError;
use crate::group::Group;
use crate::host::{Host, Script};
use crate::play::{PlayInfo, State, TrackInfo};

impl<H: Host> Stream<H> {
    /// Leaves the current position, and looks for the beginning of a new range.
    pub(crate) fn seek(
        &mut self,
        start: Nanos,
        end: Option<Nanos>,
        reply: Option<H::Reply>,
        effects: &mut Effects<H>,
    ) {
        self.wish = (start, end);
        self.schedule = None;
        self.epoch += 1;
        self.go = false;
        self.over_at = None;
        self.slow = None;
        // The new request replaces an older one that was not answered yet.
        self.reply = reply.or(self.reply.take());
        for track in &mut self.tracks {
            track.cursor.place(None, 0);
            track.resends(Resend::leave);
        }
        self.tally.position = start;
        self.enter(State::Preparing, effects);
        let locate = Effect::Locate {
            epoch: self.epoch,
            wish: start,
        };
        self.does(locate, effects);
    }

    /// Accepts the position at which it begins.
    pub(crate) fn located(
        &mut self,
        epoch: u32,
        result: Result<Beginning, StreamError>,
        now: u64,
        effects: &mut Effects<H>,
    ) {
        if epoch != self.epoch || self.state != State::Preparing {
            return;
        }
        let beginning = match result {
            Ok(beginning) => beginning,
            Err(error) => return self.fail(error, effects),
        };
        self.start = beginning.at;
        let duration = self.script.outline().duration();
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
        self.tally.position = self.start;
        self.want(now, effects);
        self.check_ready(now, effects);
    }

    /// Accepts a group. Returns whether the stream was waiting for it, and must be looked at.
    pub(crate) fn planned(
        &mut self,
        (epoch, track, group): (u32, usize, usize),
        result: Result<Arc<Group<H::Bytes>>, StreamError>,
        now: u64,
        effects: &mut Effects<H>,
    ) -> bool {
        let over = matches!(
            self.state,
            State::Paused | State::Ended | State::Failed | State::Stopped
        );
        if epoch != self.epoch || over {
            return false;
        }
        let Some(to) = self.tracks.get_mut(track) else {
            return false;
        };
        let waited = !to.cursor.is_ready();
        if let Some(resend) = &mut to.resend {
            resend.give(group, result.as_ref().ok());
        }
        if let Err(error) = to.cursor.give(group, result) {
            self.fail(error, effects);
            return false;
        }
        self.want(now, effects);
        self.check_ready(now, effects);
        waited
    }

    fn check_ready(&mut self, now: u64, effects: &mut Effects<H>) {
        if self.state != State::Preparing
            || !self.tracks.iter().all(|track| track.cursor.is_ready())
        {
            return;
        }
        if std::mem::take(&mut self.found) {
            self.begin_ahead();
        }
        self.enter(State::Ready, effects);
        if let Some(reply) = self.reply.take() {
            self.does(Effect::Answer(reply, Ok(self.play_info())), effects);
        }
        if self.go {
            self.go(now, effects);
        }
    }

    /// Sets the timetable so that packets sent ahead of their time begin ahead of it.
    fn begin_ahead(&mut self) {
        let heads = self.tracks.iter().filter_map(|track| track.cursor.head());
        let first = heads.map(|head| head.due).min().unwrap_or(self.film);
        self.lead = match &self.link {
            // The first packets may leave at once, and are not late while the link is busy with
            // other streams' pictures.
            Some(_) => BEGINS_LATER,
            None if self.script.outline().ahead() > 0 => (self.film - first).max(0),
            None => 0,
        };
        self.film -= self.lead;
    }

    fn play_info(&self) -> PlayInfo {
        let start = self.tally.position;
        let outline = self.script.outline();
        let info = |track: &Track<H>| TrackInfo {
            seq: track.seq,
            rtp_time: track
                .rtp_base
                .wrapping_add(outline.rtp_time(track.cursor.track, start)),
        };
        PlayInfo {
            start,
            end: self.end,
            tracks: self.tracks.iter().map(info).collect(),
        }
    }

    /// Begins to send as soon as it is ready.
    pub(crate) fn go(&mut self, now: u64, effects: &mut Effects<H>) {
        match self.state {
            State::Ready => {
                self.wall = now;
                self.go = false;
                self.report_first();
                self.bye = false;
                self.not_before = 0;
                self.retry_at = 0;
                self.enter(State::Playing, effects);
                self.want(now, effects);
            }
            State::Preparing => self.go = true,
            _ => {}
        }
    }

    /// Pauses, and releases all memory. Returns the position.
    pub(crate) fn pause(&mut self, now: u64, effects: &mut Effects<H>) -> Nanos {
        // The viewer's real position, not the one they should have reached.
        let now = now - self.lag(now);
        let position = self.position(now);
        match self.state {
            State::Playing => {
                self.film = self.film_at(now);
                self.wall = now;
                self.stand(position, effects);
            }
            State::Ready => self.stand(position, effects),
            State::Preparing => self.go = false,
            _ => {}
        }
        position
    }

    fn stand(&mut self, position: Nanos, effects: &mut Effects<H>) {
        self.let_go();
        (self.tally.position, self.tally.behind) = (position, 0);
        self.enter(State::Paused, effects);
    }

    /// Prepares to continue at its position.
    pub(crate) fn resume(&mut self, reply: H::Reply, now: u64, effects: &mut Effects<H>) {
        match self.state {
            State::Paused => {
                self.reply = Some(reply);
                self.enter(State::Preparing, effects);
                self.epoch += 1;
                self.want(now, effects);
                self.check_ready(now, effects);
            }
            // It has already begun or is ready: the answer is its current position.
            State::Playing | State::Ready => {
                self.does(Effect::Answer(reply, Ok(self.play_info())), effects);
            }
            State::Preparing => self.reply = Some(reply),
            State::Ended | State::Failed | State::Stopped => {
                let over = StreamError("the stream is over".to_owned());
                self.does(Effect::Answer(reply, Err(over)), effects);
            }
        }
    }

    /// Handles an error after which the stream cannot go on.
    pub(crate) fn fail(&mut self, error: StreamError, effects: &mut Effects<H>) {
        self.let_go();
        self.enter(State::Failed, effects);
        let said = match self.reply.take() {
            Some(reply) => Effect::Answer(reply, Err(error)),
            None => Effect::Failed(error),
        };
        self.does(said, effects);
    }

    /// Stops sending, temporarily or for good, and releases all memory.
    fn let_go(&mut self) {
        self.epoch += 1;
        self.over_at = None;
        self.slow = None;
        for track in &mut self.tracks {
            track.cursor.let_go();
            track.resends(Resend::let_go);
        }
    }

    /// Ends the play at the end of its range, with BYE.
    pub(crate) fn end(&mut self, effects: &mut Effects<H>) {
        self.does(Effect::Report { bye: true }, effects);
        self.bye = true;
        self.let_go();
        self.tally.position = self.end;
        self.enter(State::Ended, effects);
    }

    /// Stops for good; the stream has left its lane.
    pub fn stop(&mut self) {
        self.let_go();
        self.state = State::Stopped;
    }

    /// Prepares the move to another lane, which does not receive the answers to pending requests.
    pub(crate) fn leave_lane(&mut self) {
        self.moved = true;
        for track in &mut self.tracks {
            track.cursor.ask_again();
            track.resends(Resend::ask_again);
        }
    }

    /// Restarts the sequence of sender reports with the next packets.
    pub(super) fn report_first(&mut self) {
        self.next_report = self.wall;
        self.reported = false;
    }
}

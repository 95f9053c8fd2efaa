//! Carries out what the lane requests for its streams.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reelway_clock::Monotonic;
use reelway_playout::{Effect, State, StreamError, Want};

use super::body::Thread;
use crate::planner::Waiter;
use crate::stream::StreamEvent;
use crate::streams::Owner;

impl Thread {
    /// Carries out the effects that the lane has requested.
    pub(super) fn act(&mut self) {
        while let Some((place, effect)) = self.lane.effect() {
            let Some(stream) = self.lane.stream(place) else {
                continue;
            };
            match effect {
                Effect::Locate { epoch, wish } => {
                    let tracks = stream.tracks.iter().map(|track| track.cursor.track);
                    let script = Arc::clone(stream.script());
                    let inbox = self.given.inbox.clone();
                    self.given.planner.locate(
                        script,
                        tracks.collect(),
                        wish,
                        inbox,
                        stream.id(),
                        epoch,
                    );
                }
                Effect::Want(want) => self.want(place, &want),
                Effect::Answer(reply, info) => {
                    // If nobody waits any more, the owner of the handle will stop or seek the
                    // stream.
                    let _ = reply.send(info);
                }
                Effect::State(state) => {
                    self.show(place);
                    self.enters(place, state);
                }
                Effect::Failed(error) => {
                    (stream.owner.shared.events)(StreamEvent::Failed(error.0));
                }
                Effect::Report { bye } => {
                    let sent = self.given.reporter.report(stream, bye.then_some(""));
                    if let Err(error) = sent
                        && !bye
                        && stream.state() == State::Playing
                    {
                        self.lane.fail(place, StreamError(error.to_string()));
                    }
                }
            }
        }
    }

    fn want(&self, place: u32, want: &Want) {
        let Some(stream) = self.lane.stream(place) else {
            return;
        };
        let Some(track) = stream.tracks.get(want.track) else {
            return;
        };
        let waiter = Waiter {
            inbox: self.given.inbox.clone(),
            stream: stream.id(),
            epoch: want.epoch,
            track: want.track,
            group: want.group,
            urgent: want.urgent,
            answered: false,
            watcher: want.leads.then(|| Arc::clone(&stream.owner.watcher)),
        };
        let id = (track.cursor.track, want.group);
        let deadline = Monotonic::from_nanos(want.deadline);
        self.given
            .planner
            .request(stream.script(), id, deadline, waiter);
    }

    fn enters(&self, place: u32, state: State) {
        if let Some(stream) = self.lane.stream(place) {
            self.publish(&stream.owner, state);
        }
    }

    /// Publishes a stream's new state to counters, the cache and its owner.
    pub(super) fn publish(&self, owner: &Owner, state: State) {
        let playing = &self.given.counters.playing;
        let before = owner.shared.set_state(state);
        match (before, state) {
            (State::Playing, State::Playing) => {}
            (State::Playing, _) => drop(playing.fetch_sub(1, Ordering::Relaxed)),
            (_, State::Playing) => drop(playing.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
        match state {
            State::Paused => owner.watcher.pauses(),
            State::Ended | State::Failed | State::Stopped => owner.watcher.leaves(),
            _ => {}
        }
        if state == State::Ended {
            (owner.shared.events)(StreamEvent::Ended);
        }
    }

    /// Publishes the figures and mishaps of the stream in a place.
    pub(super) fn show(&mut self, place: u32) {
        let Some(stream) = self.lane.stream_mut(place) else {
            return;
        };
        let mishaps = stream.news().copied();
        let shared = &stream.owner.shared;
        shared.show(stream.tally());
        if let Some(mishaps) = mishaps {
            shared.show_mishaps(&mishaps, &self.given.counters);
        }
    }
}

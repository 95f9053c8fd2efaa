//! The caller's commands and answers for single streams.

use std::sync::Arc;

use reelway_demand::Schedule;
use reelway_media::Nanos;

use super::body::Lane;
use crate::beginning::Beginning;
use crate::effect::Effects;
use crate::error::StreamError;
use crate::group::Group;
use crate::host::Host;
use crate::play::{State, StreamId};
use crate::stream::Stream;

impl<H: Host> Lane<H> {
    /// Calls `work` with a stream, if it is in this lane, and returns its place.
    fn with<T>(
        &mut self,
        id: StreamId,
        work: impl FnOnce(&mut Stream<H>, &mut Effects<H>) -> T,
    ) -> Option<(u32, T)> {
        let place = self.place_of(id)?;
        let stream = self.streams[place as usize].as_deref_mut()?;
        Some((place, work(stream, &mut self.effects)))
    }

    /// Accepts a new stream, and prepares it.
    pub fn add(&mut self, stream: Box<Stream<H>>) {
        let (start, end) = stream.wish;
        let place = self.put(stream);
        if let Some(stream) = self.streams[place as usize].as_deref_mut() {
            stream.seek(start, end, None, &mut self.effects);
        }
    }

    /// Accepts a stream that another lane has sent so far.
    pub fn arrive(&mut self, stream: Box<Stream<H>>, now: u64) {
        let place = self.put(stream);
        self.will_resend(place);
        self.touch(place, now);
    }

    /// Begins to send a stream as soon as it is ready.
    pub fn go(&mut self, id: StreamId, now: u64) {
        if let Some((place, ())) = self.with(id, |stream, effects| stream.go(now, effects)) {
            self.touch(place, now);
        }
    }

    /// Sets the schedule by which a stream is sent from its next beginning on.
    pub fn send_by(&mut self, id: StreamId, schedule: Option<Arc<Schedule>>, now: u64) {
        if let Some((place, ())) = self.with(id, |stream, _| stream.schedule = schedule) {
            self.touch(place, now);
        }
    }

    /// Pauses a stream, and returns the presentation time at which it pauses.
    pub fn pause(&mut self, id: StreamId, now: u64) -> Option<Nanos> {
        let (_, position) = self.with(id, |stream, effects| stream.pause(now, effects))?;
        Some(position)
    }

    /// Prepares a stream to continue at its position.
    pub fn resume(&mut self, id: StreamId, reply: H::Reply, now: u64) {
        if let Some((place, ())) =
            self.with(id, |stream, effects| stream.resume(reply, now, effects))
        {
            self.touch(place, now);
        }
    }

    /// Moves a stream to another position, and prepares it there.
    pub fn seek(&mut self, id: StreamId, start: Nanos, end: Option<Nanos>, reply: H::Reply) {
        self.with(id, |stream, effects| {
            stream.seek(start, end, Some(reply), effects);
        });
    }

    /// Accepts where a stream begins ([`Effect::Locate`](crate::Effect::Locate)).
    pub fn located(
        &mut self,
        id: StreamId,
        epoch: u32,
        result: Result<Beginning, StreamError>,
        now: u64,
    ) {
        self.with(id, |stream, effects| {
            stream.located(epoch, result, now, effects);
        });
    }

    /// Accepts a group ([`Effect::Want`](crate::Effect::Want)), identified by the number of the
    /// stream's beginning, the track and the group's number.
    pub fn planned(
        &mut self,
        id: StreamId,
        which: (u32, usize, usize),
        result: Result<Arc<Group<H::Bytes>>, StreamError>,
        now: u64,
    ) {
        let waited = self.with(id, |stream, effects| {
            stream.planned(which, result, now, effects)
        });
        if let Some((place, waited)) = waited {
            self.will_resend(place);
            if waited {
                self.touch(place, now);
            }
        }
    }

    /// Records that the receiver of a track misses packets with these sequence numbers.
    pub fn missed(&mut self, id: StreamId, track: usize, lost: &[u16]) {
        if let Some((place, ())) = self.with(id, |stream, _| stream.miss(track, lost)) {
            self.will_resend(place);
        }
    }

    /// Handles an error after which the stream in a place cannot go on.
    pub fn fail(&mut self, place: u32, error: StreamError) {
        if let Some(stream) = self.streams[place as usize].as_deref_mut() {
            stream.fail(error, &mut self.effects);
        }
    }

    /// Records that the whole server stood still for `nanos`: the timetables of all playing streams
    /// move by that much. Returns the number of these streams.
    pub fn stood_still(&mut self, nanos: u64) -> usize {
        self.walk.stood_still = true;
        let streams = self.streams.iter_mut().flatten();
        let playing = streams.filter(|stream| stream.state() == State::Playing);
        playing.map(|stream| stream.shift(nanos)).count()
    }
}

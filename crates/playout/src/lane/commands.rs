//! What a lane is told of its streams.

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
    /// Does something with a stream, if it is here; its place.
    fn with<T>(
        &mut self,
        id: StreamId,
        work: impl FnOnce(&mut Stream<H>, &mut Effects<H>) -> T,
    ) -> Option<(u32, T)> {
        let place = self.place_of(id)?;
        let stream = self.streams[place as usize].as_deref_mut()?;
        Some((place, work(stream, &mut self.effects)))
    }

    /// Takes a stream, and prepares it.
    pub fn add(&mut self, stream: Box<Stream<H>>) {
        let (start, end) = stream.wish;
        let place = self.put(stream);
        if let Some(stream) = self.streams[place as usize].as_deref_mut() {
            stream.seek(start, end, None, &mut self.effects);
        }
    }

    /// Takes a stream that another lane has sent so far.
    pub fn arrive(&mut self, stream: Box<Stream<H>>, now: u64) {
        let place = self.put(stream);
        self.will_resend(place);
        self.touch(place, now);
    }

    /// Begins to send what is ready; as soon as it is, if it is not yet.
    pub fn go(&mut self, id: StreamId, now: u64) {
        if let Some((place, ())) = self.with(id, |stream, effects| stream.go(now, effects)) {
            self.touch(place, now);
        }
    }

    /// Sends by this schedule from the next beginning on.
    pub fn send_by(&mut self, id: StreamId, schedule: Option<Arc<Schedule>>, now: u64) {
        if let Some((place, ())) = self.with(id, |stream, _| stream.schedule = schedule) {
            self.touch(place, now);
        }
    }

    /// Has a stream stand still; the presentation time at which it does.
    pub fn pause(&mut self, id: StreamId, now: u64) -> Option<Nanos> {
        let (_, position) = self.with(id, |stream, effects| stream.pause(now, effects))?;
        Some(position)
    }

    /// Prepares to go on where the stream stands.
    pub fn resume(&mut self, id: StreamId, reply: H::Reply, now: u64) {
        if let Some((place, ())) =
            self.with(id, |stream, effects| stream.resume(reply, now, effects))
        {
            self.touch(place, now);
        }
    }

    /// Leaves the place a stream is at, and prepares another.
    pub fn seek(&mut self, id: StreamId, start: Nanos, end: Option<Nanos>, reply: H::Reply) {
        self.with(id, |stream, effects| {
            stream.seek(start, end, Some(reply), effects);
        });
    }

    /// Takes in where a stream begins ([`Effect::Locate`](crate::Effect::Locate)).
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

    /// Takes in a group ([`Effect::Want`](crate::Effect::Want)): of which of the stream's beginnings, which track, and its number.
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

    /// The receiver of a track misses packets with these sequence numbers.
    pub fn missed(&mut self, id: StreamId, track: usize, lost: &[u16]) {
        if let Some((place, ())) = self.with(id, |stream, _| stream.miss(track, lost)) {
            self.will_resend(place);
        }
    }

    /// The stream in a place cannot go on.
    pub fn fail(&mut self, place: u32, error: StreamError) {
        if let Some(stream) = self.streams[place as usize].as_deref_mut() {
            stream.fail(error, &mut self.effects);
        }
    }

    /// Everything stood still for `nanos`, which is nobody's fault: all streams go on that much later. How many do.
    pub fn stood_still(&mut self, nanos: u64) -> usize {
        self.walk.stood_still = true;
        let streams = self.streams.iter_mut().flatten();
        let playing = streams.filter(|stream| stream.state() == State::Playing);
        playing.map(|stream| stream.shift(nanos)).count()
    }
}

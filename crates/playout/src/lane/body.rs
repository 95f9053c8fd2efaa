//! The state of a lane: its streams, and when each of them is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use reelway_determinism::FixedMap;

use super::state::{AT_WORK, Resending, Waiting, Walk};
use crate::effect::{Effect, Effects};
use crate::host::Host;
use crate::pacing::TURN;
use crate::play::{State, StreamId};
use crate::rules::Due;
use crate::stream::Stream;
use crate::wheel::Wheel;

/// All streams of one thread.
pub struct Lane<H: Host> {
    /// Its number among all lanes.
    pub(super) number: usize,
    pub(super) streams: Vec<Option<Box<Stream<H>>>>,
    free: Vec<u32>,
    places: FixedMap<StreamId, u32>,
    pub(super) wheel: Wheel,
    /// Streams to be looked at within a turn that has begun, by time.
    pub(super) soon: BinaryHeap<Reverse<(u64, u32)>>,
    /// When each stream is to be walked, by place: 0 if it is not in the wheel, [`AT_WORK`] if it
    /// is being walked. Kept outside the streams, so that streams that are not due need not be
    /// loaded into the cache.
    pub(super) armed: Vec<u64>,
    /// Whether a stream's packets pass a limited link, by its place.
    pub(super) limited: Vec<bool>,
    pub(super) walk: Walk,
    /// Streams that could send but wait for room on a limited link.
    pub(super) waiting: Waiting,
    /// Streams whose receivers miss packets.
    pub(super) resending: Resending,
    pub(super) effects: Effects<H>,
    /// Scratch buffers, kept so that a turn allocates nothing.
    pub(super) entries: Vec<(u32, u64)>,
    pub(super) dues: Vec<Due>,
}

impl<H: Host> Lane<H> {
    /// Creates lane number `number`, without streams.
    pub fn new(number: usize, now: u64) -> Lane<H> {
        Lane {
            number,
            streams: Vec::new(),
            free: Vec::new(),
            places: FixedMap::default(),
            wheel: Wheel::new(now / TURN),
            soon: BinaryHeap::new(),
            armed: Vec::new(),
            limited: Vec::new(),
            walk: Walk::default(),
            waiting: Waiting::default(),
            resending: Resending::default(),
            effects: Effects::new(),
            entries: Vec::new(),
            dues: Vec::new(),
        }
    }

    /// Returns the next effect to be carried out, with the place of its stream.
    pub fn effect(&mut self) -> Option<(u32, Effect<H>)> {
        self.effects.pop()
    }

    /// Returns the number of places, including those without a stream.
    pub fn places(&self) -> u32 {
        self.streams.len() as u32
    }

    /// Returns the place of a stream.
    pub fn place_of(&self, id: StreamId) -> Option<u32> {
        self.places.get(&id).copied()
    }

    /// Returns the stream in a place.
    pub fn stream(&self, place: u32) -> Option<&Stream<H>> {
        self.streams.get(place as usize)?.as_deref()
    }

    /// Returns the stream in a place, to change the caller's parts of it.
    pub fn stream_mut(&mut self, place: u32) -> Option<&mut Stream<H>> {
        self.streams.get_mut(place as usize)?.as_deref_mut()
    }

    /// Assigns a place to a stream.
    pub(super) fn put(&mut self, mut stream: Box<Stream<H>>) -> u32 {
        // It is not in any list of this lane.
        stream.is_resending = false;
        let place = self.free.pop().unwrap_or(self.streams.len() as u32);
        stream.place = place;
        self.places.insert(stream.id(), place);
        if place as usize == self.streams.len() {
            self.streams.push(None);
            self.armed.push(0);
            self.limited.push(false);
        }
        // If the place's previous stream was touched, the place is already listed, and is walked
        // only once.
        if self.armed[place as usize] != AT_WORK {
            self.armed[place as usize] = 0;
        }
        self.limited[place as usize] = stream.link.is_some();
        self.streams[place as usize] = Some(stream);
        place
    }

    /// Removes a stream that is to be stopped.
    pub fn remove(&mut self, id: StreamId) -> Option<Box<Stream<H>>> {
        let place = self.places.remove(&id)?;
        let stream = self.streams[place as usize].take()?;
        self.free.push(place);
        Some(stream)
    }

    /// Returns whether another lane may take over a stream: only while it plays, and only once, so
    /// that its owner's commands are forwarded by at most one lane and stay in order.
    pub fn may_move(&self, place: u32) -> bool {
        self.stream(place)
            .is_some_and(|stream| stream.state() == State::Playing && !stream.moved)
    }

    /// Removes the stream in a place, for another lane.
    pub fn take_over(&mut self, place: u32) -> Option<Box<Stream<H>>> {
        let id = self.stream(place)?.id();
        let mut stream = self.remove(id)?;
        stream.leave_lane();
        Some(stream)
    }

    /// Forgets when streams are due: for a lane that was interrupted in the middle of a turn, and
    /// all of whose streams have failed.
    pub fn reset(&mut self, now: u64) {
        self.wheel = Wheel::new(now / TURN);
        self.soon.clear();
        self.armed.fill(0);
        self.walk = Walk::default();
        self.entries.clear();
        self.dues.clear();
        self.waiting.forget(self.number);
        self.resending = Resending::default();
    }

    /// Returns when the lane is to be looked at again, given the time `now`.
    pub fn next_turn(&self, now: u64) -> Option<u64> {
        let turn = self.wheel.next_filled().map(|turn| turn * TURN);
        let soon = self.soon.peek().map(|Reverse((at, _))| *at);
        // Links drain in the meantime, and lost packets may be sent again in the next turn.
        let looks = self.waiting.anyone() || self.resending.anyone();
        let line = looks.then(|| (now / TURN + 1) * TURN);
        // A stream was touched since the last turn.
        let touched = (!self.walk.work.is_empty()).then_some(now);
        let times = turn.into_iter().chain(soon).chain(line).chain(touched);
        times.min()
    }
}

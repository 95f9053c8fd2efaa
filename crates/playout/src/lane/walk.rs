//! A turn: the streams that are due are walked, some at a time.

use std::cmp::Reverse;

use super::body::Lane;
use super::state::{AT_WORK, IN_LINE, PART, Walk};
use crate::effect::Effect;
use crate::frames::{Frame, TCP_FRAMES};
use crate::host::Host;
use crate::pacing::TURN;
use crate::rules::Due;
use crate::stream::Stream;

/// How many streams' packets are handed to the kernel together: so few that recorded times are
/// accurate to some 100 µs.
const TOGETHER: usize = 32;

/// The most jobs of one [`Lane::poll`], with two tracks per stream: all of them may be due when a
/// thread is late.
pub const JOBS: usize = 2 * TOGETHER;

/// Packets to be sent over UDP.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The stream's place.
    pub place: u32,
    /// Its packets.
    pub due: Due,
}

impl<H: Host> Lane<H> {
    /// Begins a turn: collects the streams to be walked now.
    pub fn turn(&mut self, now: u64) {
        // Streams that became due while the lane worked are late because of its load, not because
        // it slept.
        let stood_still = std::mem::take(&mut self.walk.stood_still);
        if let Some(due) = self.next_turn(now)
            && due > self.walk.settled
            && !stood_still
        {
            self.walk.waking.note(due, now);
        }
        // Packets due before the end of the turn in which the walk began leave.
        self.walk.began = now;
        let mut entries = std::mem::take(&mut self.entries);
        self.wheel.take(now / TURN, &mut entries);
        for (place, turn) in entries.drain(..) {
            // A stream that was rescheduled since is not due.
            let at = self.armed[place as usize];
            if at / TURN == turn {
                self.enlist(place, at, now);
            }
        }
        self.entries = entries;
        while let Some(Reverse((at, place))) = self.soon.peek().copied() {
            if at > now {
                break;
            }
            self.soon.pop();
            self.enlist(place, at, now);
        }
        self.take_served(now);
        self.resending.begin(now / TURN);
    }

    /// Adds the streams for which limited links have room.
    fn take_served(&mut self, now: u64) {
        self.serve_waiting(now);
        let Walk { work, served, .. } = &mut self.walk;
        work.append(served);
        work.sort_unstable();
    }

    /// Adds a stream to those walked now, once, with those due at `at`; one on a limited link
    /// follows when it has room there.
    fn enlist(&mut self, place: u32, at: u64, now: u64) {
        if self.armed[place as usize] >= IN_LINE {
            return;
        }
        if self.limited[place as usize] && self.line_up(place, now) {
            return;
        }
        self.armed[place as usize] = AT_WORK;
        self.walk.work.push((at / PART, place));
    }

    /// Walks a stream at once; one that waits for a limited link keeps waiting.
    pub(super) fn touch(&mut self, place: u32, now: u64) {
        match self.armed[place as usize] {
            IN_LINE => self.touch_in_line(place, now),
            _ => self.enlist(place, 0, now),
        }
    }

    /// Looks at the next streams of this turn, and returns what they may send: packets over UDP,
    /// and places of streams that may have something for their connection ([`Lane::frame`]).
    /// Returns false if nothing is due any more. When all of it has been handled, [`Lane::settle`]
    /// must be called.
    pub fn poll(&mut self, now: u64, jobs: &mut Vec<Job>, connections: &mut Vec<u32>) -> bool {
        let walk = &mut self.walk;
        if walk.first == walk.work.len() {
            // A stream may be walked several times in a turn, slice by slice; its
            // window limits that.
            walk.work.truncate(walk.again);
            (walk.first, walk.again) = (0, 0);
            if walk.work.is_empty() {
                // Streams that have queued meanwhile.
                self.take_served(now);
            }
        }
        let walk = &mut self.walk;
        walk.looked = now;
        walk.last = (walk.first + TOGETHER).min(walk.work.len());
        self.prefetch();
        let began = self.walk.began;
        let excused = self.walk.waking.excused(now);
        for (_, place) in &self.walk.work[self.walk.first..self.walk.last] {
            let Some(stream) = self.streams[*place as usize].as_deref_mut() else {
                continue;
            };
            stream.look_after(now, excused, &mut self.effects);
            if stream.is_over(now) {
                stream.end(&mut self.effects);
            } else if stream.has_no_room(now) {
                // It is queued when this walk is settled.
            } else if stream.is_tcp() {
                connections.push(*place);
            } else {
                stream.due(now, stream.horizon(began), &mut self.dues);
                let job = |due| Job { place: *place, due };
                jobs.extend(self.dues.drain(..).map(job));
            }
        }
        self.walk.last > self.walk.first
    }

    /// Prefetches what sending these streams' packets will read, step by step for all of them: the
    /// memory of one stream is a chain of pointers, but different streams do not depend
    /// on each other.
    fn prefetch(&self) {
        let Walk {
            work, first, last, ..
        } = &self.walk;
        let horizon = self.walk.began + TURN;
        for step in 0..Stream::<H>::STEPS {
            for (_, place) in &work[*first..*last] {
                if let Some(stream) = self.streams[*place as usize].as_deref() {
                    stream.prefetch(step, horizon);
                }
            }
        }
    }

    /// Returns the place of the nth of the streams that [`Lane::poll`] has looked at.
    pub fn looked_at(&self, nth: usize) -> Option<u32> {
        let walk = &self.walk;
        let places = walk.work[walk.first..walk.last].get(nth);
        places.map(|(_, place)| *place)
    }

    /// Records that the kernel has taken the first `taken` packets of a job, by `after`, has
    /// refused the next `refused` ones, and had no room for the others, if any. Returns the bytes
    /// of RTP sent.
    pub fn taken(&mut self, job: &Job, (taken, refused): (u32, u32), after: u64) -> u64 {
        let Some(stream) = self.streams[job.place as usize].as_deref_mut() else {
            return 0;
        };
        let bytes = stream.gone(&job.due, (taken, refused), after, &mut self.effects);
        if taken + refused < job.due.end - job.due.first {
            stream.retry_at = (after / TURN + 1) * TURN;
        }
        bytes
    }

    /// Returns how many frames the stream in a place may hand to its connection in a turn.
    pub fn frames(&self, place: u32) -> u32 {
        // On a limited link the next frame waits for room.
        if self.limited[place as usize] {
            1
        } else {
            TCP_FRAMES
        }
    }

    /// Returns what the stream in a place may hand to its connection now.
    pub fn frame(&self, place: u32, now: u64) -> Frame {
        let stream = self.streams[place as usize].as_deref();
        stream.map_or(Frame::Nothing, |stream| {
            stream.frame(now, stream.horizon(self.walk.began))
        })
    }

    /// Records that a connection has taken the first `taken` of these packets, by `after`. Returns
    /// the bytes of RTP sent.
    pub fn wrote(&mut self, place: u32, due: &Due, taken: u32, after: u64) -> u64 {
        let stream = self.streams[place as usize].as_deref_mut();
        stream.map_or(0, |stream| {
            stream.wrote(due, taken, after, &mut self.effects)
        })
    }

    /// Records whether the connection of the stream in a place has room again ([`Frame::Look`]).
    pub fn connection(&mut self, place: u32, has_room: bool, now: u64) {
        if let Some(stream) = self.streams[place as usize].as_deref_mut() {
            stream.connection(has_room, now, &mut self.effects);
        }
    }

    /// Schedules the streams that [`Lane::poll`] has looked at, while their data is still
    /// in the cache.
    pub fn settle(&mut self, now: u64) {
        for number in self.walk.first..self.walk.last {
            let entry = self.walk.work[number];
            if self.look_again(entry.1, now) {
                self.walk.work[self.walk.again] = entry;
                self.walk.again += 1;
            }
        }
        self.walk.first = self.walk.last;
        self.walk.settled = now;
        self.walk.waking.worked(self.walk.looked, now);
    }

    /// Schedules the next look at a stream; returns true if that is at once.
    fn look_again(&mut self, place: u32, now: u64) -> bool {
        let Walk { began, looked, .. } = self.walk;
        self.armed[place as usize] = 0;
        let Some(stream) = self.streams[place as usize].as_deref_mut() else {
            return false;
        };
        if stream.takes_report(looked) {
            self.effects.push(place, Effect::Report { bye: false });
        }
        if let Some(link) = &mut stream.link {
            link.settle(now);
        }
        let horizon = stream.horizon(began);
        let Some(at) = stream.next_look(now, horizon) else {
            return false;
        };
        // Only within the turn: an overlong walk must not starve the streams of the next one.
        if at <= now && now < horizon {
            if self.limited[place as usize] && self.line_up(place, now) {
                return false;
            }
            self.armed[place as usize] = AT_WORK;
            return true;
        }
        let turn = at / TURN;
        if turn < self.wheel.next() && at > now {
            self.soon.push(Reverse((at, place)));
        } else {
            let put = self.wheel.put(turn, place);
            self.armed[place as usize] = if put == turn { at } else { put * TURN };
        }
        false
    }
}

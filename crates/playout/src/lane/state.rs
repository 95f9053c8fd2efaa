//! What a lane keeps of a turn, of those who wait for a link, and of those who send again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::link::Way;
use crate::pacing::TURN;

/// A stream in the list of those walked now.
pub(super) const AT_WORK: u64 = u64::MAX;

/// A stream that waits for a link.
pub(super) const IN_LINE: u64 = AT_WORK - 1;

/// Parts of a turn that are walked one after the other, so that what is due early leaves before what is due late: a turn
/// of two thousand streams takes most of its millisecond. Within one, streams are walked in the order of their places.
pub(super) const PART: u64 = TURN / 16;

/// Where the walk of a turn stands.
#[derive(Default)]
pub(super) struct Walk {
    /// Streams to walk now, each with the part of the turn in which it is due.
    pub work: Vec<(u64, u32)>,
    /// Those of them that have waited for a limited link; then they go into `work`.
    pub served: Vec<(u64, u32)>,
    /// The streams at hand.
    pub first: usize,
    pub last: usize,
    /// So many of those before have to be walked again in this turn.
    pub again: usize,
    /// When the turn began, and when the streams at hand were looked at.
    pub began: u64,
    pub looked: u64,
    /// When streams were last seen to.
    pub settled: u64,
    /// What was late has been moved since.
    pub stood_still: bool,
    pub waking: Waking,
}

/// Longest that streams looked at together take, ns, with ample room: tens of packets in a few sends. A lane that was away
/// for longer had no processor meanwhile.
const AT_MOST: u64 = 50_000_000;

/// For how long the lane had no processor: it was woken late, or held up while it worked. That is not for want of time to
/// send: it catches up at once, and nothing need be left out for it.
#[derive(Default)]
pub(super) struct Waking {
    late: u64,
    until: u64,
}

impl Waking {
    /// The lane slept, and was woken at `now` instead of `due`. Streams have as long again to catch up.
    pub fn note(&mut self, due: u64, now: u64) {
        let mut late = now.saturating_sub(due);
        if late > AT_MOST {
            // Who had not caught up yet is later by that.
            late += self.excused(due);
        }
        if late >= self.excused(now) {
            (self.late, self.until) = (late, now + late);
        }
    }

    /// The lane worked from `began` on, on few streams, and has done it by `now`.
    pub fn worked(&mut self, began: u64, now: u64) {
        if now.saturating_sub(began) > AT_MOST {
            self.note(began, now);
        }
    }

    /// Lateness that comes of it, ns.
    pub fn excused(&self, now: u64) -> u64 {
        if now < self.until { self.late } else { 0 }
    }
}

/// Those who wait for one way.
pub(super) struct Line {
    pub way: Arc<Way>,
    /// Streams by deadline.
    pub streams: BinaryHeap<Reverse<(u64, u32)>>,
}

/// All who wait, by the numbers of their ways.
#[derive(Default)]
pub(super) struct Waiting(pub Vec<Option<Line>>);

impl Waiting {
    /// Whether any stream waits.
    pub fn anyone(&self) -> bool {
        self.0.iter().flatten().any(|line| !line.streams.is_empty())
    }

    /// Nobody waits on lane number `lane` any more.
    pub fn forget(&mut self, lane: usize) {
        for line in self.0.drain(..).flatten() {
            line.way.nothing_waits(lane);
        }
    }

    pub fn put(&mut self, way: &Arc<Way>, due: u64, place: u32) {
        if self.0.len() <= way.number {
            self.0.resize_with(way.number + 1, || None);
        }
        let line = self.0[way.number].get_or_insert_with(|| Line {
            way: way.clone(),
            streams: BinaryHeap::new(),
        });
        line.streams.push(Reverse((due, place)));
    }
}

/// Packets that a lane sends again in a turn at most: a tenth of a processor. Thousands of receivers may ask at once, and
/// nobody's packets may be late for it.
const RESENDS: u32 = 32;

/// Streams of a lane whose receivers miss packets. Each in its turn: nobody waits for another one who asks all the time.
#[derive(Default)]
pub(super) struct Resending {
    pub places: VecDeque<u32>,
    pub turn: u64,
    /// How many packets may still be sent again in this turn.
    pub left: u32,
    /// How many streams have not been looked at in this turn.
    pub streams: usize,
    /// The stream at hand.
    pub current: Option<Current>,
}

/// A stream that sends again what its receiver misses.
#[derive(Clone, Copy)]
pub(super) struct Current {
    pub place: u32,
    pub track: usize,
    /// Packets for which its millisecond has room.
    pub room: u32,
}

impl Resending {
    /// The lane is in this turn.
    pub fn begin(&mut self, turn: u64) {
        if turn != self.turn {
            (self.turn, self.left) = (turn, RESENDS);
        }
        self.streams = self.places.len();
    }

    /// Whether there is any.
    pub fn anyone(&self) -> bool {
        !self.places.is_empty()
    }
}

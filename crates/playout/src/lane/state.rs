//! The state of a turn, of streams that wait for a link, and of streams that retransmit.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::link::Way;
use crate::pacing::TURN;

/// Marks a stream in the list of those being walked.
pub(super) const AT_WORK: u64 = u64::MAX;

/// Marks a stream that waits for a link.
pub(super) const IN_LINE: u64 = AT_WORK - 1;

/// The parts into which a turn is divided. They are walked one after the other, so that packets due
/// early leave before those due late: a turn of two thousand streams takes most of its millisecond.
/// Within a part, streams are walked in the order of their places.
pub(super) const PART: u64 = TURN / 16;

/// The progress of a turn's walk.
#[derive(Default)]
pub(super) struct Walk {
    /// Streams to walk now, each with the part of the turn in which it is due.
    pub work: Vec<(u64, u32)>,
    /// Those that have waited for a limited link; they are then moved into `work`.
    pub served: Vec<(u64, u32)>,
    /// The range of `work` that is being walked.
    pub first: usize,
    pub last: usize,
    /// How many of the streams already walked must be walked again in this turn.
    pub again: usize,
    /// When the turn began, and when the current streams were looked at.
    pub began: u64,
    pub looked: u64,
    /// When the last streams were settled.
    pub settled: u64,
    /// Whether timetables were moved for a standstill since.
    pub stood_still: bool,
    pub waking: Waking,
}

/// The longest time that streams looked at together take, ns, with ample margin: tens of packets in
/// a few sends. If a lane took longer, it had no processor meanwhile.
const AT_MOST: u64 = 50_000_000;

/// For how long the lane had no processor: it was woken late, or was held up while it worked. This
/// is no sign of overload: it catches up at once, and no frame needs to be left out.
#[derive(Default)]
pub(super) struct Waking {
    late: u64,
    until: u64,
}

impl Waking {
    /// Records that the lane slept, and was woken at `now` instead of `due`. Streams have the same
    /// time again to catch up.
    pub fn note(&mut self, due: u64, now: u64) {
        let mut late = now.saturating_sub(due);
        if late > AT_MOST {
            // Streams that had not caught up yet are later by that time.
            late += self.excused(due);
        }
        if late >= self.excused(now) {
            (self.late, self.until) = (late, now + late);
        }
    }

    /// Records that the lane worked on a few streams from `began` to `now`.
    pub fn worked(&mut self, began: u64, now: u64) {
        if now.saturating_sub(began) > AT_MOST {
            self.note(began, now);
        }
    }

    /// Returns the lateness that this explains, ns.
    pub fn excused(&self, now: u64) -> u64 {
        if now < self.until { self.late } else { 0 }
    }
}

/// The streams that wait for one way.
pub(super) struct Line {
    pub way: Arc<Way>,
    /// Waiting streams, by deadline.
    pub streams: BinaryHeap<Reverse<(u64, u32)>>,
}

/// All waiting streams, by the numbers of their ways.
#[derive(Default)]
pub(super) struct Waiting(pub Vec<Option<Line>>);

impl Waiting {
    /// Returns whether any stream waits.
    pub fn anyone(&self) -> bool {
        self.0.iter().flatten().any(|line| !line.streams.is_empty())
    }

    /// Removes all streams that wait on lane number `lane`.
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

/// The most packets that a lane sends again in a turn: a tenth of a processor. Thousands of
/// receivers may ask at once, and no other packet may be late because of it.
const RESENDS: u32 = 32;

/// Streams of a lane whose receivers miss packets. They take turns: none waits for another that
/// asks all the time.
#[derive(Default)]
pub(super) struct Resending {
    pub places: VecDeque<u32>,
    pub turn: u64,
    /// How many packets may still be sent again in this turn.
    pub left: u32,
    /// How many streams have not been looked at in this turn.
    pub streams: usize,
    /// The current stream.
    pub current: Option<Current>,
}

/// A stream whose lost packets are being sent again.
#[derive(Clone, Copy)]
pub(super) struct Current {
    pub place: u32,
    pub track: usize,
    /// The number of packets for which its millisecond has room.
    pub room: u32,
}

impl Resending {
    /// Begins turn number `turn`.
    pub fn begin(&mut self, turn: u64) {
        if turn != self.turn {
            (self.turn, self.left) = (turn, RESENDS);
        }
        self.streams = self.places.len();
    }

    /// Returns whether any stream is listed.
    pub fn anyone(&self) -> bool {
        !self.places.is_empty()
    }
}

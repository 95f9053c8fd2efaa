//! An HTTP viewer: a player that fetches video and audio segments.

use std::collections::VecDeque;
use std::time::Duration;

use reelway_admission::BookingId;
use reelway_demand::Eager;
use reelway_media::Nanos;
use reelway_package::{Part, Slices};
use reelway_pool::Pin;
use reelway_time::Monotonic;
use reelway_viewing::{Entry, Pace, Viewer, Window, Windows};

use crate::copies::{Block, Piece};
use crate::world::Page;

/// The shortest silence after which a viewer is given up.
const SILENCE: Duration = Duration::from_secs(20);

/// The state of a player.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plays {
    Playing,
    Paused,
    /// It neither reads nor requests anything any more, and does not announce that.
    Vanished,
}

/// Identifies an answer: by viewer, track and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answering {
    pub viewer: u64,
    pub track: usize,
    pub number: u64,
}

/// A segment in transit.
pub(crate) struct Answer {
    /// Distinguishes it from other answers.
    pub number: u64,
    /// The number of the segment.
    pub segment: u32,
    /// Its length in bytes, and how many of them were handed over.
    pub len: u64,
    pub sent: u64,
    pub slices: Slices,
    pub windows: Windows,
    /// The segment's parts that are in no window yet.
    pub due: VecDeque<Part>,
    /// The window that is being read, or was read last.
    pub window: Window,
    /// The number of blocks that it may pin; 0 if it is copied.
    pub leave: usize,
    /// The blocks that it pins.
    pub pins: Vec<Pin<Page>>,
    /// Copies of blocks, which need not be pinned.
    pub copies: Vec<(Block, Piece)>,
    /// The number of the window, if its connection was given copies.
    pub given: Option<u64>,
}

impl Answer {
    /// Returns whether a window contains what comes next of the segment.
    pub fn follows(&mut self, window: &Window) -> bool {
        window
            .parts
            .iter()
            .all(|part| match (part, self.due.pop_front()) {
                (Part::Film(part), Some(Part::Film(due))) => {
                    if part.end < due.end {
                        self.due.push_front(Part::Film(part.end..due.end));
                    }
                    part.start == due.start && part.end <= due.end
                }
                (part, due) => due.as_ref() == Some(part),
            })
    }
}

/// A track that is being fetched.
#[derive(Default)]
pub(crate) struct Fetching {
    /// The next segment, counted from 1.
    pub next: u32,
    /// The player has everything before this.
    pub reached: Nanos,
    pub answer: Option<Answer>,
    /// Counts the player's actions, so that events scheduled before an action are ignored after it.
    pub turn: u64,
    /// Film that was sent since the player began here, in seconds, and the same before
    /// the last window.
    pub sent: f64,
    pub sent_before: f64,
}

/// An HTTP viewer.
pub(crate) struct Fetcher {
    pub film: usize,
    pub booking: BookingId,
    pub entry: Entry,
    pub place: Viewer,
    /// When they last requested or received something.
    pub heard: Monotonic,
    /// The speed at which they can receive, bytes per second.
    pub speed: u64,
    /// The eager schedule by which sending was booked.
    pub eager: Eager,
    pub plays: Plays,
    /// When they resumed after a pause.
    pub resumed: Monotonic,
    /// A time, and their position in the film at that time.
    pub clock: (Monotonic, Nanos),
    /// When they began at the current position.
    pub since: Monotonic,
    pub tracks: [Fetching; 2],
}

impl Fetcher {
    /// Creates a viewer who has not requested anything yet.
    pub fn new(
        (film, booking, entry): (usize, BookingId, Entry),
        speed: u64,
        eager: Eager,
        now: Monotonic,
    ) -> Self {
        Fetcher {
            film,
            booking,
            entry,
            place: Viewer::new(Pace::booked(&eager), SILENCE),
            heard: now,
            speed,
            eager,
            plays: Plays::Playing,
            resumed: now,
            clock: (now, 0),
            since: now,
            tracks: Default::default(),
        }
    }

    /// Returns the player's position. It waits when it has no more film.
    pub fn position(&self, now: Monotonic) -> Nanos {
        let (since, at) = self.clock;
        let reached = self.tracks.iter().map(|track| track.reached).min();
        match self.plays {
            Plays::Playing => {
                let played = i64::try_from(now.since(since).as_nanos()).unwrap_or(Nanos::MAX);
                at.saturating_add(played).min(reached.unwrap_or(at).max(at))
            }
            Plays::Paused | Plays::Vanished => at,
        }
    }

    /// Returns for how long the player has been waiting for film that it does not have, ns.
    pub fn lacks(&self, now: Monotonic) -> Nanos {
        let (since, at) = self.clock;
        let played = i64::try_from(now.since(since).as_nanos()).unwrap_or(Nanos::MAX);
        at.saturating_add(played) - self.position(now)
    }

    /// Returns the answer, if it is still in transit.
    pub fn answer(&mut self, answering: Answering) -> Option<&mut Answer> {
        let answer = self.tracks[answering.track].answer.as_mut();
        answer.filter(|answer| answer.number == answering.number)
    }
}

/// Returns the token that identifies a viewer.
pub(crate) fn token(id: u64) -> String {
    format!("{id:024}")
}

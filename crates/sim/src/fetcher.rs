//! A viewer over HTTP: a player that fetches segments of a picture and a sound.

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

/// Silence after which a viewer is given up at the earliest.
const SILENCE: Duration = Duration::from_secs(20);

/// What a player does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plays {
    Playing,
    Paused,
    /// It takes and asks for nothing any more, and does not say so.
    Vanished,
}

/// Which answer something is about: the viewer's, of this track, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answering {
    pub viewer: u64,
    pub track: usize,
    pub number: u64,
}

/// A segment on its way.
pub(crate) struct Answer {
    /// Tells it from others.
    pub number: u64,
    /// Which one.
    pub segment: u32,
    /// Its bytes, and those that were handed over.
    pub len: u64,
    pub sent: u64,
    pub slices: Slices,
    pub windows: Windows,
    /// The segment's parts that are in no window yet.
    pub due: VecDeque<Part>,
    /// What is being read or was read last.
    pub window: Window,
    /// Blocks that it may pin; none where it is copied.
    pub leave: usize,
    /// What it pins.
    pub pins: Vec<Pin<Page>>,
    /// Copies of blocks, which need not be pinned.
    pub copies: Vec<(Block, Piece)>,
    /// The number of the window, if its connection was given them.
    pub given: Option<u64>,
}

impl Answer {
    /// Whether a window has what comes next of the segment.
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

/// A track that is fetched.
#[derive(Default)]
pub(crate) struct Fetching {
    /// The next segment, counted from 1.
    pub next: u32,
    /// The player has everything up to here.
    pub reached: Nanos,
    pub answer: Option<Answer>,
    /// Counts what the player does, so that what was to happen after something else does not.
    pub turn: u64,
    /// Film that was sent since the player began here, in seconds, and before the last window.
    pub sent: f64,
    pub sent_before: f64,
}

/// A viewer over HTTP.
pub(crate) struct Fetcher {
    pub film: usize,
    pub booking: BookingId,
    pub entry: Entry,
    pub place: Viewer,
    /// When they asked or took something last.
    pub heard: Monotonic,
    /// Bytes a second that they can take.
    pub speed: u64,
    /// How it was booked that they are sent the film.
    pub eager: Eager,
    pub plays: Plays,
    /// When they went on after a pause.
    pub resumed: Monotonic,
    /// They were at this place of the film at this time.
    pub clock: (Monotonic, Nanos),
    /// When they began here.
    pub since: Monotonic,
    pub tracks: [Fetching; 2],
}

impl Fetcher {
    /// One who begins at a place of a film, where they ask for nothing yet.
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

    /// Where the player is. It waits where it has no more.
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

    /// For how much film the player has nothing, which waits for it, ns.
    pub fn lacks(&self, now: Monotonic) -> Nanos {
        let (since, at) = self.clock;
        let played = i64::try_from(now.since(since).as_nanos()).unwrap_or(Nanos::MAX);
        at.saturating_add(played) - self.position(now)
    }

    /// The answer that is meant, if it is still on its way.
    pub fn answer(&mut self, answering: Answering) -> Option<&mut Answer> {
        let answer = self.tracks[answering.track].answer.as_mut();
        answer.filter(|answer| answer.number == answering.number)
    }
}

/// What a viewer is known by.
pub(crate) fn token(id: u64) -> String {
    format!("{id:024}")
}

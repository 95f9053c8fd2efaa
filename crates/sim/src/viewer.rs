//! A viewer's place in a film: which groups they have, and which they ask for next.

use reelway_admission::BookingId;
use reelway_media::Nanos;
use reelway_pool::Pin;
use reelway_time::Monotonic;

use crate::film::{Film, Part};
use crate::world::Page;

/// The blocks of a group in use.
pub(crate) type Held = Vec<Pin<Page>>;

/// A place in a track.
pub(crate) struct Cursor {
    pub group: usize,
    pub current: Option<Held>,
    /// The group behind it, or that it cannot be had.
    pub next: Option<Option<Held>>,
    /// The last group asked for.
    pub asked: Option<usize>,
    /// The group before, which only a wrong model keeps.
    pub kept: Option<Held>,
    pub done: bool,
}

impl Cursor {
    pub fn at(group: Option<usize>) -> Cursor {
        Cursor {
            group: group.unwrap_or(0),
            current: None,
            next: None,
            asked: None,
            kept: None,
            done: group.is_none(),
        }
    }

    /// The group that is not here and was not asked for.
    fn lacking(&self) -> Option<usize> {
        let group = match (&self.current, &self.next) {
            _ if self.done => return None,
            (None, _) => self.group,
            (Some(_), None) => self.group + 1,
            (Some(_), Some(_)) => return None,
        };
        (self.asked != Some(group)).then_some(group)
    }

    /// The group to be asked for next, and from which film time on: the one at hand at once, the one behind it `lead`
    /// before it is due.
    pub fn wants(&self, parts: &[Part], lead: Nanos) -> Option<(usize, Nanos)> {
        let group = self.lacking()?;
        let part = parts.get(group)?;
        let from = match self.current {
            None => Nanos::MIN,
            Some(_) => part.begins - lead,
        };
        Some((group, from))
    }

    /// Lets go of all blocks.
    pub fn take_all(&mut self) -> Vec<Held> {
        let next = self.next.take().flatten();
        let here = self.current.take().into_iter().chain(self.kept.take());
        here.chain(next).collect()
    }
}

/// What a viewer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Admitted, and their film begins later.
    Waiting,
    /// Their first groups are being read.
    Preparing,
    Playing,
    Paused,
}

/// A viewer who was admitted.
pub(crate) struct Viewer {
    pub film: usize,
    pub booking: BookingId,
    pub state: State,
    /// Counts beginnings: an answer to an earlier one is dropped.
    pub epoch: u32,
    /// When the film's beginning was played, ns; while they play.
    pub origin: i64,
    /// Where they stand, while they do not play or wait for blocks.
    pub at: Nanos,
    /// They wait for blocks.
    pub stalled: bool,
    /// They play later than is booked for them.
    pub late: bool,
    pub cursors: Vec<Cursor>,
    /// Which of the looks at them counts: the one arranged last.
    pub looks: u64,
    /// They vanish when they have asked for blocks.
    pub vanishes: bool,
    /// How often they may still try to resume.
    pub tries: u32,
}

impl Viewer {
    /// Where they are in the film.
    pub fn position(&self, now: Monotonic) -> Nanos {
        match self.state {
            State::Playing if !self.stalled => now.nanos() as i64 - self.origin,
            _ => self.at,
        }
    }

    /// Whether the next packet of every track is in memory.
    pub fn is_ready(&self) -> bool {
        let mut cursors = self.cursors.iter();
        cursors.all(|cursor| cursor.done || cursor.current.is_some())
    }

    /// The track whose group at hand ends first, and when.
    pub fn first_end(&self, film: &Film) -> Option<(usize, Nanos)> {
        let open = self
            .cursors
            .iter()
            .enumerate()
            .filter(|(_, cursor)| !cursor.done);
        open.filter_map(|(track, cursor)| Some((track, film.parts[track].get(cursor.group)?.ends)))
            .min_by_key(|(track, ends)| (*ends, *track))
    }

    /// Different blocks that they have pinned.
    pub fn pinned(&self) -> u64 {
        let held = self.cursors.iter().flat_map(|cursor| {
            let next = cursor.next.iter().flatten();
            let here = cursor.current.iter().chain(&cursor.kept);
            here.chain(next).flatten()
        });
        let mut numbers: Vec<u32> = held.map(Pin::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.len() as u64
    }
}

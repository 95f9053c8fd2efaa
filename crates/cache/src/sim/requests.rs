//! Requests ordered by time, from any source.

use std::time::Duration;

use reelway_determinism::FixedMap;

use crate::{BlockId, Film};

/// Something that happens to the cache. 24 bytes, since there are millions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A block is asked for.
    Use {
        /// Milliseconds since the beginning.
        at: u64,
        /// Number of the block among all (see [`Requests::id`]).
        object: u32,
        /// Bytes asked for; what it weighs.
        bytes: u32,
        /// Who asks; 0 when it is not known.
        viewer: u32,
        /// The viewer's speed in hundredths.
        speed: i16,
    },
    /// A viewer leaves.
    Left {
        /// Milliseconds since the beginning.
        at: u64,
        /// Who.
        viewer: u32,
    },
}

impl Event {
    /// Milliseconds since the beginning.
    pub fn at(&self) -> u64 {
        match self {
            Event::Use { at, .. } | Event::Left { at, .. } => *at,
        }
    }
}

/// All that is asked for.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// What there is: films in blocks, or objects of one block each.
    pub films: Vec<Film>,
    /// Number of each film's first block.
    pub(crate) first: Vec<u32>,
    /// What happens, in the order of time.
    pub events: Vec<Event>,
    /// Events before this one are learned from but not counted.
    pub warm: usize,
    /// Viewers who begin each film, a second, as whoever made the requests knows; empty when nobody does.
    pub rates: Vec<f64>,
    /// Bytes of all that there is, each object at its largest.
    pub catalogue: u64,
}

impl Requests {
    /// Requests for blocks of one size in their order, of which the first `warm` are learned from but not
    /// counted. Each block is an object of its own; who asked, and when, nobody knows.
    pub fn of_blocks(blocks: impl IntoIterator<Item = BlockId>, warm: usize) -> Requests {
        let mut requests = Requests {
            warm,
            ..Requests::default()
        };
        let mut numbers = FixedMap::default();
        for (at, block) in blocks.into_iter().enumerate() {
            let next = numbers.len() as u32;
            let object = *numbers.entry(block).or_insert(next);
            if object == next {
                requests.add(1, Duration::ZERO);
            }
            requests.events.push(Event::Use {
                at: at as u64,
                object,
                bytes: 1,
                viewer: 0,
                speed: 100,
            });
        }
        requests.catalogue = requests.objects() as u64;
        requests
    }

    /// Blocks or objects in all.
    pub fn objects(&self) -> usize {
        let last = self.first.last().zip(self.films.last());
        last.map_or(0, |(first, film)| (first + film.blocks) as usize)
    }

    /// What every request weighs, if it is the same.
    pub fn one_size(&self) -> Option<u32> {
        let mut sizes = self.events.iter().filter_map(|event| match event {
            Event::Use { bytes, .. } => Some(*bytes),
            Event::Left { .. } => None,
        });
        let first = sizes.next()?;
        sizes.all(|size| size == first).then_some(first)
    }

    /// Adds a film to the catalogue.
    pub(crate) fn add(&mut self, blocks: u32, duration: Duration) {
        self.first.push(self.objects() as u32);
        self.films.push(Film { blocks, duration });
    }

    /// Which block of which film an object is.
    pub fn id(&self, object: u32) -> BlockId {
        let film = self.first.partition_point(|first| *first <= object) - 1;
        BlockId {
            film: film as u32,
            block: object - self.first[film],
        }
    }
}

//! Requests ordered by time, from any source.

use std::time::Duration;

use reelway_determinism::FixedMap;

use crate::{BlockId, Film};

/// An event for the cache. 24 bytes, since there are millions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A block is requested.
    Use {
        /// Milliseconds since the beginning.
        at: u64,
        /// Number of the block among all blocks (see [`Requests::id`]).
        object: u32,
        /// Bytes requested, which are the block's weight.
        bytes: u32,
        /// The viewer; 0 if unknown.
        viewer: u32,
        /// The viewer's speed in hundredths.
        speed: i16,
    },
    /// A viewer leaves.
    Left {
        /// Milliseconds since the beginning.
        at: u64,
        /// The viewer.
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

/// All requests, and the catalogue they refer to.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// The catalogue: films in blocks, or objects of one block each.
    pub films: Vec<Film>,
    /// Number of each film's first block.
    pub(crate) first: Vec<u32>,
    /// The events, in the order of time.
    pub events: Vec<Event>,
    /// Events before this one train the policy but are not counted.
    pub warm: usize,
    /// Viewers who begin each film, per second, if the source of the requests knows them; else
    /// empty.
    pub rates: Vec<f64>,
    /// Bytes of the whole catalogue, each object at its largest.
    pub catalogue: u64,
}

impl Requests {
    /// Requests for blocks of one size in their order, of which the first `warm` train the policy
    /// but are not counted. Each block is an object of its own; viewers and times are unknown.
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

    /// The number of blocks or objects.
    pub fn objects(&self) -> usize {
        let last = self.first.last().zip(self.films.last());
        last.map_or(0, |(first, film)| (first + film.blocks) as usize)
    }

    /// The weight of every request, if they are all equal.
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

    /// The film and block of an object.
    pub fn id(&self, object: u32) -> BlockId {
        let film = self.first.partition_point(|first| *first <= object) - 1;
        BlockId {
            film: film as u32,
            block: object - self.first[film],
        }
    }
}

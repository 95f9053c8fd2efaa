//! The reads and requests of one place.

use std::collections::BTreeMap;

use crate::request::{Read, Request, Urgency};
use crate::world::World;

/// Waiting reads of one place, such as a disk or an origin.
pub(super) struct Queue<W: World> {
    pub(super) reads: BTreeMap<Urgency, Read<W>>,
    pub(super) under_way: usize,
    pub(super) depth: usize,
    /// Whether the place is remote, where a read may take up to the timeout. Reads of remote places
    /// get only a part of the pool, so that a place that stalls leaves the rest to others.
    pub(super) afar: bool,
    /// Requests that wait for room in the queue's part of the pool.
    pub(super) held_back: BTreeMap<Urgency, Request<W>>,
}

impl<W: World> Queue<W> {
    /// Returns the number of blocks that its reads occupy.
    pub(super) fn has(&self) -> usize {
        self.reads.len() + self.under_way
    }

    /// Returns whether a more urgent request is waiting for the queue's part of the pool.
    pub(super) fn waits_before(&self, urgency: Urgency) -> bool {
        let first = self.held_back.first_key_value();
        first.is_some_and(|(first, _)| *first < urgency)
    }
}

/// Why a request must wait.
pub(super) enum Wait {
    /// No room in the pool, or other requests take room first.
    Room,
    /// Its queue has taken its part of the pool.
    Queue(usize),
}

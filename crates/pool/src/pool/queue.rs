//! Reads and requests of one place.

use std::collections::BTreeMap;

use crate::request::{Read, Request, Urgency};
use crate::world::World;

/// Reads of one place, such as a disk or an origin, that wait for their turn.
pub(super) struct Queue<W: World> {
    pub(super) reads: BTreeMap<Urgency, Read<W>>,
    pub(super) under_way: usize,
    pub(super) depth: usize,
    /// Whether it leads afar, where a read may take as long as patience lasts: only a part of the pool
    /// is given to its reads, so that a place that stalls leaves the rest to others.
    pub(super) afar: bool,
    /// Requests that wait until its part of the pool has room.
    pub(super) held_back: BTreeMap<Urgency, Request<W>>,
}

impl<W: World> Queue<W> {
    /// Blocks that its reads have.
    pub(super) fn has(&self) -> usize {
        self.reads.len() + self.under_way
    }

    /// Whether a request that is more urgent waits for the queue's part of the pool.
    pub(super) fn waits_before(&self, urgency: Urgency) -> bool {
        let first = self.held_back.first_key_value();
        first.is_some_and(|(first, _)| *first < urgency)
    }
}

/// Why a request must wait.
pub(super) enum Wait {
    /// For room in the pool, or for its turn to take some.
    Room,
    /// For reads of this queue to be done.
    Queue(usize),
}

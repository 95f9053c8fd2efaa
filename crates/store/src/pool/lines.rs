//! Who waits: reads for their lane's turn, requests for room, and requests for their lane's part of the pool.

use std::collections::BTreeMap;

use super::{Finished, Pool, Read, Request, Urgency};

/// A lane's reads that wait for their turn.
pub(super) struct Queue {
    pub(super) reads: BTreeMap<Urgency, Read>,
    pub(super) under_way: usize,
    pub(super) depth: usize,
    /// Whether it leads afar, where a read may take as long as patience lasts: only a part of the pool
    /// is given to its reads, so that a place that stalls leaves the rest to others.
    pub(super) afar: bool,
    /// Requests that wait until the lane's part of the pool has room.
    pub(super) held_back: BTreeMap<Urgency, Request>,
}

impl Queue {
    /// Blocks that its reads have.
    pub(super) fn has(&self) -> usize {
        self.reads.len() + self.under_way
    }
}

/// Why a request must wait.
pub(super) enum Wait {
    /// For room in the pool, or for its turn to take some.
    Room,
    /// For reads of this lane to be done.
    Lane(usize),
}

impl Pool {
    pub(super) fn wait(&mut self, urgency: Urgency, request: Request, wait: Wait) {
        let line = match wait {
            Wait::Room => &mut self.waiting,
            Wait::Lane(lane) => &mut self.queues[lane].held_back,
        };
        line.insert(urgency, request);
    }

    /// The most urgent of those who wait, and where: those for whose lane there is no room, or whose lane
    /// is among `full`, are not asked.
    pub(super) fn next(&self, full: &[usize]) -> Option<(Urgency, Wait)> {
        let first = self.waiting.keys().next().map(|first| (*first, Wait::Room));
        let lanes = self.queues.iter().enumerate().filter_map(|(lane, queue)| {
            let first = queue.held_back.keys().next()?;
            let may = !full.contains(&lane) && self.lane_takes(lane, 1);
            may.then_some((*first, Wait::Lane(lane)))
        });
        first
            .into_iter()
            .chain(lanes)
            .min_by_key(|(first, _)| *first)
    }

    /// Whether a lane may have so many blocks more: all places afar together get half of the pool, each
    /// the same part of it.
    pub(super) fn lane_takes(&self, lane: usize, blocks: usize) -> bool {
        let queue = &self.queues[lane];
        let afar = self.queues.iter().filter(|queue| queue.afar).count();
        let part = self.held.len() / 2 / afar.max(1);
        !queue.afar || queue.has() == 0 || queue.has() + blocks <= part
    }

    /// Gives those who wait for room what there is, the most urgent first.
    pub fn dispatch(&mut self, finished: &mut Vec<Finished>) {
        let mut full = Vec::new();
        while let Some((urgency, wait)) = self.next(&full) {
            let line = match wait {
                Wait::Room => &mut self.waiting,
                Wait::Lane(lane) => &mut self.queues[lane].held_back,
            };
            let Some(request) = line.remove(&urgency) else {
                return;
            };
            match self.place(request, true) {
                Ok(done) => finished.extend(done),
                Err((request, wait)) => {
                    let for_room = match wait {
                        Wait::Room => true,
                        Wait::Lane(lane) => {
                            full.push(lane);
                            false
                        }
                    };
                    self.wait(urgency, request, wait);
                    if for_room {
                        return;
                    }
                }
            }
        }
    }

    /// A queue for a new lane; its number.
    pub fn add_queue(&mut self, depth: usize, afar: bool) -> usize {
        self.queues.push(Queue {
            reads: BTreeMap::new(),
            under_way: 0,
            depth: depth.max(1),
            afar,
            held_back: BTreeMap::new(),
        });
        self.queues.len() - 1
    }

    /// Reads of a lane that are under way, and that wait.
    pub fn queue(&self, number: usize) -> (usize, usize) {
        let queue = &self.queues[number];
        (queue.under_way, queue.reads.len())
    }

    /// The reads whose turn it is: of each lane the most urgent, up to its depth.
    pub fn starts(&mut self, into: &mut Vec<Read>) {
        for queue in &mut self.queues {
            while queue.under_way < queue.depth
                && let Some((_, read)) = queue.reads.pop_first()
            {
                queue.under_way += 1;
                into.push(read);
            }
        }
    }

    /// Requests that wait for room.
    pub fn waiting(&self) -> usize {
        let held_back = self.queues.iter().map(|queue| queue.held_back.len());
        self.waiting.len() + held_back.sum::<usize>()
    }
}

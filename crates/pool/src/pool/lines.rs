//! Waiting lines: reads wait for their turn in their queue, requests for room or for their queue's
//! part of the pool.

use std::collections::BTreeMap;

use reelway_cache::BlockId;
use reelway_time::Monotonic;

use super::Pool;
use super::queue::{Queue, Wait};
use crate::request::{Finished, Purpose, Read, Request, Urgency};
use crate::world::{Source, World};

impl<W: World> Pool<W> {
    pub(super) fn wait(&mut self, urgency: Urgency, request: Request<W>, wait: Wait) {
        let line = match wait {
            Wait::Room => &mut self.waiting,
            Wait::Queue(queue) => &mut self.queues[queue].held_back,
        };
        line.insert(urgency, request);
    }

    /// Returns the most urgent waiting request, and what it waits for. Requests whose queue cannot
    /// take all their reads, or is among `full`, are skipped, so that they delay no others.
    pub(super) fn next(&self, full: &[usize]) -> Option<(Urgency, Wait)> {
        let first = self.waiting.keys().next().map(|first| (*first, Wait::Room));
        let queues = self
            .queues
            .iter()
            .enumerate()
            .filter_map(|(number, queue)| {
                let (first, request) = queue.held_back.first_key_value()?;
                let may = !full.contains(&number)
                    && self.queue_takes(number, self.needs_of(number, request));
                may.then_some((*first, Wait::Queue(number)))
            });
        first
            .into_iter()
            .chain(queues)
            .min_by_key(|(first, _)| *first)
    }

    /// Returns how many blocks of a request have to be read through this queue.
    fn needs_of(&self, number: usize, request: &Request<W>) -> usize {
        let Purpose::Blocks(source, blocks) = &request.what else {
            return 0;
        };
        blocks
            .clone()
            .filter(|block| {
                let id = BlockId {
                    film: source.number_of(*block),
                    block: *block,
                };
                !self.slots.contains_key(&id) && source.queue_of(*block) == number
            })
            .count()
    }

    /// Returns whether a queue may take this many more blocks. All remote queues together get half
    /// of the pool, in equal parts.
    pub(super) fn queue_takes(&self, number: usize, blocks: usize) -> bool {
        let queue = &self.queues[number];
        let afar = self.queues.iter().filter(|queue| queue.afar).count();
        let part = self.held.len() / 2 / afar.max(1);
        blocks == 0 || !queue.afar || queue.has() == 0 || queue.has() + blocks <= part
    }

    /// Gives the available room to the waiting requests, the most urgent first.
    pub fn dispatch(&mut self, now: Monotonic, finished: &mut Vec<Finished<W>>) {
        let mut full = Vec::new();
        while let Some((urgency, wait)) = self.next(&full) {
            let line = match wait {
                Wait::Room => &mut self.waiting,
                Wait::Queue(queue) => &mut self.queues[queue].held_back,
            };
            let Some(request) = line.remove(&urgency) else {
                return;
            };
            match self.place(request, urgency, true, now) {
                Ok(done) => finished.extend(done),
                Err((request, wait)) => {
                    let for_room = match wait {
                        Wait::Room => true,
                        Wait::Queue(queue) => {
                            full.push(queue);
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

    /// Adds a queue for the reads of another place, with at most `depth` of them under way at once
    /// (at least 1), and returns its number. Reads from a remote place (`afar`) may take any time:
    /// all such queues together get half of the pool for their reads.
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

    /// Returns how many reads of a queue are under way and how many are waiting.
    pub fn queue(&self, number: usize) -> (usize, usize) {
        let queue = &self.queues[number];
        (queue.under_way, queue.reads.len())
    }

    /// Takes the reads that may start: the most urgent of each queue, up to its depth.
    pub fn starts(&mut self, into: &mut Vec<Read<W>>) {
        for queue in &mut self.queues {
            while queue.under_way < queue.depth
                && let Some((_, read)) = queue.reads.pop_first()
            {
                queue.under_way += 1;
                into.push(read);
            }
        }
    }

    /// Returns the number of requests that are waiting for room.
    pub fn waiting(&self) -> usize {
        let held_back = self.queues.iter().map(|queue| queue.held_back.len());
        self.waiting.len() + held_back.sum::<usize>()
    }
}

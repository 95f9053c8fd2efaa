//! Which block holds what, and which requests are waiting. The store keeps all of this under one
//! lock: a viewer touches a block about once a second.
//!
//! ```text
//!             ask                    room            reader         read_done
//!   request ──────▶ all cached? ──no──────▶ reads ───────────▶ slots ────────▶ finished
//!                        │            │no room (in order of deadline)
//!                        ▼            ▼
//!                     finished     waiting ── a pin is dropped: dispatch
//! ```
//!
//! A request gets all the blocks it lacks at once, or none: a request that waits for room holds
//! nothing, so waiting requests cannot deadlock. Reads from remote places get only a part of the
//! pool. When that part is taken, their requests wait in a separate line, so a place that stalls
//! delays no others.

mod census;
mod lines;
mod queue;
mod room;

use std::collections::BTreeMap;
use std::time::Duration;

use reelway_cache::{BlockId, FilmId, Policy};
use reelway_determinism::FixedMap;
use reelway_time::Monotonic;

pub use self::census::Census;
use self::queue::{Queue, Wait};
use crate::ahead::Ahead;
use crate::block::{Pin, Resident};
use crate::films::{Films, Numbered};
use crate::news::News;
use crate::request::{Failure, Finished, Given, Pending, Purpose, Read, Request, Urgency};
use crate::world::{Source, World};

enum Slot<M> {
    /// Being read: its queue, its position among that queue's reads (until it is started), and the
    /// parts of requests that wait for it.
    Reading {
        queue: usize,
        at: Urgency,
        wanted_by: Vec<(u64, usize)>,
    },
    Ready(Resident<M>),
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requested blocks that were cached or being read.
    pub hits: u64,
    /// Requested blocks that had to be read.
    pub misses: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Reads that failed.
    pub errors: u64,
}

/// The bookkeeping of the pool. The times passed in never go back.
pub struct Pool<W: World> {
    free: Vec<(u32, W::Memory)>,
    /// Also free, but without memory so far.
    unready: Vec<(u32, W::Memory)>,
    /// Number of blocks that are also free, but are being made ready.
    preparing: usize,
    ahead: Option<Ahead>,
    /// Used for look-ups and counts, never iterated in order.
    slots: FixedMap<BlockId, Slot<W::Memory>>,
    /// What each block holds, by block number.
    held: Vec<Option<BlockId>>,
    films: Films<W::File>,
    policy: Box<dyn Policy>,
    /// News that the policy has not received yet.
    news: Vec<News>,
    /// Zero of the policy's time.
    born: Monotonic,
    /// Number of empty blocks that are being written to.
    lent: usize,
    /// Number of blocks whose memory did not come back from a read.
    lost: usize,
    /// Whether requested blocks are recorded in `accesses`.
    observed: bool,
    /// Requested blocks, and whether each was cached or being read.
    accesses: Vec<(BlockId, bool)>,
    waiting: BTreeMap<Urgency, Request<W>>,
    /// By number.
    queues: Vec<Queue<W>>,
    /// In the order of requests, in which they fail when the pool is closed.
    pending: BTreeMap<u64, Pending<W>>,
    serial: u64,
    closed: bool,
    counters: Counters,
}

impl<W: World> Pool<W> {
    /// Creates a pool of blocks with this memory. `ahead`: how much of it is made ready in advance
    /// by the caller of [`Pool::take_unready`]. The policy's time begins at `born`.
    pub fn new(
        memory: Vec<W::Memory>,
        policy: Box<dyn Policy>,
        ahead: Option<Ahead>,
        born: Monotonic,
    ) -> Pool<W> {
        let count = memory.len();
        // In reverse, so that the lowest addresses are used first.
        let unready = memory
            .into_iter()
            .enumerate()
            .map(|(number, memory)| (number as u32, memory))
            .rev()
            .collect();
        Pool {
            free: Vec::with_capacity(count),
            unready,
            preparing: 0,
            ahead,
            slots: FixedMap::with_capacity_and_hasher(count, Default::default()),
            held: vec![None; count],
            films: Films::default(),
            policy,
            news: Vec::new(),
            born,
            lent: 0,
            lost: 0,
            observed: false,
            accesses: Vec::new(),
            waiting: BTreeMap::new(),
            queues: Vec::new(),
            pending: BTreeMap::new(),
            serial: 0,
            closed: false,
            counters: Counters::default(),
        }
    }

    /// Returns the policy's time.
    pub fn policy_time(&self, now: Monotonic) -> Duration {
        now.since(self.born)
    }

    /// Opens a film once more and returns its number, which stays the same while the film is open.
    pub fn open(&mut self, file: W::File, now: Monotonic) -> FilmId {
        let numbered = self.films.open(file);
        if let Numbered::New(film) = numbered {
            self.policy.new_film(film, now.since(self.born));
        }
        numbered.number()
    }

    /// Closes a film, once for each time it was opened. Its number is kept at least while blocks of
    /// it are held.
    pub fn close_film(&mut self, film: FilmId) {
        self.films.close(film);
    }

    /// Returns the number of a known film.
    pub fn film(&self, file: W::File) -> Option<FilmId> {
        self.films.number(file)
    }

    /// Exchanges the list of news for [`Pool::pass_on_news`] with an empty list. Thus nothing is
    /// allocated, and callers that add news meanwhile do not wait for the policy.
    pub fn exchange_news(&mut self, news: &mut Vec<News>) {
        debug_assert!(self.news.is_empty(), "the policy was not told before");
        std::mem::swap(&mut self.news, news);
    }

    /// Passes the news on to the policy.
    pub fn pass_on_news(&mut self, now: Monotonic) {
        let now = now.since(self.born);
        for news in self.news.drain(..) {
            news.pass_on(&mut *self.policy, now);
        }
    }

    /// Records requested blocks from now on, for [`Pool::take_accesses`].
    pub fn observe(&mut self) {
        self.observed = true;
    }

    /// Returns the blocks requested since the last call, and whether each was cached or being read.
    pub fn take_accesses(&mut self) -> Vec<(BlockId, bool)> {
        std::mem::take(&mut self.accesses)
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Accepts a request. It finishes at once, or when its blocks have been read.
    pub fn ask(&mut self, request: Request<W>, now: Monotonic, finished: &mut Vec<Finished<W>>) {
        if self.closed {
            return finished.push(Finished::failed(request.tag, Failure::Closed));
        }
        let urgency = (request.deadline, self.next_serial());
        let first_in_line = self.next(&[]).is_none_or(|(first, _)| urgency < first);
        let misses = self.counters.misses;
        match self.place(request, urgency, first_in_line, now) {
            Ok(done) => finished.extend(done),
            Err((request, wait)) => return self.wait(urgency, request, wait),
        }
        // The request has taken a part of its queue's share. The first request in line may now have
        // to wait for that share, and must then not delay those behind it.
        if self.counters.misses > misses && self.waiting() > 0 {
            self.dispatch(now, finished);
        }
    }

    /// Finds the request's blocks, and room for the missing ones. Returns the request if there is
    /// none, or if a more urgent request is waiting for room or for its queue's part of the pool.
    fn place(
        &mut self,
        request: Request<W>,
        urgency: Urgency,
        may_take: bool,
        now: Monotonic,
    ) -> Result<Option<Finished<W>>, (Request<W>, Wait)> {
        let (source, blocks) = match &request.what {
            Purpose::Blocks(source, blocks) => (source.clone(), blocks.clone()),
            Purpose::Empty(count) => {
                let count = *count;
                // It replaces no film's block, so the policy gets an id that cannot exist.
                let none = BlockId {
                    film: FilmId::MAX,
                    block: u32::MAX,
                };
                if !(may_take && self.make_room(count, none, now)) {
                    return Err((request, Wait::Room));
                }
                self.lent += count;
                let empty = self.free.split_off(self.free.len() - count);
                return Ok(Some(Finished {
                    tag: request.tag,
                    result: Ok(Given::Empty(empty)),
                }));
            }
        };
        let id = |block| BlockId {
            film: source.number_of(block),
            block,
        };
        let mut parts: Vec<Option<Pin<W::Memory>>> = Vec::with_capacity(blocks.len());
        let queue = source.queue();
        let (mut absent, mut reading) = (0, 0);
        // Absent blocks that are read from the film's own place, not from the tier.
        let mut from_queue = 0;
        let mut first_absent = id(blocks.start);
        for block in blocks.clone() {
            parts.push(match self.slots.get(&id(block)) {
                Some(Slot::Ready(block)) => Some(block.pin()),
                Some(Slot::Reading { .. }) => {
                    reading += 1;
                    None
                }
                None => {
                    if absent == 0 {
                        first_absent = id(block);
                    }
                    absent += 1;
                    from_queue += usize::from(source.queue_of(block) == queue);
                    None
                }
            });
        }
        // Otherwise many small requests would leave no room for a large one.
        let overtakes = from_queue > 0 && self.queues[queue].waits_before(urgency);
        if overtakes || !self.queue_takes(queue, from_queue) {
            return Err((request, Wait::Queue(queue)));
        }
        if absent > 0 && !(may_take && self.make_room(absent, first_absent, now)) {
            return Err((request, Wait::Room));
        }
        self.counters.misses += absent as u64;
        self.counters.hits += (blocks.len() - absent) as u64;
        if self.observed {
            for block in blocks.clone() {
                let hit = self.slots.contains_key(&id(block));
                self.accesses.push((id(block), hit));
            }
        }
        let policy_now = now.since(self.born);
        for block in parts.iter().flatten() {
            self.policy.hit(block.number(), policy_now);
        }
        if absent + reading == 0 {
            let blocks = parts.into_iter().flatten().collect();
            return Ok(Some(Finished {
                tag: request.tag,
                result: Ok(Given::Blocks(blocks)),
            }));
        }
        let pending = self.next_serial();
        for (part, block) in blocks.enumerate() {
            if parts[part].is_none() {
                let part = (pending, part);
                self.want(id(block), &source, request.deadline, part, now);
            }
        }
        self.pending.insert(
            pending,
            Pending {
                parts,
                missing: absent + reading,
                tag: request.tag,
            },
        );
        Ok(None)
    }

    /// Records that part `part` of a request needs a block that is not cached. Room has already
    /// been made.
    fn want(
        &mut self,
        id: BlockId,
        source: &W::Source,
        deadline: Monotonic,
        part: (u64, usize),
        now: Monotonic,
    ) {
        let urgency = (deadline, self.next_serial());
        match self.slots.get_mut(&id) {
            Some(Slot::Reading {
                queue,
                at,
                wanted_by,
            }) => {
                wanted_by.push(part);
                let reads = &mut self.queues[*queue].reads;
                if urgency < *at
                    && let Some(mut read) = reads.remove(at)
                {
                    *at = urgency;
                    read.deadline = deadline;
                    reads.insert(urgency, read);
                }
            }
            _ => {
                let Some((number, memory)) = self.free.pop() else {
                    return;
                };
                let queue = source.queue_of(id.block);
                self.films.hold(id.film);
                self.slots.insert(
                    id,
                    Slot::Reading {
                        queue,
                        at: urgency,
                        wanted_by: vec![part],
                    },
                );
                self.queues[queue].reads.insert(
                    urgency,
                    Read {
                        source: source.clone(),
                        queue,
                        id,
                        number,
                        memory: Some(memory),
                        deadline,
                        asked: now,
                    },
                );
            }
        }
    }

    /// Completes a read, with the number of bytes or an error. A read without its memory has
    /// failed, too. With `keep`, returns a pin of a block that was read, for another purpose.
    pub fn read_done(
        &mut self,
        read: Read<W>,
        result: Result<usize, W::Error>,
        keep: bool,
        now: Monotonic,
        finished: &mut Vec<Finished<W>>,
    ) -> Option<Pin<W::Memory>> {
        let Read {
            queue,
            id,
            number,
            memory,
            ..
        } = read;
        self.queues[queue].under_way -= 1;
        let wanted_by = match self.slots.remove(&id) {
            Some(Slot::Reading { wanted_by, .. }) => wanted_by,
            _ => Vec::new(),
        };
        let kept = match (result, memory) {
            (Ok(bytes), Some(memory)) => {
                self.counters.bytes_read += bytes as u64;
                let block = Resident::new(memory, number);
                let policy_now = now.since(self.born);
                self.policy.insert(number, id, 1, policy_now);
                for (nth, (pending, part)) in wanted_by.into_iter().enumerate() {
                    if nth > 0 {
                        self.policy.hit(number, policy_now);
                    }
                    self.give(pending, part, &block, finished);
                }
                // Pinned only now, so that the answers above find the block unused if its requests
                // have gone.
                let kept = keep.then(|| block.pin());
                self.slots.insert(id, Slot::Ready(block));
                self.held[number as usize] = Some(id);
                kept
            }
            (result, memory) => {
                self.counters.errors += 1;
                self.films.let_go(id.film);
                match memory {
                    Some(memory) => self.free.push((number, memory)),
                    None => self.lost += 1,
                }
                let why = result.map_or_else(Failure::Read, |_| Failure::Closed);
                for (id, _) in wanted_by {
                    if let Some(pending) = self.pending.remove(&id) {
                        finished.push(Finished::failed(pending.tag, why.clone()));
                    }
                }
                None
            }
        };
        self.dispatch(now, finished);
        kept
    }

    fn give(
        &mut self,
        id: u64,
        part: usize,
        block: &Resident<W::Memory>,
        finished: &mut Vec<Finished<W>>,
    ) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        if pending.parts[part].replace(block.pin()).is_none() {
            pending.missing -= 1;
        }
        if pending.missing == 0
            && let Some(pending) = self.pending.remove(&id)
        {
            let blocks = pending.parts.into_iter().flatten().collect();
            finished.push(Finished {
                tag: pending.tag,
                result: Ok(Given::Blocks(blocks)),
            });
        }
    }

    /// Closes the pool: all open requests fail, and no more are accepted. Reads under way still
    /// have to be returned.
    pub fn close(&mut self, finished: &mut Vec<Finished<W>>) {
        self.closed = true;
        let mut waiting = std::mem::take(&mut self.waiting);
        for queue in &mut self.queues {
            for read in std::mem::take(&mut queue.reads).into_values() {
                self.slots.remove(&read.id);
                self.films.let_go(read.id.film);
                self.free
                    .extend(read.memory.map(|memory| (read.number, memory)));
            }
            waiting.append(&mut queue.held_back);
        }
        let waiting = waiting.into_values().map(|request| request.tag);
        let pending = std::mem::take(&mut self.pending)
            .into_values()
            .map(|pending| pending.tag);
        let tags = waiting.chain(pending);
        finished.extend(tags.map(|tag| Finished::failed(tag, Failure::Closed)));
    }
}

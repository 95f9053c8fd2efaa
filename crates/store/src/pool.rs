//! Which blocks hold what, and who waits for what. All of it is under one lock: a viewer touches a
//! block about once a second.
//!
//! ```text
//!             ask                    room            reader           done
//!   request ──────▶ all cached? ──no──────▶ reads ───────────▶ slots ──────▶ span
//!                        │            │no room (in order of deadline)
//!                        ▼            ▼
//!                      span        waiting ── a span is dropped: try again
//! ```
//!
//! A request gets all the blocks it lacks at once or none: what waits for room holds nothing, so
//! those who wait can never block each other. What is read from afar gets a part of the pool only, and
//! waits beside the line when that part is taken: a place that stalls holds up nobody else.

mod lines;
mod room;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use reelway_cache::{BlockId, FilmId, Policy};
use reelway_clock::Monotonic;
use reelway_sys::region::Page;

use self::lines::{Queue, Wait};
use crate::ahead::Ahead;
use crate::films::Films;
use crate::lane::Lane;
use crate::watcher::News;
use crate::{ReadError, Source};

/// A block that has been read; in the cache as long as nobody needs its memory.
#[derive(Debug)]
pub(crate) struct Block {
    pub page: Page,
    number: u32,
}

/// What was asked for.
pub(crate) enum Given {
    /// Blocks of a film.
    Blocks(Vec<Arc<Block>>),
    /// Empty blocks, by their numbers.
    Pages(Vec<(u32, Page)>),
}

/// Called with what was asked for, without the lock.
pub(crate) type Done = Box<dyn FnOnce(Result<Given, ReadError>) + Send>;

/// What someone asks for.
pub(crate) enum What {
    /// Blocks of a film, by their numbers.
    Film(Arc<Source>, Range<u32>),
    /// So many blocks to write into.
    Empty(usize),
}

/// Someone asks.
pub(crate) struct Request {
    pub what: What,
    pub deadline: Monotonic,
    pub done: Done,
}

/// A request whose missing blocks are being read.
struct Pending {
    parts: Vec<Option<Arc<Block>>>,
    missing: usize,
    done: Done,
}

/// A read to be done by a source.
pub(crate) struct Read {
    pub source: Arc<Source>,
    /// Whose turn it takes: the source's, or that of the tier below.
    pub lane: Lane,
    pub id: BlockId,
    number: u32,
    /// `None` only while the kernel has it.
    pub page: Option<Page>,
    pub deadline: Monotonic,
    /// When it was first asked for.
    pub asked: Monotonic,
}

/// In order of deadline, then of asking.
type Urgency = (Monotonic, u64);

enum Slot {
    /// On its way: place among its lane's reads (while it was not started), and which parts of which
    /// requests wait for it.
    Reading {
        lane: usize,
        at: Urgency,
        wanted_by: Vec<(u64, usize)>,
    },
    Ready(Arc<Block>),
}

/// Something to be called once the lock is released.
pub(crate) struct Finished {
    done: Done,
    result: Result<Given, ReadError>,
}

impl Finished {
    pub fn call(self) {
        (self.done)(self.result);
    }
}

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub hits: u64,
    pub misses: u64,
    pub bytes_read: u64,
    pub errors: u64,
}

/// The bookkeeping.
pub(crate) struct Pool {
    free: Vec<(u32, Page)>,
    /// Free as well, but without memory as yet.
    unready: Vec<(u32, Page)>,
    /// Free as well, but being made ready.
    preparing: usize,
    ahead: Option<Ahead>,
    slots: HashMap<BlockId, Slot>,
    /// What each block holds, by its number.
    held: Vec<Option<BlockId>>,
    pub films: Films,
    pub policy: Box<dyn Policy>,
    /// What the policy is still to be told.
    pub news: Vec<News>,
    /// The policy's time begins here.
    born: Monotonic,
    /// Empty blocks that somebody writes into.
    lent: usize,
    /// Whether what is asked for is noted in `seen`.
    pub observed: bool,
    /// Blocks asked for, and whether they were there or on their way.
    pub seen: Vec<(BlockId, bool)>,
    waiting: BTreeMap<Urgency, Request>,
    /// By the lanes' numbers.
    queues: Vec<Queue>,
    pending: HashMap<u64, Pending>,
    serial: u64,
    pub closed: bool,
    pub counters: Counters,
}

impl Pool {
    /// Of these pages; `ahead`: how much of them is made ready ahead of use, by whom [`Pool::take_unready`]
    /// gives them to.
    pub fn new(pages: Vec<Page>, policy: Box<dyn Policy>, ahead: Option<Ahead>) -> Pool {
        let count = pages.len();
        // From the last, so that the lowest addresses are used first.
        let unready = pages
            .into_iter()
            .enumerate()
            .map(|(number, page)| (number as u32, page))
            .rev()
            .collect();
        Pool {
            free: Vec::with_capacity(count),
            unready,
            preparing: 0,
            ahead,
            slots: HashMap::with_capacity(count),
            held: vec![None; count],
            films: Films::default(),
            policy,
            news: Vec::new(),
            born: reelway_clock::now(),
            lent: 0,
            observed: false,
            seen: Vec::new(),
            waiting: BTreeMap::new(),
            queues: Vec::new(),
            pending: HashMap::new(),
            serial: 0,
            closed: false,
            counters: Counters::default(),
        }
    }

    /// The policy's time.
    pub fn now(&self) -> Duration {
        reelway_clock::now().since(self.born)
    }

    /// Tells the policy what has happened.
    pub fn tell_news(&mut self) {
        if self.news.is_empty() {
            return;
        }
        let now = self.now();
        for news in self.news.drain(..) {
            news.tell(&mut *self.policy, now);
        }
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Takes a request: finished at once, or when its blocks have been read.
    pub fn ask(&mut self, request: Request) -> Option<Finished> {
        if self.closed {
            return Some(Finished {
                done: request.done,
                result: Err(ReadError::Closed),
            });
        }
        let urgency = (request.deadline, self.next_serial());
        let first_in_line = self.next(&[]).is_none_or(|(first, _)| urgency < first);
        match self.place(request, first_in_line) {
            Ok(finished) => finished,
            Err((request, wait)) => {
                self.wait(urgency, request, wait);
                None
            }
        }
    }

    /// Finds the request's blocks, and room for those that are not there; gives it back where there
    /// is none, or where it is not its turn to take some.
    fn place(
        &mut self,
        request: Request,
        may_take: bool,
    ) -> Result<Option<Finished>, (Request, Wait)> {
        let (source, blocks) = match &request.what {
            What::Film(source, blocks) => (Arc::clone(source), blocks.clone()),
            What::Empty(count) => {
                let count = *count;
                // It replaces no film's block: the policy is told of one there cannot be.
                let none = BlockId {
                    film: FilmId::MAX,
                    block: u32::MAX,
                };
                if !(may_take && self.make_room(count, none)) {
                    return Err((request, Wait::Room));
                }
                self.lent += count;
                let pages = self.free.split_off(self.free.len() - count);
                return Ok(Some(Finished {
                    done: request.done,
                    result: Ok(Given::Pages(pages)),
                }));
            }
        };
        let film = source.number();
        let id = |block| BlockId { film, block };
        let mut parts: Vec<Option<Arc<Block>>> = Vec::with_capacity(blocks.len());
        let lane = source.lane().0.number;
        let (mut absent, mut reading) = (0, 0);
        // Those of the absent that are read from where the film lies, and not from the tier.
        let mut from_lane = 0;
        let mut first_absent = id(blocks.start);
        for block in blocks.clone() {
            parts.push(match self.slots.get(&id(block)) {
                Some(Slot::Ready(block)) => Some(Arc::clone(block)),
                Some(Slot::Reading { .. }) => {
                    reading += 1;
                    None
                }
                None => {
                    if absent == 0 {
                        first_absent = id(block);
                    }
                    absent += 1;
                    from_lane += usize::from(source.lane_of(block).0.number == lane);
                    None
                }
            });
        }
        if from_lane > 0 && !self.lane_takes(lane, from_lane) {
            return Err((request, Wait::Lane(lane)));
        }
        if absent > 0 && !(may_take && self.make_room(absent, first_absent)) {
            return Err((request, Wait::Room));
        }
        self.counters.misses += absent as u64;
        self.counters.hits += (blocks.len() - absent) as u64;
        if self.observed {
            for block in blocks.clone() {
                let hit = self.slots.contains_key(&id(block));
                self.seen.push((id(block), hit));
            }
        }
        let now = self.now();
        for block in parts.iter().flatten() {
            self.policy.hit(block.number, now);
        }
        if absent + reading == 0 {
            let blocks = parts.into_iter().flatten().collect();
            return Ok(Some(Finished {
                done: request.done,
                result: Ok(Given::Blocks(blocks)),
            }));
        }
        let pending = self.next_serial();
        for (part, block) in blocks.enumerate() {
            if parts[part].is_none() {
                self.want(id(block), &source, request.deadline, (pending, part));
            }
        }
        self.pending.insert(
            pending,
            Pending {
                parts,
                missing: absent + reading,
                done: request.done,
            },
        );
        Ok(None)
    }

    /// Notes that part `part` of a request wants a block that is not there; room has been made.
    fn want(&mut self, id: BlockId, source: &Arc<Source>, deadline: Monotonic, part: (u64, usize)) {
        let urgency = (deadline, self.next_serial());
        match self.slots.get_mut(&id) {
            Some(Slot::Reading {
                lane,
                at,
                wanted_by,
            }) => {
                wanted_by.push(part);
                let reads = &mut self.queues[*lane].reads;
                if urgency < *at
                    && let Some(mut read) = reads.remove(at)
                {
                    *at = urgency;
                    read.deadline = deadline;
                    reads.insert(urgency, read);
                }
            }
            _ => {
                let Some((number, page)) = self.free.pop() else {
                    return;
                };
                let its = source.lane_of(id.block).clone();
                let lane = its.0.number;
                let wanted_by = vec![part];
                self.films.hold(id.film);
                self.slots.insert(
                    id,
                    Slot::Reading {
                        lane,
                        at: urgency,
                        wanted_by,
                    },
                );
                self.queues[lane].reads.insert(
                    urgency,
                    Read {
                        source: Arc::clone(source),
                        lane: its,
                        id,
                        number,
                        page: Some(page),
                        deadline,
                        asked: reelway_clock::now(),
                    },
                );
            }
        }
    }

    /// A read was done with `len` bytes, or failed. The block, if it has come.
    pub fn read_done(
        &mut self,
        read: Read,
        len: usize,
        result: Result<(), ReadError>,
        finished: &mut Vec<Finished>,
    ) -> Option<Arc<Block>> {
        let Read {
            lane,
            id,
            number,
            page,
            ..
        } = read;
        self.queues[lane.0.number].under_way -= 1;
        let slot = self.slots.remove(&id);
        let Some(page) = page else {
            // Only a broken ring keeps a page.
            self.films.let_go(id.film);
            return None;
        };
        let Some(Slot::Reading { wanted_by, .. }) = slot else {
            self.films.let_go(id.film);
            self.free.push((number, page));
            return None;
        };
        let came = match result {
            Ok(()) => {
                self.counters.bytes_read += len as u64;
                let block = Arc::new(Block { page, number });
                let now = self.now();
                self.policy.insert(number, id, 1, now);
                for (nth, (pending, part)) in wanted_by.into_iter().enumerate() {
                    if nth > 0 {
                        self.policy.hit(number, now);
                    }
                    self.give(pending, part, &block, finished);
                }
                self.slots.insert(id, Slot::Ready(Arc::clone(&block)));
                self.held[number as usize] = Some(id);
                Some(block)
            }
            Err(error) => {
                self.counters.errors += 1;
                self.films.let_go(id.film);
                self.free.push((number, page));
                for (id, _) in wanted_by {
                    if let Some(pending) = self.pending.remove(&id) {
                        finished.push(Finished {
                            done: pending.done,
                            result: Err(error.clone()),
                        });
                    }
                }
                None
            }
        };
        self.dispatch(finished);
        came
    }

    fn give(&mut self, id: u64, part: usize, block: &Arc<Block>, finished: &mut Vec<Finished>) {
        let Some(pending) = self.pending.get_mut(&id) else {
            return;
        };
        if pending.parts[part].replace(Arc::clone(block)).is_none() {
            pending.missing -= 1;
        }
        if pending.missing == 0
            && let Some(pending) = self.pending.remove(&id)
        {
            let blocks = pending.parts.into_iter().flatten().collect();
            finished.push(Finished {
                done: pending.done,
                result: Ok(Given::Blocks(blocks)),
            });
        }
    }

    /// Takes no more requests; all that are open fail.
    pub fn close(&mut self, finished: &mut Vec<Finished>) {
        self.closed = true;
        let mut waiting = std::mem::take(&mut self.waiting);
        for queue in &mut self.queues {
            queue.reads.clear();
            waiting.append(&mut queue.held_back);
        }
        let waiting = waiting.into_values().map(|request| request.done);
        let pending = std::mem::take(&mut self.pending)
            .into_values()
            .map(|pending| pending.done);
        finished.extend(waiting.chain(pending).map(|done| Finished {
            done,
            result: Err(ReadError::Closed),
        }));
    }
}

//! A pool without bytes, and its owner.

use std::collections::BTreeMap;
use std::ops::Range;

use reelway_cache::{BlockId, FilmId, Spec};
use reelway_pool::{Ahead, Failure, Finished, Given, Pool, Purpose, Read, Request, Source, World};
use reelway_time::Monotonic;

/// A block's memory: it records its own number, and what was last read into it.
#[derive(Debug, PartialEq, Eq)]
pub struct Memory {
    pub number: u32,
    pub bytes_of: Option<BlockId>,
}

/// A film in one place; another place holds some of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Film {
    pub number: FilmId,
    pub queue: usize,
    /// The queue for every third block.
    pub tier: Option<usize>,
}

impl Source for Film {
    fn number(&self) -> FilmId {
        self.number
    }

    fn queue(&self) -> usize {
        self.queue
    }

    fn queue_of(&self, block: u32) -> usize {
        self.tier
            .filter(|_| block.is_multiple_of(3))
            .unwrap_or(self.queue)
    }
}

#[derive(Debug)]
pub enum Numbers {}

impl World for Numbers {
    type Memory = Memory;
    type Source = Film;
    type Tag = u64;
    type Error = &'static str;
    type File = u32;
}

pub type Answer = Result<Given<Memory>, Failure<&'static str>>;

/// Returns memory for this many blocks.
pub fn memory(blocks: u32) -> Vec<Memory> {
    let empty = |number| Memory {
        number,
        bytes_of: None,
    };
    (0..blocks).map(empty).collect()
}

/// The pool, the reads under way and the answers that have not been released.
pub struct Owner {
    pub pool: Pool<Numbers>,
    pub now: Monotonic,
    pub reads: Vec<Read<Numbers>>,
    pub answers: BTreeMap<u64, Answer>,
    /// Tags in the order of their answers, since this was last cleared.
    pub order: Vec<u64>,
    /// Blocks in the order in which their reads started, since this was last cleared.
    pub started: Vec<BlockId>,
}

impl Owner {
    pub fn new(blocks: u32, policy: &str, ahead: Option<Ahead>) -> Owner {
        let policy = policy.parse::<Spec>().expect("a policy");
        let policy = policy.build(u64::from(blocks), blocks as usize);
        let now = Monotonic::from_nanos(1_000_000);
        Owner {
            pool: Pool::new(memory(blocks), policy, ahead, now),
            now,
            reads: Vec::new(),
            answers: BTreeMap::new(),
            order: Vec::new(),
            started: Vec::new(),
        }
    }

    pub fn film(&mut self, file: u32, queue: usize) -> Film {
        Film {
            number: self.pool.open(file, self.now),
            queue,
            tier: None,
        }
    }

    /// Changes the pool, then carries out the effects.
    pub fn with_pool<T>(
        &mut self,
        change: impl FnOnce(&mut Pool<Numbers>, Monotonic, &mut Vec<Finished<Numbers>>) -> T,
    ) -> T {
        let mut finished = Vec::new();
        let result = change(&mut self.pool, self.now, &mut finished);
        let before = self.reads.len();
        self.pool.starts(&mut self.reads);
        self.started
            .extend(self.reads[before..].iter().map(|read| read.id));
        for Finished { tag, result } in finished {
            self.order.push(tag);
            let before = self.answers.insert(tag, result);
            assert!(before.is_none(), "request {tag} is answered twice");
        }
        result
    }

    fn ask(&mut self, tag: u64, what: Purpose<Numbers>, deadline: u64) {
        let deadline = Monotonic::from_nanos(deadline);
        self.with_pool(|pool, now, finished| {
            let request = Request {
                what,
                deadline,
                tag,
            };
            pool.ask(request, now, finished);
        });
    }

    pub fn fetch(&mut self, tag: u64, film: Film, blocks: Range<u32>, deadline: u64) {
        self.ask(tag, Purpose::Blocks(film, blocks), deadline);
    }

    pub fn allocate(&mut self, tag: u64, count: usize, deadline: u64) {
        self.ask(tag, Purpose::Empty(count), deadline);
    }

    /// Completes the `nth` read under way.
    pub fn read(&mut self, nth: usize, result: Result<usize, &'static str>) {
        let mut read = self.reads.remove(nth);
        if let (Ok(_), Some(memory)) = (result, &mut read.memory) {
            memory.bytes_of = Some(read.id);
        }
        self.with_pool(|pool, now, finished| pool.read_done(read, result, false, now, finished));
    }

    /// Completes all reads, and those that they cause.
    pub fn read_all(&mut self) {
        while !self.reads.is_empty() {
            self.read(0, Ok(1));
        }
    }

    /// Releases a request's blocks. As in the store, the pool is notified only if a request is
    /// waiting.
    pub fn let_go(&mut self, tag: u64) {
        match self.answers.remove(&tag) {
            Some(Ok(Given::Empty(blocks))) => {
                for (number, memory) in blocks {
                    self.with_pool(|pool, now, finished| {
                        pool.give_back(number, memory, now, finished);
                    });
                }
            }
            Some(answer) => {
                drop(answer);
                self.released();
            }
            None => panic!("request {tag} has no answer"),
        }
    }

    pub fn released(&mut self) {
        if self.pool.waiting() > 0 {
            self.with_pool(Pool::dispatch);
        }
    }

    /// Fetches, reads and releases blocks.
    pub fn touch(&mut self, film: Film, blocks: Range<u32>) {
        self.fetch(u64::MAX, film, blocks, 0);
        self.read_all();
        self.let_go(u64::MAX);
    }
}

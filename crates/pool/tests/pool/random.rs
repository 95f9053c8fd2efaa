//! Random requests, reads and pins, with checks of the invariants after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use reelway_cache::{BlockId, Film as Shape, Spec, Watching};
use reelway_determinism::Random;
use reelway_pool::{Ahead, Failure, Given, News, Pin, Pool};

use super::world::{Film, Memory, Owner};

/// A request.
#[derive(Clone, Debug)]
enum Asked {
    Blocks(Film, Range<u32>),
    /// Number of blocks, and the deadline.
    Empty(usize, u64),
}

/// A pool, and what happens to it.
struct Run {
    seed: u64,
    random: Random,
    owner: Owner,
    films: Vec<Film>,
    queues: usize,
    /// Requests that have not been answered.
    open: BTreeMap<u64, Asked>,
    tag: u64,
    preparing: Vec<(u32, Memory)>,
    /// Clones of pins, kept apart from the answers they came with.
    pins: Vec<Pin<Memory>>,
    lost: usize,
    most: usize,
    trace: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = Random::new(seed);
        let blocks = 8 + random.below(17) as u32;
        let ahead = (random.below(2) == 0).then(|| Ahead {
            least: 1 + random.below(blocks as usize),
            at_once: 1 + random.below(3),
        });
        let policy: &str = Spec::NAMES[random.below(Spec::NAMES.len())];
        let mut owner = Owner::new(blocks, policy, ahead);
        owner.pool.observe();
        let tier = owner.pool.add_queue(2, false);
        let queues: Vec<usize> = (0..1 + random.below(4))
            .map(|nth| {
                let depth = 1 + random.below(4);
                owner.pool.add_queue(depth, nth % 2 == 1)
            })
            .collect();
        let films = (0..1 + random.below(4))
            .map(|file| {
                let film = owner.film(file as u32, *random.one_of(&queues));
                let tier = (random.below(3) == 0).then_some(tier);
                Film { tier, ..film }
            })
            .collect();
        Run {
            seed,
            random,
            owner,
            films,
            queues: queues.len() + 1,
            open: BTreeMap::new(),
            tag: 0,
            preparing: Vec::new(),
            pins: Vec::new(),
            lost: 0,
            most: (blocks as usize / 4).max(2),
            trace: Vec::new(),
        }
    }

    fn step(&mut self) {
        self.owner.now += Duration::from_nanos(self.random.below(1000) as u64);
        // Few different values, so that some are equal.
        let deadline = self.owner.now.nanos() + 1000 * self.random.below(8) as u64;
        match self.random.below(20) {
            0..6 => {
                let film = *self.random.one_of(&self.films);
                let first = self.random.below(30) as u32;
                let blocks = first..first + self.random.below(self.most + 1) as u32;
                self.tag += 1;
                let asked = Asked::Blocks(film, blocks.clone());
                self.open.insert(self.tag, asked);
                self.owner.fetch(self.tag, film, blocks, deadline);
            }
            6..8 => {
                let count = self.random.below(self.most + 1);
                self.tag += 1;
                self.open.insert(self.tag, Asked::Empty(count, deadline));
                self.owner.allocate(self.tag, count, deadline);
            }
            8..13 => self.read_one(),
            13..16 => self.let_one_go(),
            16 => {
                let given = self.owner.answers.values().find_map(|answer| match answer {
                    Ok(Given::Blocks(pins)) => pins.first().cloned(),
                    _ => None,
                });
                self.pins.extend(given);
            }
            17 if !self.pins.is_empty() => {
                self.pins.swap_remove(self.random.below(self.pins.len()));
                self.owner.released();
            }
            18 => self.prepare(),
            _ => self.news(),
        }
    }

    fn read_one(&mut self) {
        if self.owner.reads.is_empty() {
            return;
        }
        let nth = self.random.below(self.owner.reads.len());
        let result = match self.random.below(8) {
            0 => Err("broken"),
            1 if self.lost == 0 && self.random.below(50) == 0 => {
                self.lost = 1;
                self.owner.reads[nth].memory = None;
                Ok(1)
            }
            _ => Ok(1),
        };
        self.owner.read(nth, result);
    }

    fn let_one_go(&mut self) {
        let tags: Vec<u64> = self.owner.answers.keys().copied().collect();
        if !tags.is_empty() {
            self.owner.let_go(*self.random.one_of(&tags));
        }
    }

    fn prepare(&mut self) {
        let blocks = std::mem::take(&mut self.preparing);
        if blocks.is_empty() {
            self.preparing = self.owner.pool.take_unready();
        } else {
            self.owner
                .with_pool(|pool, now, finished| pool.are_ready(blocks, now, finished));
        }
    }

    fn news(&mut self) {
        let film = *self.random.one_of(&self.films);
        let viewer = self.random.below(3) as u64;
        let mut news = vec![match self.random.below(4) {
            0 => News::Left(viewer),
            1 => News::Film(
                film.number,
                Shape {
                    blocks: 40,
                    duration: Duration::from_micros(40),
                },
            ),
            _ => News::Watches(
                viewer,
                Watching {
                    film: film.number,
                    block: self.random.below(40) as u32,
                    speed: self.random.below(3) as f32,
                },
            ),
        }];
        let forget = self.random.below(4) == 0;
        self.owner.with_pool(|pool, now, finished| {
            pool.exchange_news(&mut news);
            pool.pass_on_news(now);
            if forget {
                pool.forget(film.number, now);
                pool.dispatch(now, finished);
            }
        });
    }

    /// Checks the invariants after each step.
    fn check(&mut self) {
        let seed = self.seed;
        for id in std::mem::take(&mut self.owner.started) {
            self.trace.push(format!("reads {id:?}"));
        }
        for tag in std::mem::take(&mut self.owner.order) {
            let asked = self.open.remove(&tag);
            let asked = asked.unwrap_or_else(|| panic!("seed {seed}: {tag} was not asked for"));
            let answer = &self.owner.answers[&tag];
            self.trace.push(format!("{tag} {answer:?}"));
            match (asked, answer) {
                (Asked::Blocks(film, blocks), Ok(Given::Blocks(pins))) => {
                    let wanted: Vec<_> = blocks
                        .map(|block| BlockId {
                            film: film.number,
                            block,
                        })
                        .map(Some)
                        .collect();
                    let got: Vec<_> = pins.iter().map(|pin| pin.memory().bytes_of).collect();
                    assert_eq!(got, wanted, "seed {seed}: {tag} gets other blocks");
                }
                (Asked::Empty(count, deadline), Ok(Given::Empty(blocks))) => {
                    assert_eq!(blocks.len(), count, "seed {seed}");
                    // Among requests that only need room, the most urgent is served first.
                    let passed = self.open.iter().find(|(other, asked)| match asked {
                        Asked::Empty(_, by) => (*by, **other) < (deadline, tag),
                        Asked::Blocks(..) => false,
                    });
                    assert!(passed.is_none(), "seed {seed}: {tag} before {passed:?}");
                }
                (Asked::Blocks(..), Err(Failure::Read("broken") | Failure::Closed)) => {}
                (asked, answer) => panic!("seed {seed}: {asked:?} gets {answer:?}"),
            }
        }
        let lent = self.check_blocks();
        let census = self.owner.pool.census();
        let queues = (0..self.queues)
            .map(|number| self.owner.pool.queue(number))
            .fold((0, 0), |sum, queue| (sum.0 + queue.0, sum.1 + queue.1));
        assert_eq!(queues.0, self.owner.reads.len(), "seed {seed}");
        assert_eq!(queues.0 + queues.1, census.reading, "seed {seed}");
        assert_eq!(
            (census.lent, census.lost, census.preparing),
            (lent, self.lost, self.preparing.len()),
            "seed {seed}"
        );
        let all = census.free
            + census.unready
            + census.preparing
            + census.cached
            + census.reading
            + census.lent
            + census.lost;
        assert_eq!(all, census.blocks, "seed {seed}: {census:?}");
        // No request is forgotten: every request that can be served has been.
        self.owner.with_pool(Pool::dispatch);
        let late = &self.owner.order;
        assert!(late.is_empty(), "seed {seed}: {late:?} could be served");
        let late = &self.owner.started;
        assert!(late.is_empty(), "seed {seed}: {late:?} could be read");
    }

    /// Checks that each block has exactly one owner. Returns the number of empty blocks given out.
    fn check_blocks(&self) -> usize {
        let seed = self.seed;
        let (mut pinned, mut others) = (BTreeMap::new(), Vec::new());
        let mut lent = 0;
        let answers = self.owner.answers.values().flatten();
        let (mut given, mut empty) = (Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                Given::Blocks(pins) => given.extend(pins),
                Given::Empty(blocks) => empty.extend(blocks),
            }
        }
        for pin in given.into_iter().chain(&self.pins) {
            let held = self.owner.pool.holds(pin.number());
            assert_eq!(held, pin.memory().bytes_of, "seed {seed}: evicted in use");
            assert_eq!(pin.number(), pin.memory().number, "seed {seed}");
            let before = pinned.insert(pin.number(), held);
            assert!(before.is_none_or(|before| before == held), "seed {seed}");
        }
        for (number, memory) in empty.into_iter().chain(&self.preparing) {
            assert_eq!(*number, memory.number, "seed {seed}");
            others.push(*number);
        }
        lent += others.len() - self.preparing.len();
        let reading = self.owner.reads.iter();
        others.extend(reading.filter_map(|read| Some(read.memory.as_ref()?.number)));
        let numbers: BTreeSet<u32> = others.iter().chain(pinned.keys()).copied().collect();
        let count = others.len() + pinned.len();
        assert_eq!(numbers.len(), count, "seed {seed}: a block has two owners");
        lent
    }

    /// Finishes everything: all requests are answered, and all blocks come back.
    fn end(&mut self) {
        let seed = self.seed;
        for _ in 0..10_000 {
            self.check();
            if let Some(tag) = self.owner.answers.keys().next().copied() {
                self.owner.let_go(tag);
            } else if self.pins.pop().is_some() {
                self.owner.released();
            } else if !self.owner.reads.is_empty() {
                self.owner.read(0, Ok(1));
            } else if !self.preparing.is_empty() {
                self.prepare();
            } else {
                break;
            }
        }
        assert!(self.open.is_empty(), "seed {seed}: {:?}", self.open);
        let census = self.owner.pool.census();
        assert_eq!((census.in_use(), self.owner.pool.waiting()), (0, 0));
        let back = census.free + census.unready + census.cached + census.lost;
        assert_eq!(back, census.blocks, "seed {seed}: {census:?}");
        self.trace.push(format!("{:?}", self.owner.pool.counters()));
        self.trace
            .push(format!("{:?}", self.owner.pool.take_accesses()));
    }

    /// Closes the pool in the middle of the run.
    fn close(&mut self) {
        self.owner
            .with_pool(|pool, _, finished| pool.close(finished));
        for tag in std::mem::take(&mut self.owner.order) {
            assert!(self.open.remove(&tag).is_some(), "seed {}", self.seed);
        }
        assert!(self.open.is_empty(), "seed {}: {:?}", self.seed, self.open);
    }
}

fn run(seed: u64, steps: usize, close: bool) -> Vec<String> {
    let mut run = Run::new(seed);
    for _ in 0..steps {
        run.step();
        run.check();
    }
    if close {
        run.close();
    }
    run.end();
    run.trace
}

#[test]
fn every_request_is_answered_once_and_no_block_is_anybody_else_s() {
    for seed in 0..1000 {
        run(seed, 300, false);
    }
}

#[test]
fn a_pool_that_is_closed_at_any_moment_answers_all_and_gets_its_blocks_back() {
    for seed in 0..400 {
        run(seed, seed as usize, true);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..40 {
        let (one, other) = (run(seed, 300, false), run(seed, 300, false));
        assert_eq!(one, other, "seed {seed}");
    }
    assert_ne!(run(1, 300, false), run(2, 300, false));
}

//! Each policy against a model of it that is too simple to be wrong: vectors, searched from end to end.
//! And what holds for all of them, whatever is done.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use reelway_cache::{BlockId, Film, Policy, Slot, Spec, Watching};

fn id(block: u32) -> BlockId {
    BlockId { film: 0, block }
}

/// A cache of blocks of one size, as the owner of the memory sees it.
struct Cache {
    name: String,
    policy: Box<dyn Policy>,
    capacity: usize,
    slots: HashMap<BlockId, Slot>,
    held: Vec<Option<BlockId>>,
    pinned: HashSet<Slot>,
    now: Duration,
}

impl Cache {
    fn new(name: &str, capacity: usize) -> Cache {
        let spec: Spec = name.parse().expect("a policy");
        Cache {
            name: name.to_owned(),
            policy: spec.build(capacity as u64, capacity),
            capacity,
            slots: HashMap::new(),
            held: vec![None; capacity],
            pinned: HashSet::new(),
            now: Duration::ZERO,
        }
    }

    /// Whether a victim was found; it is looked at closely.
    fn evict(&mut self, incoming: BlockId) -> bool {
        let pinned = &self.pinned;
        let victim = self
            .policy
            .victim(incoming, &mut |slot| !pinned.contains(&slot), self.now);
        let Some(slot) = victim else {
            assert_eq!(
                self.slots.len(),
                self.slots
                    .values()
                    .filter(|slot| pinned.contains(slot))
                    .count(),
                "{}: no victim although a block could go",
                self.name
            );
            return false;
        };
        assert!(!pinned.contains(&slot), "a pinned block was thrown out");
        let gone = self.held[slot as usize]
            .take()
            .expect("an empty slot was named");
        self.slots.remove(&gone);
        true
    }

    /// Asks for a block; whether it was there. Not read where there is no room.
    fn ask(&mut self, id: BlockId) -> bool {
        self.now += Duration::from_secs(1);
        if let Some(slot) = self.slots.get(&id) {
            self.policy.hit(*slot, self.now);
            while self.policy.crowded(0) && self.evict(id) {}
            return true;
        }
        while self.slots.len() + 1 > self.capacity || self.policy.crowded(1) {
            if !self.evict(id) {
                break;
            }
        }
        if self.slots.len() < self.capacity {
            let slot = self.held.iter().position(Option::is_none).expect("room") as Slot;
            self.held[slot as usize] = Some(id);
            self.slots.insert(id, slot);
            self.policy.insert(slot, id, 1, self.now);
        }
        assert!(self.slots.len() <= self.capacity);
        false
    }
}

/// A model: all it knows of the blocks in it, in whatever order it likes.
trait Model {
    /// Asks for a block; whether it was there.
    fn ask(&mut self, block: u32) -> bool;
}

/// Takes `block` out of a list; whether it was there.
fn out(list: &mut Vec<u32>, block: u32) -> bool {
    let at = list.iter().position(|other| *other == block);
    at.map(|at| list.remove(at)).is_some()
}

/// Oldest first.
struct OneList {
    capacity: usize,
    list: Vec<u32>,
    hits: HashMap<u32, u32>,
    kind: &'static str,
    hand: usize,
}

impl Model for OneList {
    fn ask(&mut self, block: u32) -> bool {
        if self.list.contains(&block) {
            *self.hits.entry(block).or_default() += 1;
            if matches!(self.kind, "lru" | "lfu") {
                out(&mut self.list, block);
                self.list.push(block);
            }
            return true;
        }
        if self.list.len() == self.capacity {
            match self.kind {
                "lfu" => {
                    let hits = |block: &u32| self.hits[block];
                    let least = *self.list.iter().min_by_key(|block| hits(block)).unwrap();
                    out(&mut self.list, least);
                }
                "sieve" => loop {
                    let at = self.hand % self.list.len();
                    let hits = self.hits.get_mut(&self.list[at]).unwrap();
                    if *hits == 0 {
                        self.list.remove(at);
                        self.hand = if at == self.list.len() { 0 } else { at };
                        break;
                    }
                    *hits = 0;
                    self.hand = at + 1;
                },
                _ => drop(self.list.remove(0)),
            }
        }
        // The hand that had come to the end begins anew only when it is needed: not at the newcomer.
        if self.kind == "sieve" && self.hand >= self.list.len() {
            self.hand = 0;
        }
        self.list.push(block);
        self.hits.insert(block, 0);
        false
    }
}

struct Slru {
    capacity: usize,
    protected_most: usize,
    probation: Vec<u32>,
    protected: Vec<u32>,
}

impl Model for Slru {
    fn ask(&mut self, block: u32) -> bool {
        if out(&mut self.probation, block) || out(&mut self.protected, block) {
            self.protected.push(block);
            if self.protected.len() > self.protected_most {
                let back = self.protected.remove(0);
                self.probation.push(back);
            }
            return true;
        }
        if self.probation.len() + self.protected.len() == self.capacity {
            match self.probation.is_empty() {
                true => self.protected.remove(0),
                false => self.probation.remove(0),
            };
        }
        self.probation.push(block);
        false
    }
}

#[derive(Default)]
struct TwoQ {
    capacity: usize,
    a1_in: Vec<u32>,
    a1_out: Vec<u32>,
    am: Vec<u32>,
}

impl Model for TwoQ {
    fn ask(&mut self, block: u32) -> bool {
        if out(&mut self.am, block) {
            self.am.push(block);
            return true;
        }
        if self.a1_in.contains(&block) {
            return true;
        }
        let again = out(&mut self.a1_out, block);
        if self.a1_in.len() + self.am.len() == self.capacity {
            if self.a1_in.len() > self.capacity / 4 || self.am.is_empty() {
                let gone = self.a1_in.remove(0);
                self.a1_out.push(gone);
                if self.a1_out.len() > self.capacity / 2 {
                    self.a1_out.remove(0);
                }
            } else {
                self.am.remove(0);
            }
        }
        match again {
            true => self.am.push(block),
            false => self.a1_in.push(block),
        }
        false
    }
}

struct LruK {
    capacity: usize,
    k: usize,
    tick: usize,
    present: Vec<u32>,
    past: Vec<u32>,
    uses: HashMap<u32, Vec<usize>>,
}

impl Model for LruK {
    fn ask(&mut self, block: u32) -> bool {
        self.tick += 1;
        let hit = self.present.contains(&block);
        if !hit {
            let remembered = out(&mut self.past, block);
            if self.present.len() == self.capacity {
                let kth = |block: &u32| {
                    let uses = &self.uses[block];
                    let kth = uses.len().checked_sub(self.k).map_or(0, |at| uses[at]);
                    (kth, *uses.last().unwrap())
                };
                let gone = *self.present.iter().min_by_key(|block| kth(block)).unwrap();
                out(&mut self.present, gone);
                self.past.push(gone);
                if self.past.len() > self.capacity / 2 {
                    self.past.remove(0);
                }
            }
            if !remembered {
                self.uses.remove(&block);
            }
            self.present.push(block);
        }
        self.uses.entry(block).or_default().push(self.tick);
        hit
    }
}

struct Fbr {
    capacity: usize,
    /// Most recently used first.
    stack: Vec<u32>,
    count: HashMap<u32, u32>,
}

impl Model for Fbr {
    fn ask(&mut self, block: u32) -> bool {
        let at = self.stack.iter().position(|other| *other == block);
        let new = self.capacity / 4;
        if let Some(at) = at {
            self.stack.remove(at);
            self.stack.insert(0, block);
            if at >= new {
                *self.count.get_mut(&block).unwrap() += 1;
            }
            return true;
        }
        if self.stack.len() == self.capacity {
            let old = self.capacity - self.capacity / 2;
            let from_last = self.stack[old..].iter().rev();
            let gone = *from_last.min_by_key(|block| self.count[block]).unwrap();
            out(&mut self.stack, gone);
        }
        self.stack.insert(0, block);
        self.count.insert(block, 1);
        false
    }
}

#[derive(Default)]
struct Arc {
    capacity: usize,
    goal: f64,
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
}

impl Arc {
    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if t1 >= 1.0 && (in_b2 && t1 == self.goal || t1 > self.goal) {
            let gone = self.t1.remove(0);
            self.b1.push(gone);
        } else {
            let gone = self.t2.remove(0);
            self.b2.push(gone);
        }
    }
}

impl Model for Arc {
    // The paper's figure 4, case by case. Its REPLACE takes from T2 although that may be empty, and from a
    // cache that is not full; it cannot be both here, since nothing is removed.
    fn ask(&mut self, block: u32) -> bool {
        let full = self.t1.len() + self.t2.len() == self.capacity;
        if out(&mut self.t1, block) || out(&mut self.t2, block) {
            self.t2.push(block);
            return true;
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&block) {
            self.goal = (self.goal + (b2 / b1).max(1.0)).min(self.capacity as f64);
            if full {
                self.replace(false);
            }
            out(&mut self.b1, block);
            self.t2.push(block);
        } else if self.b2.contains(&block) {
            self.goal = (self.goal - (b1 / b2).max(1.0)).max(0.0);
            if full {
                self.replace(true);
            }
            out(&mut self.b2, block);
            self.t2.push(block);
        } else {
            if self.t1.len() + self.b1.len() == self.capacity {
                if self.t1.len() < self.capacity {
                    self.b1.remove(0);
                    if full {
                        self.replace(false);
                    }
                } else {
                    self.t1.remove(0);
                }
            } else if full {
                let all = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
                if all == 2 * self.capacity {
                    self.b2.remove(0);
                }
                self.replace(false);
            }
            self.t1.push(block);
        }
        false
    }
}

#[derive(Default)]
struct S3Fifo {
    capacity: usize,
    small: Vec<(u32, u8)>,
    main: Vec<(u32, u8)>,
    past: Vec<u32>,
}

impl Model for S3Fifo {
    fn ask(&mut self, block: u32) -> bool {
        let both = self.small.iter_mut().chain(&mut self.main);
        for (other, hits) in both {
            if *other == block {
                *hits = (*hits + 1).min(3);
                return true;
            }
        }
        let main_most = self.capacity - self.capacity / 10;
        while self.small.len() + self.main.len() == self.capacity {
            if self.main.len() > main_most || self.small.is_empty() {
                let (first, hits) = self.main.remove(0);
                if hits > 0 {
                    self.main.push((first, hits - 1));
                }
            } else {
                let (first, hits) = self.small.remove(0);
                if hits > 1 {
                    self.main.push((first, 0));
                } else {
                    self.past.push(first);
                    if self.past.len() > main_most {
                        self.past.remove(0);
                    }
                }
            }
        }
        match out(&mut self.past, block) {
            true => self.main.push((block, 0)),
            false => self.small.push((block, 0)),
        }
        false
    }
}

struct Ons {
    new_most: usize,
    old_most: usize,
    promotion: u32,
    /// Least recently used first, with hits.
    new: Vec<(u32, u32)>,
    old: Vec<(u32, u32)>,
}

fn least(list: &[(u32, u32)]) -> usize {
    let hits = |(_, (_, hits)): &(usize, &(u32, u32))| *hits;
    list.iter().enumerate().min_by_key(hits).unwrap().0
}

impl Model for Ons {
    fn ask(&mut self, block: u32) -> bool {
        if let Some(at) = self.old.iter().position(|(other, _)| *other == block) {
            let (_, hits) = self.old.remove(at);
            self.old.push((block, hits + 1));
            return true;
        }
        if let Some(at) = self.new.iter().position(|(other, _)| *other == block) {
            let (_, hits) = self.new.remove(at);
            if hits + 1 >= self.promotion {
                if self.old.len() == self.old_most {
                    self.old.remove(least(&self.old));
                }
                self.old.push((block, hits + 1));
            } else {
                self.new.push((block, hits + 1));
            }
            return true;
        }
        if self.new.len() == self.new_most {
            self.new.remove(least(&self.new));
        }
        self.new.push((block, 0));
        false
    }
}

fn model(name: &str, capacity: usize) -> Box<dyn Model> {
    match name {
        "fifo" | "lru" | "lfu" | "sieve" => Box::new(OneList {
            capacity,
            list: Vec::new(),
            hits: HashMap::new(),
            kind: ["fifo", "lru", "lfu", "sieve"]
                .into_iter()
                .find(|kind| *kind == name)
                .unwrap(),
            hand: 0,
        }),
        "slru:protected=0.5" => Box::new(Slru {
            capacity,
            protected_most: capacity / 2,
            probation: Vec::new(),
            protected: Vec::new(),
        }),
        "2q" => Box::new(TwoQ {
            capacity,
            ..TwoQ::default()
        }),
        "lru-k:k=2,history=0.5" | "lru-k:k=3,history=0.5" => Box::new(LruK {
            capacity,
            k: if name.contains("k=2") { 2 } else { 3 },
            tick: 0,
            present: Vec::new(),
            past: Vec::new(),
            uses: HashMap::new(),
        }),
        "fbr:average=10000" => Box::new(Fbr {
            capacity,
            stack: Vec::new(),
            count: HashMap::new(),
        }),
        "arc" => Box::new(Arc {
            capacity,
            ..Arc::default()
        }),
        "s3-fifo" => Box::new(S3Fifo {
            capacity,
            ..S3Fifo::default()
        }),
        "ons:threshold=2,new=0.5" | "ons:threshold=2,new=0.5,exceed=1" => Box::new(Ons {
            new_most: (capacity as f64 / 2.0).round() as usize,
            old_most: capacity - (capacity as f64 / 2.0).round() as usize,
            promotion: if name.ends_with("exceed=1") { 3 } else { 2 },
            new: Vec::new(),
            old: Vec::new(),
        }),
        _ => panic!("no model of {name}"),
    }
}

const MODELLED: [&str; 13] = [
    "fifo",
    "lru",
    "lfu",
    "sieve",
    "slru:protected=0.5",
    "2q",
    "lru-k:k=2,history=0.5",
    "lru-k:k=3,history=0.5",
    "fbr:average=10000",
    "arc",
    "s3-fifo",
    "ons:threshold=2,new=0.5",
    "ons:threshold=2,new=0.5,exceed=1",
];

/// Blocks asked for: some of them much more often than others, now and then a run.
fn blocks() -> impl Strategy<Value = Vec<u32>> {
    let some = prop_oneof![
        3 => (0..6u32).prop_map(|block| vec![block]),
        3 => (0..40u32).prop_map(|block| vec![block]),
        1 => (0..30u32, 1..15u32).prop_map(|(from, count)| (from..from + count).collect()),
    ];
    prop::collection::vec(some, 0..200).prop_map(|parts| parts.concat())
}

/// What may happen to a cache.
#[derive(Clone, Debug)]
enum Step {
    Ask(BlockId),
    Pin(u8),
    Unpin(u8),
    Remove(u8),
    Evict,
    Watch(u64, Watching),
    Left(u64),
    Later(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let block = || (0..3u32, 0..20u32).prop_map(|(film, block)| BlockId { film, block });
    let speed = prop::sample::select(vec![1.0f32, 0.0, 8.0, -8.0, f32::NAN, 1e30]);
    let watch = (0..5u64, block(), speed).prop_map(|(viewer, id, speed)| {
        let BlockId { film, block } = id;
        Step::Watch(viewer, Watching { film, block, speed })
    });
    let step = prop_oneof![
        8 => block().prop_map(Step::Ask),
        1 => any::<u8>().prop_map(Step::Pin),
        1 => any::<u8>().prop_map(Step::Unpin),
        1 => any::<u8>().prop_map(Step::Remove),
        1 => Just(Step::Evict),
        3 => watch,
        1 => (0..5u64).prop_map(Step::Left),
        1 => (0..4000u64).prop_map(Step::Later),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_policy_hits_what_its_model_hits(blocks in blocks(), capacity in 2..16usize) {
        for name in MODELLED {
            let (mut cache, mut model) = (Cache::new(name, capacity), model(name, capacity));
            for (nth, block) in blocks.iter().enumerate() {
                let (seen, right) = (cache.ask(id(*block)), model.ask(*block));
                prop_assert_eq!(seen, right, "{}: request {}, block {}", name, nth, block);
            }
        }
    }

    #[test]
    fn whatever_happens_no_pinned_block_goes_and_the_cache_is_never_too_full(
        steps in steps(),
        capacity in 1..16usize,
    ) {
        let more = ["fbr:average=2", "lru-k:k=1", "w-tinylfu:window=0.3"];
        for name in Spec::NAMES.iter().chain(&more) {
            let mut cache = Cache::new(name, capacity);
            let shape = Film { blocks: 20, duration: Duration::from_secs(200) };
            (0..2).for_each(|film| cache.policy.film(film, shape, Duration::ZERO));
            for step in &steps {
                let slot = |number: u8| number as Slot % capacity as Slot;
                match *step {
                    Step::Ask(id) => drop(cache.ask(id)),
                    Step::Pin(number) => drop(cache.pinned.insert(slot(number))),
                    Step::Unpin(number) => drop(cache.pinned.remove(&slot(number))),
                    Step::Remove(number) => {
                        let slot = slot(number);
                        cache.policy.remove(slot, cache.now);
                        if let Some(gone) = cache.held[slot as usize].take() {
                            cache.slots.remove(&gone);
                        }
                    }
                    Step::Evict => drop(cache.evict(id(99))),
                    Step::Watch(viewer, watching) => {
                        cache.policy.watch(viewer, watching, cache.now);
                    }
                    Step::Left(viewer) => cache.policy.left(viewer, cache.now),
                    Step::Later(seconds) => cache.now += Duration::from_secs(seconds),
                }
            }
            cache.pinned.clear();
            while cache.evict(id(99)) {}
            prop_assert!(cache.slots.is_empty(), "{}", name);
        }
    }
}

//! Tests each policy against a model that is too simple to be wrong: vectors, searched from end to
//! end. Also tests invariants of all policies under any sequence of steps. Timetable's model needs
//! its internals, and is next to it (`src/timetable/tests.rs`).

mod adaptive;
mod frequency;
mod lists;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use reelway_cache::{BlockId, Film, Policy, Slot, Spec, Watching};

use adaptive::{Arc, S3Fifo};
use frequency::{Fbr, LruK, Ons, WTinyLfu};
use lists::{OneList, Slru, TwoQ};

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
        Cache::counting(name, capacity, capacity)
    }

    /// A cache whose policy is made for `slots` slots.
    fn counting(name: &str, capacity: usize, slots: usize) -> Cache {
        let spec: Spec = name.parse().expect("a policy");
        Cache {
            name: name.to_owned(),
            policy: spec.build(capacity as u64, slots),
            capacity,
            slots: HashMap::new(),
            held: vec![None; capacity],
            pinned: HashSet::new(),
            now: Duration::ZERO,
        }
    }

    /// Evicts a block and checks the victim. Returns whether there was one.
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

    /// Requests a block. Returns whether it was cached; it is not read if there is no room.
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

/// A model of a policy, with the blocks it holds in any form.
trait Model {
    /// Requests a block. Returns whether it was cached.
    fn ask(&mut self, block: u32) -> bool;
}

/// Removes `block` from a list. Returns whether it was there.
fn out(list: &mut Vec<u32>, block: u32) -> bool {
    let at = list.iter().position(|other| *other == block);
    at.map(|at| list.remove(at)).is_some()
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
        "w-tinylfu:window=0.3" => {
            let window_most = ((capacity as f64 * 0.3) as usize).max(1);
            Box::new(WTinyLfu {
                capacity,
                window_most,
                sample: 10 * COUNTED as u64,
                ..WTinyLfu::default()
            })
        }
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

const MODELLED: [&str; 14] = [
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
    "w-tinylfu:window=0.3",
];

/// Slots for which W-TinyLFU's sketch is made here: enough that it counts the requested blocks
/// exactly, and few enough that its counts are halved now and then.
const COUNTED: usize = 50;

/// Requested blocks: some much more often than others, with occasional runs.
fn blocks() -> impl Strategy<Value = Vec<u32>> {
    let some = prop_oneof![
        3 => (0..6u32).prop_map(|block| vec![block]),
        3 => (0..40u32).prop_map(|block| vec![block]),
        1 => (0..30u32, 1..15u32).prop_map(|(from, count)| (from..from + count).collect()),
    ];
    prop::collection::vec(some, 0..200).prop_map(|parts| parts.concat())
}

/// A step in a cache's life.
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
            let slots = if name.starts_with("w-tinylfu") { COUNTED } else { capacity };
            let mut cache = Cache::counting(name, capacity, slots);
            let mut model = model(name, capacity);
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

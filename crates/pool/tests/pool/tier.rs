//! The tier's books, step by step and at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reelway_cache::{BlockId, Policy, Spec};
use reelway_determinism::Random;
use reelway_pool::tier::{Books, Budget, HOURS, Held, Look, Record};

const NOW: Duration = Duration::ZERO;

fn policy(slots: u32) -> Box<dyn Policy> {
    let spec: Spec = "lru".parse().expect("a policy");
    spec.build(u64::from(slots), slots as usize)
}

fn books(slots: u32, admit: u32, found: Vec<(u32, Record<u8>)>) -> Books<u8> {
    let budget = Budget::new(1000, [(0, 0); HOURS]);
    Books::new(slots, policy(slots), admit, budget, found)
}

#[test]
fn a_block_is_let_in_when_it_was_missed_often_enough_and_the_day_s_bytes_last() {
    let mut books = books(2, 2, Vec::new());
    let film = books.open(1, NOW);
    let id = |block| BlockId { film, block };
    assert_eq!(books.look(id(0), 100, NOW), Look::Missed { admit: false });
    assert_eq!(books.look(id(0), 100, NOW), Look::Missed { admit: true });
    let slot = books.room(id(0), 600, 9, NOW).expect("a slot");
    books.written(slot, id(0), 600, 77, NOW);
    assert!(books.holds(id(0)));
    assert_eq!(books.room(id(0), 600, 9, NOW), None, "it is here");
    assert_eq!(books.room(id(1), 600, 9, NOW), None, "the day's bytes");
    assert_eq!(books.room(id(1), 600, 40, NOW), Some(1 - slot), "a day on");
    books.failed(1 - slot);
    let held = Held {
        slot,
        len: 600,
        sum: 77,
    };
    assert_eq!(books.look(id(0), 100, NOW), Look::Held(held));
    books.read(held, true, NOW);
    let stats = books.stats();
    assert_eq!((stats.cached, stats.hits, stats.misses), (1, 1, 2));
    assert_eq!((stats.left_out, stats.errors), (1, 1));
    assert_eq!(stats.bytes_written, 600);
}

#[test]
fn a_block_that_is_read_stays_and_one_that_is_broken_goes() {
    let record = |block| Record {
        file: 1,
        block,
        len: 10,
        sum: 5,
    };
    let found = vec![(1, record(4)), (0, record(5)), (2, record(4))];
    let mut books = books(3, 1, found);
    let film = books.open(1, NOW);
    let id = |block| BlockId { film, block };
    assert_eq!(books.stats().cached, 2, "one was there twice");
    let Look::Held(held) = books.look(id(4), 0, NOW) else {
        panic!("block 4 was found");
    };
    assert_eq!(held.slot, 1);
    // The free slot, then that of block 5; block 4 is being read.
    for block in 6..8 {
        let slot = books.room(id(block), 10, 0, NOW).expect("a slot");
        books.written(slot, id(block), 10, 5, NOW);
    }
    assert!(books.holds(id(4)) && !books.holds(id(5)));
    books.read(held, false, NOW);
    assert!(!books.holds(id(4)));
    books.give_back(held.slot);
    assert_eq!(books.room(id(9), 10, 0, NOW), Some(1));
}

#[test]
fn no_slot_is_ever_given_to_two_blocks() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let slots = 2 + random.below(6) as u32;
        let mut books = Books::new(
            slots,
            policy(slots),
            1 + random.below(2) as u32,
            Budget::new(u64::MAX, [(0, 0); HOURS]),
            Vec::new(),
        );
        let films = [books.open(1, NOW), books.open(2, NOW)];
        // What is being written, and what is being read, by slot.
        let mut writes: BTreeMap<u32, BlockId> = BTreeMap::new();
        let mut reads: Vec<(BlockId, Held)> = Vec::new();
        let mut sums: BTreeMap<BlockId, u64> = BTreeMap::new();
        for step in 0..300u64 {
            let now = Duration::from_secs(step);
            let id = BlockId {
                film: films[random.below(2)],
                block: random.below(8) as u32,
            };
            match random.below(4) {
                0 => match books.look(id, u64::from(id.film * 100 + id.block), now) {
                    Look::Held(held) if reads.iter().all(|(of, _)| *of != id) => {
                        assert_eq!(held.sum, sums[&id], "seed {seed}: another block's bytes");
                        assert!(!writes.contains_key(&held.slot), "seed {seed}");
                        reads.push((id, held));
                    }
                    Look::Held(_) | Look::Missed { .. } => {}
                },
                1 if writes.values().all(|of| *of != id) => {
                    if let Some(slot) = books.room(id, 1, step, now) {
                        assert!(slot < slots && writes.insert(slot, id).is_none());
                        let read = |(_, held): &(BlockId, Held)| held.slot == slot;
                        assert!(!reads.iter().any(read), "seed {seed}: it is being read");
                    }
                }
                2 => {
                    if let Some((slot, id)) = writes.pop_first() {
                        match random.below(4) {
                            0 => books.failed(slot),
                            _ => {
                                sums.insert(id, step);
                                books.written(slot, id, 1, step, now);
                            }
                        }
                    }
                }
                _ if !reads.is_empty() => {
                    let (id, held) = reads.swap_remove(random.below(reads.len()));
                    let well = random.below(3) > 0;
                    books.read(held, well, now);
                    assert_eq!(books.holds(id), well, "seed {seed}");
                    if !well {
                        books.give_back(held.slot);
                    }
                }
                _ => {}
            }
        }
        // All come back: as many as there are can be had at once.
        for (slot, _) in writes {
            books.failed(slot);
        }
        for (_, held) in reads {
            books.read(held, true, NOW);
        }
        let other = books.open(3, NOW);
        let given: BTreeSet<u32> = (0..slots)
            .filter_map(|block| books.room(BlockId { film: other, block }, 1, 1000, NOW))
            .collect();
        assert_eq!(given.len(), slots as usize, "seed {seed}");
    }
}

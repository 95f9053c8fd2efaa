//! The tier's bookkeeping, step by step and at random.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reelway_cache::{BlockId, Policy, Spec};
use reelway_determinism::Random;
use reelway_pool::tier::{Books, Budget, HOURS, Look, Record, TierBlock};

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
    assert!(books.written(slot, id(0), 600, 77, NOW));
    assert!(books.holds(id(0)));
    assert_eq!(books.room(id(0), 600, 9, NOW), None, "it is here");
    assert_eq!(books.room(id(1), 600, 9, NOW), None, "the day's bytes");
    assert_eq!(books.room(id(1), 600, 40, NOW), Some(1 - slot), "a day on");
    books.failed(1 - slot);
    let held = TierBlock {
        slot,
        len: 600,
        sum: 77,
    };
    assert_eq!(books.look(id(0), 100, NOW), Look::Held(held));
    assert!(books.read(held, true, NOW));
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
        let slot = books.room(id(block), 10, 100, NOW).expect("a slot");
        assert!(books.written(slot, id(block), 10, 5, NOW));
    }
    assert!(books.holds(id(4)) && !books.holds(id(5)));
    assert!(books.read(held, true, NOW) && books.holds(id(4)));
    assert_eq!(books.look(id(4), 0, NOW), Look::Held(held));
    assert!(!books.read(held, false, NOW));
    assert!(!books.holds(id(4)));
    let stats = books.stats();
    assert_eq!((stats.hits, stats.bytes_read, stats.broken), (1, 10, 1));
    books.give_back(held.slot);
    assert_eq!(books.room(id(9), 10, 107, NOW), Some(1));
    books.left_out();
    assert_eq!(books.stats().left_out, 1);
    // Two blocks in hour 100, one in hour 107.
    let mut hours = books.hours().to_vec();
    hours.retain(|(_, bytes)| *bytes > 0);
    assert_eq!(hours, [(100, 20), (107, 10)]);
}

#[test]
fn a_purged_film_goes_and_what_is_read_or_written_meanwhile_goes_afterwards() {
    let record = |file, block| Record {
        file,
        block,
        len: 10,
        sum: 5,
    };
    let found = vec![(0, record(1, 0)), (1, record(1, 1)), (2, record(2, 0))];
    let mut books = books(4, 1, found);
    let (film, other) = (books.open(1, NOW), books.open(2, NOW));
    let id = |block| BlockId { film, block };
    let Look::Held(held) = books.look(id(1), 0, NOW) else {
        panic!("block 1 was found");
    };
    let written = books.room(id(2), 10, 0, NOW).expect("a slot");
    assert_eq!(books.purge(1, NOW), [0]);
    assert_eq!(books.purge(9, NOW), [], "nobody knows it");
    let of_other = BlockId {
        film: other,
        block: 0,
    };
    assert!(books.holds(of_other) && !books.holds(id(0)));
    assert!(!books.written(written, id(2), 10, 5, NOW));
    assert!(
        !books.read(held, true, NOW),
        "its bytes were right all the same"
    );
    assert_eq!(books.stats().cached, 1);
    for slot in [0, written, held.slot] {
        books.give_back(slot);
    }
    // The block can now be admitted again.
    let again = books.room(id(2), 10, 0, NOW).expect("a slot");
    assert!(books.written(again, id(2), 10, 5, NOW) && books.holds(id(2)));
}

#[test]
fn a_kept_film_is_let_in_at_once_and_makes_room_for_none() {
    let mut books = books(2, 3, Vec::new());
    let (kept, other) = (books.open(1, NOW), books.open(2, NOW));
    let id = |film, block| BlockId { film, block };
    assert_eq!(
        books.look(id(kept, 0), 1, NOW),
        Look::Missed { admit: false }
    );
    books.keep([1]);
    assert_eq!(
        books.look(id(kept, 0), 1, NOW),
        Look::Missed { admit: true }
    );
    for film in [kept, other] {
        let slot = books.room(id(film, 0), 1, 0, NOW).expect("a slot");
        assert!(books.written(slot, id(film, 0), 1, 5, NOW));
    }
    // The other film's block is evicted; after that, none can be.
    let slot = books.room(id(kept, 1), 1, 0, NOW).expect("a slot");
    assert!(books.written(slot, id(kept, 1), 1, 5, NOW));
    assert!(!books.holds(id(other, 0)) && books.holds(id(kept, 0)));
    assert_eq!(books.room(id(other, 1), 1, 0, NOW), None);
    books.keep([]);
    assert!(books.room(id(other, 1), 1, 0, NOW).is_some());
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
        // Blocks being written and blocks being read, by slot.
        let mut writes: BTreeMap<u32, BlockId> = BTreeMap::new();
        let mut reads: Vec<(BlockId, TierBlock)> = Vec::new();
        // Slots whose film was purged since the operation began.
        let mut purged: BTreeSet<u32> = BTreeSet::new();
        let mut sums: BTreeMap<BlockId, u64> = BTreeMap::new();
        for step in 0..300u64 {
            let now = Duration::from_secs(step);
            let id = BlockId {
                film: films[random.below(2)],
                block: random.below(8) as u32,
            };
            match random.below(9) {
                0 | 1 => match books.look(id, u64::from(id.film * 100 + id.block), now) {
                    Look::Held(held) if reads.iter().all(|(of, _)| *of != id) => {
                        assert_eq!(held.sum, sums[&id], "seed {seed}: another block's bytes");
                        assert!(!writes.contains_key(&held.slot), "seed {seed}");
                        reads.push((id, held));
                    }
                    Look::Held(_) | Look::Missed { .. } => {}
                },
                2 | 3 if writes.values().all(|of| *of != id) => {
                    if let Some(slot) = books.room(id, 1, step, now) {
                        assert!(slot < slots && writes.insert(slot, id).is_none());
                        let read = |(_, held): &(BlockId, TierBlock)| held.slot == slot;
                        assert!(!reads.iter().any(read), "seed {seed}: it is being read");
                    }
                }
                4 | 5 => {
                    if let Some((slot, id)) = writes.pop_first() {
                        let was_purged = purged.remove(&slot);
                        if random.below(4) == 0 {
                            books.failed(slot);
                        } else {
                            sums.insert(id, step);
                            let stays = books.written(slot, id, 1, step, now);
                            assert_eq!(stays, !was_purged, "seed {seed}");
                            assert_eq!(books.holds(id), stays, "seed {seed}");
                            if !stays {
                                books.give_back(slot);
                            }
                        }
                    }
                }
                6 | 7 if !reads.is_empty() => {
                    let (id, held) = reads.swap_remove(random.below(reads.len()));
                    let well = random.below(3) > 0;
                    let stays = well && !purged.remove(&held.slot);
                    purged.remove(&held.slot);
                    assert_eq!(books.read(held, well, now), stays, "seed {seed}");
                    assert_eq!(books.holds(id), stays, "seed {seed}");
                    if !stays {
                        books.give_back(held.slot);
                    }
                }
                8 if random.below(3) == 0 => {
                    let nth = random.below(2);
                    let slots = books.purge(nth as u8 + 1, now);
                    let is_it = |id: &BlockId| id.film == films[nth];
                    for slot in slots {
                        let is_read = reads.iter().any(|(_, held)| held.slot == slot);
                        assert!(!is_read && !writes.contains_key(&slot), "seed {seed}");
                        books.give_back(slot);
                    }
                    purged.extend(
                        writes
                            .iter()
                            .filter(|(_, id)| is_it(id))
                            .map(|(slot, _)| *slot),
                    );
                    let of_reads = reads.iter().filter(|(id, _)| is_it(id));
                    purged.extend(of_reads.map(|(_, held)| held.slot));
                }
                _ => {}
            }
        }
        // Finally, all slots come back: all of them can be allocated at once.
        for (slot, _) in writes {
            books.failed(slot);
        }
        for (_, held) in reads {
            if !books.read(held, true, NOW) {
                books.give_back(held.slot);
            }
        }
        let other = books.open(3, NOW);
        let given: BTreeSet<u32> = (0..slots)
            .filter_map(|block| books.room(BlockId { film: other, block }, 1, 1000, NOW))
            .collect();
        assert_eq!(given.len(), slots as usize, "seed {seed}");
    }
}

//! Which blocks each policy evicts, step by step.

use std::time::Duration;

use reelway_cache::{BlockId, Policy, Spec};

const NOW: Duration = Duration::ZERO;

fn block(number: u32) -> BlockId {
    BlockId {
        film: 0,
        block: number,
    }
}

/// Blocks 0, 1, 2 … read in turn into the slots of the same number.
fn filled(spec: &str, blocks: u32) -> Box<dyn Policy> {
    let spec: Spec = spec.parse().expect("a policy");
    let mut policy = spec.build(u64::from(blocks), blocks as usize);
    for number in 0..blocks {
        policy.insert(number, block(number), 1, NOW);
    }
    policy
}

/// The order in which all blocks are evicted.
fn order(policy: &mut dyn Policy) -> Vec<u32> {
    std::iter::from_fn(|| policy.victim(block(99), &mut |_| true, NOW)).collect()
}

#[test]
fn fifo_forgets_in_the_order_of_reading() {
    let mut policy = filled("fifo", 4);
    policy.hit(0, NOW);
    assert_eq!(order(&mut *policy), [0, 1, 2, 3]);
}

#[test]
fn lru_forgets_the_longest_unused() {
    let mut policy = filled("lru", 4);
    policy.hit(0, NOW);
    policy.hit(2, NOW);
    assert_eq!(order(&mut *policy), [1, 3, 0, 2]);
}

#[test]
fn lfu_forgets_the_fewest_hits_and_of_those_the_longest_unused() {
    let mut policy = filled("lfu", 4);
    for slot in [0, 0, 3, 1] {
        policy.hit(slot, NOW);
    }
    assert_eq!(order(&mut *policy), [2, 3, 1, 0]);
}

#[test]
fn sieve_passes_over_what_was_hit_once_round() {
    let mut policy = filled("sieve", 4);
    policy.hit(0, NOW);
    policy.hit(2, NOW);
    assert_eq!(order(&mut *policy), [1, 3, 0, 2]);
}

#[test]
fn a_block_in_use_is_passed_over_and_may_go_later() {
    for name in Spec::NAMES {
        let mut policy = filled(name, 4);
        let first = policy.victim(block(9), &mut |slot| slot == 2, NOW);
        assert_eq!(first, Some(2), "{name}");
        assert_eq!(policy.victim(block(9), &mut |_| false, NOW), None, "{name}");
        let mut rest = order(&mut *policy);
        rest.sort_unstable();
        assert_eq!(rest, [0, 1, 3], "{name}");
    }
}

#[test]
fn blocks_that_may_not_go_are_asked_about_a_few_times_at_most() {
    const BLOCKS: u32 = 4000;
    for name in Spec::NAMES {
        let mut policy = filled(name, BLOCKS);
        for number in 0..3 {
            let mut asked = 0;
            // The oldest half is kept.
            let mut may_go = |slot: u32| {
                asked += 1;
                slot >= BLOCKS / 2
            };
            let gone = policy.victim(block(BLOCKS + number), &mut may_go, NOW);
            assert!(gone.is_some(), "{name}");
            assert!(asked <= 6 * BLOCKS, "{name} asked {asked} times");
        }
    }
}

#[test]
fn a_policy_grows_with_the_slots_that_it_gets() {
    for name in Spec::NAMES {
        let spec: Spec = name.parse().expect("a policy");
        for slots in [0, 1, 3] {
            let mut policy = spec.build(8, slots);
            for slot in [0, 5, 1, 7, 3, 2, 6, 4] {
                policy.insert(slot, block(slot), 1, NOW);
                policy.hit(slot, NOW);
            }
            let mut all = order(&mut *policy);
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7], "{name}, {slots} slots");
        }
    }
}

//! The memory of a policy's books: at most 64 bytes per block of the cache, however long it runs.

use std::collections::HashMap;
use std::time::Duration;

use reelway_cache::{BlockId, Film, Slot, Spec};
use reelway_sys::alloc::Counting;

/// Blocks of the cache.
const BLOCKS: u32 = 20_000;
/// Blocks of the only film.
const FILM: u32 = 1_000_000;
const MOST: i64 = 64;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new("books");

/// The most bytes that a policy holds while many more blocks are requested than it has room for.
fn bytes(name: &str) -> i64 {
    let spec: Spec = name.parse().expect("a policy");
    // The test's own tables, which do not grow.
    let mut slots: HashMap<BlockId, Slot> = HashMap::with_capacity(2 * BLOCKS as usize);
    let mut held = vec![BlockId { film: 0, block: 0 }; BLOCKS as usize];
    let mut free: Vec<Slot> = (0..BLOCKS).collect();
    let before = ALLOCATOR.bytes();

    let mut policy = spec.build(BLOCKS.into(), BLOCKS as usize);
    let shape = Film {
        blocks: FILM,
        duration: Duration::from_secs(FILM.into()),
    };
    policy.film(0, shape, Duration::ZERO);
    let (mut random, mut most) = (1_u64, 0);
    for step in 0..10 * u64::from(BLOCKS) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // Two thirds of the requests are for as many blocks as the cache holds.
        let among = if step % 3 == 0 { FILM } else { BLOCKS };
        let id = BlockId {
            film: 0,
            block: (random >> 33) as u32 % among,
        };
        let now = Duration::from_millis(step);
        let slot = slots.get(&id).copied();
        if let Some(slot) = slot {
            policy.hit(slot, now);
        }
        let weight = u32::from(slot.is_none());
        while free.len() < weight as usize || policy.crowded(weight) {
            let gone = policy.victim(id, &mut |_| true, now).expect("a victim");
            slots.remove(&held[gone as usize]);
            free.push(gone);
        }
        if slot.is_none() {
            let slot = free.pop().expect("room");
            held[slot as usize] = id;
            slots.insert(id, slot);
            policy.insert(slot, id, 1, now);
        }
        most = most.max(ALLOCATOR.bytes() - before);
    }
    most
}

#[test]
fn no_policy_takes_more_than_64_bytes_a_block() {
    let all = || {
        for name in Spec::NAMES {
            let bytes = bytes(name);
            let each = bytes as f64 / f64::from(BLOCKS);
            println!("{name}: {each:.1} bytes a block");
            assert!(bytes > 0, "{name}: nothing was counted");
            assert!(
                bytes <= MOST * i64::from(BLOCKS),
                "{name}: {each:.1} bytes a block"
            );
        }
    };
    let thread = std::thread::Builder::new().name("books".into());
    let thread = thread.spawn(all).expect("a thread");
    assert!(thread.join().is_ok());
}

//! The pool's behaviour, step by step.

use std::sync::Arc;

use reelway_pool::{Ahead, Failure, Given, Source};

use super::world::{Film, Owner};

fn answered(owner: &Owner) -> Vec<u64> {
    owner.answers.keys().copied().collect()
}

#[test]
fn a_full_pool_serves_those_who_wait_in_order_of_deadline() {
    let mut owner = Owner::new(8, "lru", None);
    let disk = owner.pool.add_queue(3, false);
    let film = owner.film(1, disk);
    for block in 0..8 {
        owner.fetch(block, film, block as u32..block as u32 + 1, 0);
    }
    owner.read_all();
    for (tag, block, deadline) in [(20, 20, 300), (21, 21, 100), (22, 22, 200)] {
        owner.fetch(tag, film, block..block + 1, deadline);
    }
    assert_eq!((owner.pool.waiting(), answered(&owner).len()), (3, 8));
    // Cached blocks are still available at once.
    owner.fetch(30, film, 3..4, 400);
    assert!(owner.answers[&30].is_ok());
    owner.order.clear();
    for tag in 0..3 {
        owner.let_go(tag);
        owner.read_all();
    }
    assert_eq!(owner.order, [21, 22, 20]);
    assert_eq!(owner.pool.waiting(), 0);
}

#[test]
fn the_policy_chooses_the_victim_among_those_that_nobody_uses() {
    for (policy, kept) in [("lru", true), ("fifo", false), ("lfu", true), ("ons", true)] {
        let mut owner = Owner::new(8, policy, None);
        let disk = owner.pool.add_queue(3, false);
        let film = owner.film(1, disk);
        (0..8).for_each(|block| owner.touch(film, block..block + 1));
        owner.touch(film, 0..1);
        owner.touch(film, 9..10);
        let blocks = owner.pool.blocks_of(film.number);
        assert_eq!(blocks.contains(&0), kept, "{policy}");
    }
    let mut owner = Owner::new(8, "lru", None);
    let disk = owner.pool.add_queue(3, false);
    let film = owner.film(1, disk);
    (0..8).for_each(|block| owner.touch(film, block..block + 1));
    owner.fetch(0, film, 0..7, 0);
    (20..40).for_each(|block| owner.touch(film, block..block + 1));
    assert_eq!(
        owner.pool.blocks_of(film.number),
        [0, 1, 2, 3, 4, 5, 6, 39],
        "seven are used"
    );
}

#[test]
fn reads_begin_by_deadline_and_a_block_that_many_want_is_read_once_and_by_the_earliest() {
    let mut owner = Owner::new(16, "lru", None);
    let disk = owner.pool.add_queue(1, false);
    let film = owner.film(1, disk);
    for (tag, block, deadline) in [(0, 0, 50), (1, 1, 40), (2, 2, 30), (3, 3, 20), (4, 1, 10)] {
        owner.fetch(tag, film, block..block + 1, deadline);
    }
    assert_eq!(owner.pool.queue(disk), (1, 3));
    owner.read_all();
    let started: Vec<u32> = owner.started.iter().map(|id| id.block).collect();
    assert_eq!(started, [0, 1, 3, 2], "the first had begun already");
    assert_eq!(owner.order, [0, 1, 4, 3, 2]);
    let counters = owner.pool.counters();
    assert_eq!((counters.misses, counters.hits), (4, 1));
}

#[test]
fn a_request_waits_for_all_its_blocks_and_fails_with_the_first_that_does() {
    let mut owner = Owner::new(8, "lru", None);
    let disk = owner.pool.add_queue(8, false);
    let film = owner.film(1, disk);
    owner.fetch(0, film, 0..2, 0);
    owner.fetch(1, film, 1..3, 0);
    owner.read(0, Ok(10));
    owner.read(0, Err("broken"));
    assert_eq!(answered(&owner), [0, 1]);
    for answer in owner.answers.values() {
        assert!(matches!(answer, Err(Failure::Read("broken"))));
    }
    owner.read(0, Ok(5));
    let (census, counters) = (owner.pool.census(), owner.pool.counters());
    assert_eq!((census.cached, census.in_use()), (2, 0));
    assert_eq!((counters.errors, counters.bytes_read), (1, 15));
}

#[test]
fn a_read_that_loses_its_memory_is_told_to_those_who_wait_for_it() {
    let mut owner = Owner::new(8, "lru", None);
    let disk = owner.pool.add_queue(8, false);
    let film = owner.film(1, disk);
    owner.fetch(0, film, 0..1, 0);
    owner.reads[0].memory = None;
    owner.read(0, Ok(10));
    assert!(matches!(owner.answers[&0], Err(Failure::Closed)));
    let census = owner.pool.census();
    assert_eq!((census.lost, census.in_use()), (1, 0));
    owner.fetch(1, film, 0..1, 0);
    owner.read_all();
    assert!(owner.answers[&1].is_ok(), "the next read is another one");
}

#[test]
fn a_block_that_nobody_wants_any_more_makes_room_as_soon_as_it_comes() {
    let mut owner = Owner::new(2, "lru", None);
    let disk = owner.pool.add_queue(2, false);
    let film = owner.film(1, disk);
    owner.fetch(0, film, 0..2, 0);
    owner.allocate(1, 1, 5);
    owner.allocate(2, 1, 6);
    owner.read(0, Err("broken"));
    assert_eq!(answered(&owner), [0, 1]);
    owner.read(0, Ok(1));
    assert_eq!(answered(&owner), [0, 1, 2]);
}

#[test]
fn a_place_afar_that_stalls_leaves_half_of_the_pool_to_others() {
    let mut owner = Owner::new(16, "lru", None);
    let (disk, origin) = (
        owner.pool.add_queue(3, false),
        owner.pool.add_queue(2, true),
    );
    let (here, afar) = (owner.film(1, disk), owner.film(2, origin));
    // More than the pool can hold, and more urgent than the others.
    for n in 0..40 {
        owner.fetch(u64::from(n), afar, n..n + 1, u64::from(n));
    }
    assert_eq!(
        (owner.pool.census().in_use(), owner.pool.waiting()),
        (8, 32)
    );
    for n in 0..21 {
        let tag = 100 + u64::from(n);
        owner.fetch(tag, here, n * 3..n * 3 + 3, 1000);
        while let Some(nth) = owner.reads.iter().position(|read| read.queue == disk) {
            owner.read(nth, Ok(1));
        }
        owner.let_go(tag);
    }
    assert_eq!(owner.pool.waiting(), 32);
    // When the place recovers, all requests are answered in order.
    owner.order.clear();
    for tag in 0..40 {
        owner.read(0, Ok(1));
        owner.let_go(tag);
    }
    assert_eq!(owner.order, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_request_from_afar_that_needs_more_than_is_left_of_its_part_holds_up_nobody_else() {
    let mut owner = Owner::new(16, "lru", None);
    let (disk, origin) = (
        owner.pool.add_queue(3, false),
        owner.pool.add_queue(2, true),
    );
    let (here, afar) = (owner.film(1, disk), owner.film(2, origin));
    for n in 0..3 {
        owner.fetch(u64::from(n), afar, n * 3..n * 3 + 3, 1);
    }
    assert_eq!(owner.pool.waiting(), 1, "two of eight are left of its part");
    owner.fetch(9, here, 0..1, 5);
    assert_eq!(owner.pool.waiting(), 1);
    assert!(owner.reads.iter().any(|read| read.queue == disk));
}

#[test]
fn what_is_near_may_have_the_whole_pool() {
    let mut owner = Owner::new(8, "lru", None);
    let disk = owner.pool.add_queue(1, false);
    let film = owner.film(1, disk);
    owner.fetch(0, film, 0..3, 0);
    owner.fetch(1, film, 3..8, 0);
    assert_eq!((owner.pool.census().reading, owner.pool.waiting()), (8, 0));
}

#[test]
fn what_is_in_memory_is_had_at_once_even_of_a_place_afar_whose_part_is_taken() {
    let mut owner = Owner::new(8, "lru", None);
    let origin = owner.pool.add_queue(1, true);
    let film = owner.film(1, origin);
    owner.touch(film, 0..1);
    for n in 1..6 {
        owner.fetch(u64::from(n), film, n..n + 1, 0);
    }
    assert_eq!((owner.pool.census().reading, owner.pool.waiting()), (4, 1));
    owner.fetch(9, film, 0..1, 1);
    assert_eq!(answered(&owner), [9]);
}

#[test]
fn a_newcomer_who_takes_the_part_of_the_first_in_line_lets_those_behind_it_go_on() {
    let mut owner = Owner::new(16, "lru", None);
    let (disk, origin) = (
        owner.pool.add_queue(3, false),
        owner.pool.add_queue(3, true),
    );
    let (here, afar) = (owner.film(1, disk), owner.film(2, origin));
    // Four blocks are free; three of the eight in the remote part are taken.
    owner.allocate(0, 9, 0);
    owner.fetch(1, afar, 0..3, 0);
    // The first in line needs five blocks of both, and the next one waits behind it.
    owner.fetch(2, afar, 10..15, 50);
    owner.fetch(3, here, 0..1, 60);
    assert_eq!(owner.pool.waiting(), 2);
    assert!(owner.reads.iter().all(|read| read.queue == origin));
    // This one leaves only four blocks of the part.
    owner.fetch(4, afar, 20..21, 40);
    assert_eq!(owner.pool.waiting(), 1);
    assert!(owner.reads.iter().any(|read| read.queue == disk));
}

#[test]
fn later_requests_for_one_block_do_not_keep_a_place_afar_from_one_for_many() {
    let mut owner = Owner::new(16, "lru", None);
    let origin = owner.pool.add_queue(3, true);
    let afar = owner.film(1, origin);
    // At most eight blocks may be read from there at once.
    owner.fetch(0, afar, 0..4, 0);
    owner.fetch(1, afar, 10..16, 10);
    owner.fetch(2, afar, 20..21, 20);
    assert_eq!(
        owner.pool.waiting(),
        2,
        "one would fit, but it is not its turn"
    );
    owner.fetch(3, afar, 30..31, 5);
    assert_eq!(owner.pool.waiting(), 2, "this one is more urgent");
    owner.read_all();
    assert_eq!(answered(&owner), [0, 1, 2, 3]);
}

#[test]
fn a_pool_that_is_closed_answers_all_and_its_memory_comes_back() {
    let mut owner = Owner::new(4, "lru", None);
    let (disk, origin) = (
        owner.pool.add_queue(1, false),
        owner.pool.add_queue(1, true),
    );
    let (here, afar) = (owner.film(1, disk), owner.film(2, origin));
    owner.fetch(0, here, 0..2, 3);
    owner.fetch(1, afar, 0..2, 2);
    owner.fetch(2, afar, 2..4, 1);
    owner.allocate(3, 1, 0);
    assert_eq!((answered(&owner).len(), owner.pool.waiting()), (0, 2));
    owner.with_pool(|pool, _, finished| pool.close(finished));
    assert_eq!(answered(&owner), [0, 1, 2, 3]);
    owner.allocate(4, 1, 0);
    for answer in owner.answers.values() {
        assert!(matches!(answer, Err(Failure::Closed)));
    }
    assert_eq!(owner.reads.len(), 2, "they are under way all the same");
    owner.read_all();
    let census = owner.pool.census();
    assert_eq!((census.in_use(), census.free + census.cached), (0, 4));
}

#[test]
fn the_blocks_of_a_film_that_is_no_more_are_dropped_unless_they_are_used() {
    let mut owner = Owner::new(16, "lru", None);
    let disk = owner.pool.add_queue(4, false);
    let (old, other) = (owner.film(1, disk), owner.film(2, disk));
    owner.touch(old, 0..3);
    owner.fetch(0, old, 3..4, 0);
    owner.read_all();
    owner.touch(other, 0..3);
    let freed = owner.with_pool(|pool, now, _| pool.forget(1, now));
    assert_eq!(freed, 3);
    assert_eq!(owner.pool.blocks_of(old.number), [3]);
    assert_eq!(owner.pool.blocks_of(other.number), [0, 1, 2]);
    assert_eq!(owner.pool.film(1), Some(old.number));
    assert_eq!(owner.with_pool(|pool, now, _| pool.forget(7, now)), 0);
}

#[test]
fn a_film_s_number_is_used_again_when_none_of_its_blocks_is_held_or_on_its_way() {
    // What becomes of the first film's block, and whether its number is free afterwards.
    type End = fn(&mut Owner);
    let ends: [(End, bool); 6] = [
        (|_| (), false),
        (|owner| owner.read_all(), false),
        (|owner| owner.read(0, Err("broken")), true),
        (
            |owner| {
                owner.reads[0].memory = None;
                owner.read(0, Ok(1));
            },
            true,
        ),
        (
            |owner| {
                owner.read_all();
                owner.let_go(0);
                owner.pool.forget(0, owner.now);
            },
            true,
        ),
        (
            |owner| {
                owner.read_all();
                owner.let_go(0);
                owner.allocate(1, 8, 0);
            },
            true,
        ),
    ];
    for (nth, (end, free)) in ends.into_iter().enumerate() {
        let mut owner = Owner::new(8, "lru", None);
        let disk = owner.pool.add_queue(1, false);
        let film = owner.film(0, disk);
        owner.fetch(0, film, 0..1, 0);
        owner.pool.close_film(film.number);
        end(&mut owner);
        // More films than are remembered.
        let again = (1..5000).any(|file| {
            let other = owner.film(file, disk).number;
            owner.pool.close_film(other);
            other == film.number
        });
        assert_eq!(again, free, "end {nth}");
    }
    // A read that had not started when the pool was closed.
    let mut owner = Owner::new(8, "lru", None);
    let disk = owner.pool.add_queue(1, false);
    let (film, other) = (owner.film(0, disk), owner.film(1, disk));
    owner.fetch(0, other, 0..1, 0);
    owner.fetch(1, film, 0..1, 0);
    owner.pool.close_film(film.number);
    owner.with_pool(|pool, _, finished| pool.close(finished));
    let again = (2..5000).any(|file| {
        let other = owner.film(file, disk).number;
        owner.pool.close_film(other);
        other == film.number
    });
    assert!(again);
}

#[test]
fn memory_is_made_ready_before_it_is_used() {
    let ahead = Ahead::of(160, 1 << 20).expect("a pool of 160 MiB");
    assert_eq!((ahead.least, ahead.at_once), (64, 2));
    assert!(Ahead::of(2, 1 << 20).is_none() && Ahead::of(8, 4096).is_none());
    let mut owner = Owner::new(160, "lru", Some(ahead));
    let mut enough = Vec::new();
    loop {
        let blocks = owner.pool.take_unready();
        if blocks.is_empty() {
            break;
        }
        assert_eq!(blocks.len(), 2);
        owner.with_pool(|pool, now, finished| {
            let is_enough = pool.are_ready(blocks, now, finished);
            enough.push((pool.census().ready(), is_enough));
        });
    }
    let expected: Vec<(usize, bool)> = (1..=80).map(|n| (2 * n, 2 * n >= 64)).collect();
    assert_eq!(enough, expected);
    // A read takes unprepared memory only if there is no other, and waits for memory that is being
    // made ready.
    let mut owner = Owner::new(
        4,
        "lru",
        Some(Ahead {
            least: 2,
            at_once: 2,
        }),
    );
    let disk = owner.pool.add_queue(1, false);
    let film = owner.film(1, disk);
    owner.touch(film, 0..2);
    let blocks = owner.pool.take_unready();
    owner.allocate(0, 2, 0);
    let census = owner.pool.census();
    assert_eq!((owner.pool.waiting(), census.preparing), (1, 2));
    assert_eq!(census.cached, 2, "nothing is forgotten for it");
    owner.with_pool(|pool, now, finished| pool.are_ready(blocks, now, finished));
    assert!(matches!(&owner.answers[&0], Ok(Given::Empty(blocks)) if blocks.len() == 2));
}

#[test]
fn those_who_observe_see_every_block_that_is_asked_for() {
    let mut owner = Owner::new(8, "lru", None);
    let disk = owner.pool.add_queue(4, false);
    let film = owner.film(1, disk);
    owner.touch(film, 0..1);
    assert!(owner.pool.take_accesses().is_empty());
    owner.pool.observe();
    owner.touch(film, 0..3);
    owner.touch(film, 2..3);
    let accesses = owner.pool.take_accesses();
    let seen: Vec<_> = accesses.iter().map(|(id, hit)| (id.block, *hit)).collect();
    assert_eq!(seen, [(0, true), (1, false), (2, false), (2, true)]);
}

#[test]
fn a_shared_source_is_the_source_that_is_shared() {
    let film = Film {
        number: 5,
        queue: 3,
        tier: Some(4),
    };
    let shared = Arc::new(film);
    assert_eq!((shared.number(), Source::queue(&shared)), (5, 3));
    assert_eq!((shared.queue_of(6), shared.queue_of(7)), (4, 3));
}

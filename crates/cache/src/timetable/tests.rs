//! Which blocks Timetable evicts, and how close it comes to the optimum.

use std::time::Duration;

use proptest::prelude::*;

use super::Timetable;
use crate::sim::{Workload, belady, run};
use crate::{BlockId, Film, Policy, Spec, Watching};

const FILM: Film = Film {
    blocks: 100,
    duration: Duration::from_secs(1000),
};

fn at(block: u32) -> Watching {
    Watching {
        film: 0,
        block,
        speed: 1.0,
    }
}

/// Blocks 0 to 99 of a film in slots with the same numbers.
fn whole_film() -> Timetable {
    let mut policy = Timetable::new(100);
    policy.film(0, FILM, Duration::ZERO);
    // A viewer requests them: blocks without a known viewer would each count as a visit.
    policy.watch(9, at(0), Duration::ZERO);
    for block in 0..100 {
        policy.insert(block, BlockId { film: 0, block }, 1, Duration::ZERO);
    }
    policy.left(9, Duration::ZERO);
    policy
}

fn victim(policy: &mut Timetable) -> Option<u32> {
    let incoming = BlockId { film: 1, block: 0 };
    policy.victim(incoming, &mut |_| true, Duration::from_secs(601))
}

#[test]
fn what_nobody_is_behind_goes_first_then_what_the_nearest_viewer_reaches_last() {
    let mut policy = whole_film();
    policy.watch(2, at(0), Duration::ZERO);
    policy.watch(2, at(60), Duration::from_secs(600));
    policy.watch(1, at(0), Duration::from_secs(600));
    // Viewer 1 is 600 seconds from block 60, viewer 2 only 390 from the film's end.
    assert_eq!(victim(&mut policy), Some(60));
    assert_eq!(victim(&mut policy), Some(59));
    policy.left(2, Duration::from_secs(601));
    // Now nobody is nearer to the end than viewer 1.
    assert_eq!(victim(&mut policy), Some(99));
}

#[test]
fn a_seek_back_keeps_what_lies_before_the_viewer() {
    let mut policy = whole_film();
    policy.watch(1, at(90), Duration::ZERO);
    policy.watch(1, at(10), Duration::from_secs(1));
    assert_eq!(victim(&mut policy), Some(99));
}

#[test]
fn a_jump_is_a_seek_if_playing_on_and_reading_ahead_do_not_explain_it() {
    // 30 s of film ahead, more at a higher speed, and at least four blocks; ten seconds have
    // passed.
    for (block_seconds, speed, to, is_seek) in [
        (1.0, 1.0, 100, false),
        (1.0, 1.0, 99, true),
        (1.0, 1.0, 140, false),
        (1.0, 1.0, 141, true),
        (1.0, 0.5, 135, false),
        (1.0, 0.5, 136, true),
        (1.0, 8.0, 420, false),
        (1.0, 8.0, 421, true),
        (10.0, 1.0, 105, false),
        (10.0, 1.0, 106, true),
        (1.0, -2.0, 100, false),
        (1.0, -2.0, 101, true),
        (1.0, -2.0, 20, false),
        (1.0, -2.0, 19, true),
    ] {
        let mut film = super::film::Film::new(&super::habits::Habits::new(0.0), 0.0);
        film.block_seconds = block_seconds;
        let front = super::film::Front { since: 50.0, speed };
        assert_eq!(
            Timetable::is_seek(&film, 100, front, to, 60.0),
            is_seek,
            "to {to} at {speed}, blocks of {block_seconds} s"
        );
    }
}

#[test]
fn of_films_whose_viewers_are_unknown_the_one_that_is_read_more_stays() {
    let seconds = Duration::from_secs;
    for (kept, other) in [(0, 1), (1, 0)] {
        let mut policy = Timetable::new(2);
        for film in 0..2 {
            policy.insert(film, BlockId { film, block: 0 }, 1, seconds(0));
        }
        for nth in 1..10 {
            policy.hit(kept, seconds(nth));
        }
        let incoming = BlockId { film: 2, block: 0 };
        let victim = policy.victim(incoming, &mut |_| true, seconds(10));
        assert_eq!(victim, Some(other));
    }
}

#[test]
fn someone_unknown_who_reads_a_whole_film_has_come_to_it_once() {
    let mut policy = Timetable::new(2000);
    let (often, whole) = (0, 1);
    let mut now = 0;
    let mut insert = |policy: &mut Timetable, film, block, slot| {
        policy.insert(slot, BlockId { film, block }, 1, Duration::from_secs(now));
        now += 1;
    };
    // All of one film is read, several blocks at once; another film is begun three times.
    for block in 0..1000 {
        insert(&mut policy, whole, block ^ 3, block);
    }
    insert(&mut policy, often, 0, 1000);
    now = 2000;
    for nth in 0..3 {
        policy.hit(1000, Duration::from_secs(now + 100 * nth));
    }
    let incoming = BlockId { film: 2, block: 0 };
    let victim = policy.victim(incoming, &mut |_| true, Duration::from_secs(2400));
    assert_ne!(victim, Some(1000));
}

#[test]
fn every_block_leaves_once_whatever_viewers_do() {
    let mut policy = whole_film();
    for (viewer, block) in [(1, 5), (2, 50), (3, 50), (1, 51), (3, 2), (2, 99)] {
        policy.watch(viewer, at(block), Duration::from_secs(1));
    }
    policy.left(3, Duration::from_secs(1));
    let mut all: Vec<u32> = std::iter::from_fn(|| victim(&mut policy)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

#[test]
fn it_misses_little_more_than_the_optimum_and_far_less_than_lru() {
    let workload = Workload {
        films: 50,
        arrivals: 0.05,
        block: 16 << 20,
        duration: Duration::from_secs(24 * 3600),
        warmup: Duration::from_secs(12 * 3600),
        ..Workload::default()
    };
    let requests = workload.make().expect("a workload");
    let capacity = requests.objects() as u64 / 20;
    let misses = |name: &str| {
        let spec: Spec = name.parse().expect("a policy");
        let mut policy = spec.build(capacity, capacity as usize);
        run(&requests, &mut *policy, capacity, true).misses as f64
    };
    let best = belady(&requests, capacity, true).misses as f64;
    assert!(best > 0.0);
    let (timetable, lru) = (misses("timetable"), misses("lru"));
    assert!(
        timetable >= best && lru >= best,
        "nothing beats the optimum"
    );
    assert!(timetable / best < 1.05, "{}", timetable / best);
    assert!(lru / best > 1.2, "{}", lru / best);
}

/// The next action of viewers.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A viewer begins a film.
    Begin(u32),
    /// All play on for this many blocks.
    Play(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0..4u32).prop_map(Step::Begin),
        2 => (1..20u32).prop_map(Step::Play),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// The model asks every block how long it waits; the policy finds the longest wait in its
    /// queue. All viewers watch to the end: where viewers leave or seek, what is learned changes
    /// waits between two looks at an entry, and the victim's wait is only nearly the longest.
    #[test]
    fn the_victim_waits_as_long_as_any_block(steps in steps(), capacity in 10..120u32) {
        let mut policy = Timetable::told(capacity as usize, &[1e-3, 3e-4, 1e-4, 1e-5]);
        let mut now = 0u64;
        let mut viewers: Vec<(u64, BlockId)> = Vec::new();
        let mut held: Vec<BlockId> = Vec::new();
        for film in 0..4 {
            policy.film(film, FILM, Duration::ZERO);
        }
        for (number, step) in steps.into_iter().enumerate() {
            let blocks = match step {
                Step::Play(blocks) => blocks,
                Step::Begin(film) => {
                    viewers.push((number as u64, BlockId { film, block: 0 }));
                    0
                }
            };
            for _ in 0..blocks {
                now += 10;
                let time = Duration::from_secs(now);
                for (viewer, id) in &mut viewers {
                    let watching = Watching { film: id.film, block: id.block, speed: 1.0 };
                    policy.watch(*viewer, watching, time);
                    if let Some(slot) = held.iter().position(|other| other == id) {
                        policy.hit(slot as u32, time);
                    } else {
                        let slot = if held.len() < capacity as usize {
                            held.push(*id);
                            held.len() - 1
                        } else {
                            let wait = |id: &BlockId| policy.wait(id.film, id.block, now as f64);
                            let waits: Vec<f64> = held.iter().map(wait).collect();
                            let longest = waits.iter().copied().fold(0.0, f64::max);
                            let victim = policy.victim(*id, &mut |_| true, time);
                            let slot = victim.expect("a victim") as usize;
                            prop_assert!(waits[slot] >= 0.999 * longest, "{} of {}", waits[slot], longest);
                            held[slot] = *id;
                            slot
                        };
                        policy.insert(slot as u32, *id, 1, time);
                    }
                    id.block += 1;
                }
                let over = |viewer: &(u64, BlockId)| viewer.1.block >= FILM.blocks;
                viewers.iter().filter(|viewer| over(viewer)).for_each(|(viewer, _)| policy.left(*viewer, time));
                viewers.retain(|viewer| !over(viewer));
            }
        }
    }
}

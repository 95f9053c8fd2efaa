//! What Timetable throws out, and how near to the optimum it comes.

use std::time::Duration;

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

/// Blocks 0 to 99 of a film in the slots of the same numbers.
fn whole_film() -> Timetable {
    let mut policy = Timetable::new(100);
    policy.film(0, FILM, Duration::ZERO);
    // Someone asks for them: blocks nobody is known to watch count as so many visits.
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
    // Nobody is nearer to the end now than viewer 1.
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

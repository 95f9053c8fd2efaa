//! The simulator: what a policy and the optimum miss, and the viewers it generates.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use reelway_cache::sim::{
    Event, Outcome, Requests, Workload, WorkloadError, belady, bound, read_csv, run, told,
};
use reelway_cache::{BlockId, Spec};

fn requests(csv: &str) -> Requests {
    read_csv(csv.as_bytes()).expect("a trace")
}

fn lru(requests: &Requests, capacity: u64, unit: bool) -> Outcome {
    let spec: Spec = "lru".parse().expect("a policy");
    run(requests, &mut *spec.build(capacity, 4), capacity, unit)
}

#[test]
fn requests_and_bytes_are_counted_from_the_first_that_is_not_for_training() {
    // Objects 1, 2, 3 of 10, 20 and 30 bytes; the first two requests train.
    let requests = requests("1,1,10\n2,2,20\n# warm\n3,1,10\n4,3,30\n5,2,20\n6,3,30\n");
    // Two of them fit: 1 and 2, then 3 for 2, then 2 for 1.
    let outcome = Outcome {
        requests: 4,
        misses: 2,
        bytes: 90,
        missed_bytes: 50,
    };
    assert_eq!(lru(&requests, 2, true), outcome);
    // 40 bytes: 1 and 2, then 3 for 2, then 2 for both, then 3 for 2.
    let outcome = Outcome {
        misses: 3,
        missed_bytes: 80,
        ..outcome
    };
    assert_eq!(lru(&requests, 40, false), outcome);
    // The optimum keeps 2 and 3 in the end.
    assert_eq!(belady(&requests, 2, true).misses, 1);
    assert_eq!(belady(&requests, 2, true).missed_bytes, 30);
}

#[test]
fn an_object_larger_than_the_cache_is_a_miss_that_changes_nothing() {
    let requests = requests("1,1,10\n2,2,41\n3,1,10\n4,3,40\n5,1,10\n");
    for outcome in [lru(&requests, 40, false), belady(&requests, 40, false)] {
        assert_eq!((outcome.requests, outcome.misses), (5, 4));
    }
}

#[test]
fn blocks_alone_are_objects_in_the_order_of_their_first_use() {
    let block = |film, block| BlockId { film, block };
    let blocks = [block(7, 1), block(3, 9), block(7, 1), block(7, 2)];
    let requests = Requests::of_blocks(blocks, 1);
    assert_eq!(
        (requests.objects(), requests.catalogue, requests.warm),
        (3, 3, 1)
    );
    let objects: Vec<u32> = requests
        .events
        .iter()
        .map(|event| match event {
            Event::Use { object, .. } => *object,
            Event::Left { .. } => panic!("nobody leaves"),
        })
        .collect();
    assert_eq!(objects, [0, 1, 0, 2]);
    assert_eq!(requests.one_size(), Some(1));
    assert_eq!(self::requests("1,1,10\n2,1,11\n").one_size(), None);
}

#[test]
fn an_object_is_a_block_of_the_film_it_was_declared_in() {
    let requests = requests("# film 3 30\n# film 1 10\n# film 2 20\n1,0,5\n");
    let id = |object| {
        let BlockId { film, block } = requests.id(object);
        (film, block)
    };
    let ids: Vec<_> = (0..6).map(id).collect();
    assert_eq!(ids, [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]);
    assert_eq!((requests.objects(), requests.catalogue), (6, 30));
}

/// The fewest misses over all choices of victims, found by trying them all.
fn fewest(blocks: &[u32], capacity: usize) -> u64 {
    // Misses so far for each set of blocks that the cache may hold.
    let mut states: BTreeMap<Vec<u32>, u64> = BTreeMap::from([(Vec::new(), 0)]);
    for block in blocks {
        let mut next: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        let mut reach = |held: Vec<u32>, misses: u64| {
            let known = next.entry(held).or_insert(u64::MAX);
            *known = (*known).min(misses);
        };
        for (held, misses) in states {
            if held.contains(block) {
                reach(held, misses);
                continue;
            }
            let with = |mut held: Vec<u32>| {
                held.push(*block);
                held.sort_unstable();
                held
            };
            if held.len() < capacity {
                reach(with(held), misses + 1);
                continue;
            }
            for gone in 0..held.len() {
                let mut held = held.clone();
                held.remove(gone);
                reach(with(held), misses + 1);
            }
        }
        states = next;
    }
    states.into_values().min().expect("a way")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_optimum_is_the_best_of_all_choices(
        blocks in prop::collection::vec(0..6u32, 1..40),
        capacity in 1..5usize,
    ) {
        let ids = blocks.iter().map(|block| BlockId { film: 0, block: *block });
        let requests = Requests::of_blocks(ids, 0);
        let outcome = belady(&requests, capacity as u64, true);
        prop_assert_eq!(outcome.misses, fewest(&blocks, capacity));
    }
}

/// A day of viewers of 20 films.
fn workload() -> Workload {
    Workload {
        films: 20,
        block: 16 << 20,
        arrivals: 0.02,
        duration: Duration::from_secs(86_400),
        warmup: Duration::from_secs(43_200),
        ..Workload::default()
    }
}

/// The uses of each viewer: time, block and speed.
fn viewers(requests: &Requests) -> BTreeMap<u32, Vec<(u64, BlockId, i16)>> {
    let mut viewers: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for event in &requests.events {
        if let Event::Use {
            at,
            object,
            viewer,
            speed,
            ..
        } = *event
        {
            let uses = viewers.entry(viewer).or_default();
            uses.push((at, requests.id(object), speed));
        }
    }
    viewers
}

/// The viewers who stayed until they had played what they wanted.
fn who_left(requests: &Requests) -> HashSet<u32> {
    let left = requests.events.iter().filter_map(|event| match event {
        Event::Left { viewer, .. } => Some(*viewer),
        Event::Use { .. } => None,
    });
    left.collect()
}

#[test]
fn viewers_come_at_their_rate_and_films_have_their_lengths() {
    let workload = workload();
    let requests = workload.make().expect("a workload");
    // 1728 are expected, give or take 42 (one standard deviation).
    let count = viewers(&requests).len();
    assert!((1560..1900).contains(&count), "{count} viewers");
    assert_eq!(requests.films.len(), 20);
    let block = 16.0 * 1024.0 * 1024.0 / 500_000.0;
    for film in &requests.films {
        let seconds = film.duration.as_secs_f64();
        assert!((4800.0..7800.0 + block).contains(&seconds), "{seconds} s");
        assert!((seconds - f64::from(film.blocks) * block).abs() < 1e-3);
    }
    let blocks: u32 = requests.films.iter().map(|film| film.blocks).sum();
    assert_eq!(requests.catalogue, u64::from(blocks) << 24);
    let mut times = requests.events.iter().map(Event::at);
    assert!(
        times
            .clone()
            .zip(times.clone().skip(1))
            .all(|(a, b)| a <= b)
    );
    assert!(times.all(|at| at < 86_400_000));
    let warm = requests.events[requests.warm].at();
    let before = requests.events[requests.warm - 1].at();
    assert!(before < 43_200_000 && warm >= 43_200_000, "{before} {warm}");
}

#[test]
fn films_are_begun_by_zipf_s_law() {
    let requests = Workload {
        zipf: 1.0,
        arrivals: 0.2,
        ..workload()
    }
    .make()
    .expect("a workload");
    let mut begun = [0.0; 20];
    for uses in viewers(&requests).values() {
        begun[uses[0].1.film as usize] += 1.0;
    }
    // The harmonic number of 20 is 3.5977; 17,280 viewers are expected.
    let all: f64 = begun.iter().sum();
    for (rank, begun) in (1..).zip(begun) {
        let expected = all / 3.5977 / f64::from(rank);
        let off = (begun - expected).abs();
        assert!(
            off < 5.0 * expected.sqrt(),
            "rank {rank}: {begun}, not {expected}"
        );
        let rate = requests.rates[rank as usize - 1];
        assert!((rate - 0.2 / 3.5977 / f64::from(rank)).abs() < 1e-5);
    }
}

#[test]
fn a_viewer_who_neither_seeks_nor_leaves_watches_every_block_in_its_time() {
    let requests = workload().make().expect("a workload");
    let left = who_left(&requests);
    assert!(left.len() > 1000);
    for (viewer, uses) in viewers(&requests) {
        let film = uses[0].1.film;
        for (nth, (at, id, speed)) in uses.iter().enumerate() {
            assert_eq!((id.film, id.block, *speed), (film, nth as u32, 100));
            // 16 MiB at 500,000 bytes per second.
            let due = uses[0].0 as f64 + nth as f64 * 33_554.432;
            assert!((*at as f64 - due).abs() <= 2.0, "{at} ms");
        }
        let all = requests.films[film as usize].blocks as usize;
        assert_eq!(
            uses.len() == all,
            left.contains(&viewer) || uses.len() == all
        );
    }
}

#[test]
fn viewers_who_leave_early_do_so_anywhere_in_the_film() {
    let share = |leave| {
        let requests = Workload {
            leave,
            ..workload()
        }
        .make()
        .expect("a workload");
        let left = who_left(&requests);
        let mut early = 0.0;
        let mut seen = 0.0;
        for (_, uses) in viewers(&requests)
            .iter()
            .filter(|(viewer, _)| left.contains(viewer))
        {
            let blocks = f64::from(requests.films[uses[0].1.film as usize].blocks);
            let share = uses.len() as f64 / blocks;
            early += f64::from(u8::from(share < 1.0));
            seen += share;
        }
        (early / left.len() as f64, seen / left.len() as f64)
    };
    assert_eq!(share(0.0), (0.0, 1.0));
    let (early, seen) = share(0.3);
    assert!(
        (0.25..0.36).contains(&early) && (0.82..0.88).contains(&seen),
        "{early} {seen}"
    );
    let (early, seen) = share(1.0);
    assert!(
        early > 0.98 && (0.48..0.53).contains(&seen),
        "{early} {seen}"
    );
}

#[test]
fn viewers_seek_as_often_as_is_asked_for_and_to_anywhere() {
    let requests = Workload {
        seeks: 1.5,
        ..workload()
    }
    .make()
    .expect("a workload");
    let viewers = viewers(&requests);
    let (mut jumps, mut back) = (0.0, 0.0);
    for uses in viewers.values() {
        for two in uses.windows(2) {
            let (from, to) = (two[0].1.block, two[1].1.block);
            jumps += f64::from(u8::from(to != from + 1));
            back += f64::from(u8::from(to <= from));
        }
    }
    // Some seeks lie in a part that is skipped, and some viewers are still there at the end.
    let each = jumps / viewers.len() as f64;
    assert!((1.0..1.5).contains(&each), "{each} seeks a viewer");
    assert!(
        (0.3..0.7).contains(&(back / jumps)),
        "{back} of {jumps} back"
    );
}

#[test]
fn viewers_who_play_fast_do_so_for_a_tenth_of_the_film() {
    let requests = Workload {
        fast: 0.5,
        ..workload()
    }
    .make()
    .expect("a workload");
    let left = who_left(&requests);
    let mut fast = 0.0;
    for (_, uses) in viewers(&requests)
        .iter()
        .filter(|(viewer, _)| left.contains(viewer))
    {
        let blocks = requests.films[uses[0].1.film as usize].blocks;
        let speeds: Vec<_> = uses.iter().filter(|(.., speed)| *speed == 800).collect();
        fast += f64::from(u8::from(!speeds.is_empty()));
        assert!(speeds.len() as u32 <= blocks / 10);
        for two in uses.windows(2) {
            let took = two[1].0 - two[0].0;
            let usual = if two[0].2 == 800 { 4194 } else { 33_554 };
            assert!(
                (usual - 1..=usual + 2).contains(&took),
                "{took} ms at {}",
                two[0].2
            );
        }
    }
    let share = fast / left.len() as f64;
    assert!((0.45..0.55).contains(&share), "{share}");
}

#[test]
fn a_shuffle_gives_films_the_popularity_of_others() {
    let requests = Workload {
        zipf: 2.0,
        arrivals: 0.2,
        shuffle: Duration::from_secs(43_200),
        ..workload()
    }
    .make()
    .expect("a workload");
    assert_eq!(requests.rates, [], "nobody knows how often films are begun");
    assert!(told(&requests, 10).is_none());
    let mut halves = [[0; 20]; 2];
    for uses in viewers(&requests).values() {
        halves[usize::from(uses[0].0 >= 43_200_000)][uses[0].1.film as usize] += 1;
    }
    let first = |begun: [u32; 20]| (0..20).max_by_key(|film| begun[*film]).expect("a film");
    assert_eq!(first(halves[0]), 0);
    assert_ne!(first(halves[1]), 0);
    // With an exponent of 2, the first film has three of five viewers in either half.
    for begun in halves {
        let most = f64::from(begun[first(begun)]) / f64::from(begun.iter().sum::<u32>());
        assert!((0.58..0.68).contains(&most), "{most}");
    }
}

#[test]
fn the_same_seed_makes_the_same_requests_and_another_does_not() {
    let make = |seed| {
        Workload { seed, ..workload() }
            .make()
            .expect("a workload")
            .events
    };
    assert_eq!(make(5), make(5));
    assert_ne!(make(5), make(6));
}

#[test]
fn a_workload_keeps_to_its_bounds() {
    type Change = fn(&mut Workload);
    let what = |change: Change| {
        let mut workload = workload();
        change(&mut workload);
        match workload.make() {
            Ok(_) => None,
            Err(WorkloadError::Value { what, .. }) => Some(what),
            Err(WorkloadError::TooMany(_)) => Some("too many"),
        }
    };
    let changes: [(Change, Option<&str>); 32] = [
        (|it| it.films = 0, Some("films")),
        (|it| it.films = 1, None),
        (|it| it.films = 1_000_001, Some("films")),
        (|it| it.zipf = -0.1, Some("zipf")),
        (|it| it.zipf = 0.0, None),
        (|it| it.zipf = 5.0, None),
        (|it| it.zipf = 5.1, Some("zipf")),
        (|it| it.arrivals = 0.0, Some("arrivals")),
        (|it| it.arrivals = 1000.1, Some("arrivals")),
        (|it| it.arrivals = 1000.0, Some("too many")),
        (|it| it.leave = 1.1, Some("leave")),
        (|it| it.leave = 1.0, None),
        (|it| it.seeks = 20.1, Some("seeks")),
        (|it| it.seeks = 20.0, None),
        (|it| it.fast = -0.1, Some("fast-play")),
        (|it| it.fast = 1.0, None),
        (|it| it.block = 4095, Some("block")),
        (|it| it.block = 4096, Some("too many")),
        (|it| it.bytes_per_second = 999, Some("bitrate")),
        (|it| it.bytes_per_second = 1000, None),
        (|it| it.bytes_per_second = (1 << 30) + 1, Some("bitrate")),
        (
            |it| it.lengths.0 = Duration::from_millis(999),
            Some("lengths"),
        ),
        (|it| it.lengths.0 = Duration::from_secs(1), None),
        (|it| it.lengths.0 = it.lengths.1, None),
        (
            |it| it.lengths.0 = it.lengths.1 + Duration::from_secs(1),
            Some("lengths"),
        ),
        (
            |it| it.lengths.1 = Duration::from_secs(1_000_001),
            Some("lengths"),
        ),
        (|it| it.duration = it.warmup, Some("duration")),
        (|it| it.duration = it.warmup + Duration::from_secs(1), None),
        (
            |it| it.duration = Duration::from_secs(1 << 30),
            Some("duration"),
        ),
        (
            |it| it.duration = Duration::from_secs((1 << 30) - 1),
            Some("too many"),
        ),
        (
            |it| (it.films, it.block, it.arrivals) = (1_000_000, 500_000, 1e-9),
            Some("films"),
        ),
        (
            // 6300 blocks on average: 60 million requests for 9524 viewers; one more is too many.
            |it| {
                (it.bytes_per_second, it.block, it.arrivals) = (1 << 24, 1 << 24, 9525.0 / 86_400.0)
            },
            Some("too many"),
        ),
    ];
    for (nth, (change, expected)) in changes.into_iter().enumerate() {
        assert_eq!(what(change), expected, "change {nth}");
    }
}

/// A film of two blocks of 10 s, begun at these seconds; its known rate is one start in 100 s.
fn begun(starts: &[u32]) -> Requests {
    let mut lines: Vec<(u32, String)> = Vec::new();
    for (viewer, start) in (1..).zip(starts) {
        lines.push((*start, format!("{start},0,5,{viewer},1")));
        lines.push((start + 10, format!("{},1,5,{viewer},1", start + 10)));
    }
    lines.sort_by_key(|(at, _)| *at);
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let mut requests = requests(&format!("# film 2 20\n{}\n", lines.join("\n")));
    requests.rates = vec![0.01];
    requests
}

#[test]
fn the_bound_keeps_what_the_next_viewer_is_on_the_way_to_first() {
    // Used at 0, 5, 10 and 15 s: block 0 twice, block 1 twice.
    let two = begun(&[0, 5]);
    let bound = |requests: &Requests, capacity| bound(requests, capacity).expect("a bound");
    assert_eq!(bound(&two, 0).misses, 4);
    let all = bound(&two, 100);
    assert_eq!((all.requests, all.misses), (4, 2));
    assert_eq!((all.bytes, all.missed_bytes), (20, 10));
    // One block for 15 s. Block 1 waits 5 s for viewer 2, whose start at block 0 is unforeseen.
    assert!((2..=3).contains(&bound(&two, 1).misses));
    // Nobody is on the way: block 1 waits for 100 s and the way.
    let apart = begun(&[0, 30]);
    assert_eq!(bound(&apart, 0).misses, 4);
    // Uses before the counted ones are left out.
    let mut later = begun(&[0, 5]);
    later.warm = 2;
    assert_eq!(bound(&later, 100).requests, 2);
    assert_eq!(bound(&later, 0).misses, 2);
}

#[test]
fn there_is_no_bound_where_viewers_jump_or_nobody_knows_them() {
    assert!(bound(&begun(&[0, 5]), 1).is_some());
    let mut unknown = begun(&[0, 5]);
    unknown.rates.clear();
    assert_eq!(bound(&unknown, 1), None);
    for csv in [
        // From the middle; a jump; fast; no viewer; two sizes; a viewer leaving at once, or early.
        "1,1,5,1,1\n",
        "1,0,5,1,1\n2,2,5,1,1\n",
        "1,0,5,1,8\n",
        "1,0,5\n",
        "1,0,5,1,1\n2,1,6,1,1\n",
        "1,-,0,1\n2,0,5,2,1\n",
        "1,0,5,1,1\n2,-,0,1\n3,0,5,2,1\n",
    ] {
        let mut requests = requests(&format!("# film 3 30\n{csv}"));
        requests.rates = vec![0.01];
        assert_eq!(bound(&requests, 1), None, "{csv}");
    }
    let mut whole = requests("# film 3 30\n1,0,5,1,1\n2,1,5,1,1\n3,2,5,1,1\n4,-,0,1\n5,0,5,1,1\n");
    whole.rates = vec![0.01];
    assert!(
        bound(&whole, 1).is_some(),
        "the number is another viewer's then"
    );
}

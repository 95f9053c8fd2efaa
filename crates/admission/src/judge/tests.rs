//! Tests the judge against a naive one that looks at every second of every viewer.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const LINK: Resource = Resource::Network(0);

fn curve(seconds: &[u32]) -> Arc<Curve> {
    Arc::new(Curve::new(
        seconds.iter().flat_map(|need| [need / 4; 4]).collect(),
    ))
}

fn judge(policy: Policy, limit: u64) -> Admission {
    let capacity = Capacity::unlimited().with(LINK, limit, 1000);
    Admission::new(policy, capacity, Limits::default())
}

fn newcomer(needs: &[(Resource, Arc<Curve>)]) -> Newcomer<'_> {
    Newcomer {
        title: "film",
        address: [10, 0, 0, 1].into(),
        user: None,
        class: 0,
        fast: false,
        fetches: false,
        needs,
        later: None,
        from: 0,
        to: usize::MAX,
    }
}

#[test]
fn a_viewer_is_admitted_where_their_peaks_fall_into_the_others_valleys() {
    let needs = [(LINK, curve(&[40, 4, 4, 40, 4, 4, 40, 4, 4]))];
    let mut judge = judge(Policy::Exact, 50);
    assert!(judge.decide(0, &newcomer(&needs), 0).is_ok());
    let refused = judge.decide(0, &newcomer(&needs), 0).unwrap_err();
    assert_eq!(
        refused.reason,
        RefusedFor::Full {
            resource: LINK,
            ahead: 0,
            load: 40,
            need: 40,
            limit: 50
        }
    );
    assert_eq!(
        (refused.retry_after, refused.is_exact),
        (Duration::from_secs(1), true)
    );
    assert!(judge.decide(SECOND, &newcomer(&needs), 0).is_ok());
    assert!(judge.decide(2 * SECOND, &newcomer(&needs), 0).is_ok());
    // Three of them fill every second: the next could begin when the first has ended.
    let refused = judge.decide(3 * SECOND, &newcomer(&needs), 0).unwrap_err();
    assert_eq!(
        (refused.retry_after, refused.is_exact),
        (Duration::from_secs(6), true)
    );
}

#[test]
fn who_is_willing_to_wait_is_given_the_first_second_that_fits() {
    let needs = [(LINK, curve(&[40; 10]))];
    let mut judge = judge(Policy::Exact, 50);
    judge.decide(0, &newcomer(&needs), 0).unwrap();
    assert!(judge.decide(0, &newcomer(&needs), 9).is_err());
    let admitted = judge.decide(SECOND / 2, &newcomer(&needs), 10).unwrap();
    assert_eq!(admitted.starts_in, Duration::from_secs(10));
    assert_eq!(judge.load(LINK, 9), 40);
    // It begins in the middle of the second in which the other one ended.
    assert_eq!(
        (
            judge.load(LINK, 10),
            judge.load(LINK, 11),
            judge.load(LINK, 20)
        ),
        (20, 40, 20)
    );
}

#[test]
fn peak_and_mean_and_count_and_the_papers_rule_judge_by_less() {
    let film = curve(&[40, 4, 4, 40, 4, 4, 40, 4, 4]);
    let comes = |policy: Policy, limit: u64| {
        let needs = [
            (LINK, policy.booked(LINK, &film)),
            (Resource::Memory, curve(&[20; 9])),
        ];
        let capacity =
            Capacity::unlimited()
                .with(LINK, limit, 1000)
                .with(Resource::Memory, 100, 1000);
        let mut judge = Admission::new(policy, capacity, Limits::default());
        (0..100)
            .take_while(|_| judge.decide(0, &newcomer(&needs), 0).is_ok())
            .count()
    };
    assert_eq!(comes(Policy::Everybody, 50), 100);
    assert_eq!(comes(Policy::Count(7), 50), 7);
    assert_eq!(comes(Policy::Peak, 90), 2);
    assert_eq!(comes(Policy::Mean, 90), 5);
    assert_eq!(comes(Policy::Vodca, 1), 5);
}

#[test]
fn the_papers_rule_keeps_fast_players_at_a_fifth() {
    let needs = [];
    let mut judge = judge(Policy::Vodca, 1);
    let fast = Newcomer {
        fast: true,
        fetches: false,
        ..newcomer(&needs)
    };
    for _ in 0..3 {
        judge.decide(0, &newcomer(&needs), 0).unwrap();
        assert_eq!(
            judge.decide(0, &fast, 0).unwrap_err().reason,
            RefusedFor::Fast
        );
    }
    judge.decide(0, &newcomer(&needs), 0).unwrap();
    assert!(judge.decide(0, &fast, 0).is_ok());
    assert!(judge.decide(0, &fast, 0).is_err());
}

#[test]
fn a_pause_gives_back_and_an_admitted_viewer_may_always_go_on() {
    let needs = [(LINK, curve(&[40; 10]))];
    let mut judge = judge(Policy::Exact, 50);
    let first = judge.decide(0, &newcomer(&needs), 0).unwrap().id;
    judge.rest(2 * SECOND, first);
    assert!(!judge.is_booked(first));
    let second = judge.decide(2 * SECOND, &newcomer(&needs), 0).unwrap().id;
    // Viewers who have to ask are refused like others; without asking, they go on.
    let refused = judge
        .rebook(3 * SECOND, first, &needs, (8, 40), true)
        .unwrap_err();
    assert_eq!(refused.retry_after, Duration::from_secs(9));
    assert!(!judge.is_booked(first));
    judge
        .rebook(3 * SECOND, first, &needs, (8, 40), false)
        .unwrap();
    assert_eq!(judge.load(LINK, 5), 80);
    assert!(judge.decide(3 * SECOND, &newcomer(&needs), 0).is_err());
    assert_eq!(
        judge.too_many(5, |_| true),
        [],
        "as much is there as ever was"
    );
    // If one viewer must go, the newest goes first.
    judge.set_share(LINK, 990);
    assert_eq!(judge.too_many(5, |_| true), [second]);
    judge.end(4 * SECOND, first);
    judge.end(4 * SECOND, second);
    judge.end(4 * SECOND, second);
    assert_eq!((judge.viewers(), judge.load(LINK, 5)), (0, 0));
    assert!(judge.ends.is_empty());
}

#[test]
fn a_refused_seek_leaves_the_old_booking_as_it_was() {
    let needs = [(LINK, curve(&[10, 10, 10, 60, 60]))];
    let mut judge = judge(Policy::Exact, 50);
    let short = [(LINK, curve(&[10, 10, 10]))];
    let id = judge.decide(0, &newcomer(&short), 0).unwrap().id;
    assert!(judge.rebook(SECOND, id, &needs, (12, 20), true).is_err());
    assert_eq!(
        (
            judge.load(LINK, 1),
            judge.load(LINK, 2),
            judge.load(LINK, 3)
        ),
        (8, 8, 0)
    );
    assert!(judge.is_booked(id));
}

#[test]
fn a_smaller_machine_refuses_newcomers_first_and_is_whole_again_later() {
    let needs = [(LINK, curve(&[40; 10]))];
    let mut judge = judge(Policy::Exact, 100);
    judge.decide(0, &newcomer(&needs), 0).unwrap();
    judge.set_share(LINK, 500);
    assert!(judge.decide(0, &newcomer(&needs), 0).is_err());
    assert!(
        judge.too_many(10, |_| true).is_empty(),
        "who is there still fits"
    );
    judge.set_share(LINK, 1000);
    assert!(judge.decide(0, &newcomer(&needs), 0).is_ok());
}

#[test]
fn nobody_leaves_for_what_a_class_was_to_leave_free() {
    let needs = [(LINK, curve(&[40; 10]))];
    let class = Class {
        name: "all".into(),
        ceiling: 800,
    };
    let mut judge = judge(Policy::Exact, 100).with_classes(vec![class]);
    for _ in 0..2 {
        judge.decide(0, &newcomer(&needs), 0).unwrap();
    }
    assert!(judge.decide(0, &newcomer(&needs), 0).is_err());
    judge.set_share(LINK, 800);
    assert_eq!(judge.too_many(10, |_| true), []);
    judge.set_share(LINK, 790);
    assert_eq!(judge.too_many(10, |_| true).len(), 1);
}

#[test]
fn others_find_the_machine_full_while_the_first_class_still_comes_in() {
    let needs = [(LINK, curve(&[10; 10]))];
    let class = |name: &str, ceiling| Class {
        name: name.into(),
        ceiling,
    };
    let mut judge =
        judge(Policy::Exact, 100).with_classes(vec![class("premium", 1000), class("others", 800)]);
    let other = Newcomer {
        class: 1,
        ..newcomer(&needs)
    };
    let others = (0..100)
        .take_while(|_| judge.decide(0, &other, 0).is_ok())
        .count();
    let premium = (0..100)
        .take_while(|_| judge.decide(0, &newcomer(&needs), 0).is_ok())
        .count();
    assert_eq!((others, premium), (10, 2), "a need of 8 in 80 and in 100");
}

#[test]
fn a_title_longer_than_any_calendar_is_booked_as_far_as_it_reaches() {
    let week = [(LINK, Arc::new(Curve::new(vec![1; 7 * 86_400 * 4])))];
    let mut judge = judge(Policy::Exact, 50);
    let id = judge.decide(0, &newcomer(&week), 0).unwrap().id;
    judge.advance(3 * 86_400 * SECOND);
    judge.end(4 * 86_400 * SECOND, id);
    assert_eq!(judge.load(LINK, 4 * 86_400 + 5), 0);
}

#[test]
fn a_hundred_thousand_come_and_go_and_nothing_is_left() {
    let needs = [(LINK, curve(&[10; 600]))];
    let mut judge = judge(Policy::Exact, 8000);
    for nth in 0..100_000u64 {
        let id = judge
            .decide(nth * SECOND / 2000, &newcomer(&needs), 0)
            .unwrap()
            .id;
        judge.end(nth * SECOND / 2000, id);
    }
    assert_eq!(
        (
            judge.viewers(),
            judge.ends.len(),
            judge
                .crowd
                .full(&Member::new("film", [10, 0, 0, 1].into(), None))
        ),
        (0, 0, None)
    );
    assert!((0..1000).all(|second| judge.load(LINK, second) == 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn it_admits_whom_a_judge_would_who_adds_up_every_second(
        films in prop::collection::vec(prop::collection::vec(0u32..100, 1..120), 1..4),
        visits in prop::collection::vec((0u64..8, 0usize..4, 0usize..40, 0u32..3), 1..120),
        limit in 50u64..400,
    ) {
        let films: Vec<Arc<Curve>> = films.into_iter().map(|bins| Arc::new(Curve::new(bins))).collect();
        let mut judge = judge(Policy::Exact, limit);
        // Quarter seconds cannot be distinguished within a second: both judges add up whole ones.
        let mut naive: BTreeMap<Second, u64> = BTreeMap::new();
        let mut now = 0;
        for (wait, film, from, leave) in visits {
            now += wait * SECOND / 4;
            let film = &films[film % films.len()];
            let needs = [(LINK, film.clone())];
            let newcomer = Newcomer { from, ..newcomer(&needs) };
            let bins = film.bins();
            let bins = bins.get(from..).unwrap_or_default();
            let at = |start: u64| {
                let mut wanted: BTreeMap<Second, u64> = BTreeMap::new();
                for (nth, bin) in bins.iter().enumerate() {
                    *wanted.entry((start + nth as u64) / 4).or_default() += u64::from(*bin);
                }
                wanted
            };
            let fits = |start: u64, naive: &BTreeMap<Second, u64>| {
                at(start).iter().all(|(second, need)| naive.get(second).unwrap_or(&0) + need <= limit)
            };
            let quarter = now / (SECOND / 4);
            match judge.decide(now, &newcomer, 0) {
                Ok(admitted) => {
                    prop_assert!(fits(quarter, &naive));
                    for (second, need) in at(quarter) {
                        *naive.entry(second).or_default() += need;
                    }
                    if leave == 0 {
                        judge.end(now, admitted.id);
                        for (second, need) in at(quarter) {
                            *naive.entry(second).or_default() -= need;
                        }
                    }
                }
                Err(refused) => {
                    prop_assert!(!fits(quarter, &naive));
                    let first = (1..2000).find(|wait| fits(quarter + 4 * wait, &naive));
                    let told = refused.retry_after.as_secs();
                    // Among late places, it is one of the first.
                    let is_told = first.is_none_or(|first| told <= first || first > TRIES as u64);
                    prop_assert!(is_told, "{:?} of {:?}", refused, first);
                    if refused.is_exact {
                        prop_assert!(fits(quarter + 4 * told, &naive) && first.is_some_and(|first| first <= told));
                    }
                }
            }
        }
    }
}

/// Quarter seconds of a film of 4.3 Mbit/s on the wire in GOPs of `gop` pictures, 25 per second;
/// the first picture is `times` as large as the others, which vary by half.
fn film_of_gops(seconds: usize, gop: usize, times: u64) -> Vec<u32> {
    let mut state = 1u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let others = 21_600 * gop as u64 / (gop as u64 + times - 1);
    let mut bins = vec![0; seconds * BINS];
    for picture in 0..seconds * 25 {
        let size = match picture % gop {
            0 => others * times,
            _ => others / 2 + random() % others,
        };
        bins[picture * BINS / 25] += size as u32;
    }
    bins
}

#[test]
fn what_is_sent_ahead_makes_up_for_pictures_that_coincide_and_fills_the_link() {
    for (gop, times) in [(12, 6), (25, 6), (50, 6), (50, 10), (100, 10)] {
        let curve = Arc::new(Curve::new(film_of_gops(300, gop, times)));
        let needs = [(LINK, curve.clone())];
        let limit = 12_500_000 * 98 / 100;
        let let_in = |ahead| {
            let capacity = Capacity::unlimited().with(LINK, limit, 1000);
            let mut judge = Admission::new(Policy::Exact, capacity, Limits::default())
                .with_ahead(Duration::from_millis(ahead));
            // Forty arrive within a second.
            let comes =
                |nth: u64| judge.decide((1000 * 40 + nth) * SECOND / 40, &newcomer(&needs), 0);
            (0..40).map(comes).filter(Result::is_ok).count() as u64
        };
        let (strict, ahead) = (let_in(0), let_in(1000));
        let fit = limit / u64::from(curve.mean());
        assert_eq!((fit, ahead), (22, 22), "GOPs of {gop}, {strict} without");
        assert!(strict < 21, "{strict}");
    }
}

fn judge_with_ahead(limit: u64) -> Admission {
    judge(Policy::Exact, limit).with_ahead(Duration::from_secs(1))
}

#[test]
fn where_a_link_halves_about_as_many_leave_as_are_too_many() {
    let needs = [(LINK, curve(&[40; 600]))];
    let mut judge = judge_with_ahead(4000);
    for _ in 0..90 {
        judge.decide(0, &newcomer(&needs), 0).unwrap();
    }
    judge.set_share(LINK, 500);
    judge.advance(3 * SECOND);
    let leave = judge.too_many(5, |_| true).len();
    assert!((40..=60).contains(&leave), "{leave} of 90, where 50 fit");
}

#[test]
fn what_was_overbooked_is_forgotten_when_it_cannot_be_made_up_for() {
    let needs = [(LINK, curve(&[40; 7200]))];
    let mut judge = judge_with_ahead(4000);
    let mut viewers = Vec::new();
    for _ in 0..100 {
        viewers.push(judge.decide(0, &newcomer(&needs), 0).unwrap().id);
    }
    // They rest, others arrive, and then they return: 160 % for half an hour.
    for id in &viewers[..60] {
        judge.rest(SECOND, *id);
    }
    for _ in 0..60 {
        judge.decide(SECOND, &newcomer(&needs), 0).unwrap();
    }
    for id in &viewers[..60] {
        judge
            .rebook(2 * SECOND, *id, &needs, (0, usize::MAX), false)
            .unwrap();
    }
    assert!(judge.decide(3 * SECOND, &newcomer(&needs), 0).is_err());
    judge.advance(1800 * SECOND);
    for id in viewers {
        judge.end(1800 * SECOND, id);
    }
    assert!(judge.decide(1803 * SECOND, &newcomer(&needs), 0).is_ok());
}

#[test]
fn a_place_that_comes_late_is_found() {
    let needs = [(LINK, curve(&[40; 600]))];
    let mut judge = judge_with_ahead(400);
    for _ in 0..10 {
        judge.decide(0, &newcomer(&needs), 0).unwrap();
    }
    let refused = judge
        .decide(100 * SECOND, &newcomer(&needs), 0)
        .unwrap_err();
    let after = refused.retry_after.as_secs();
    assert!(
        refused.is_exact && (490..=501).contains(&after),
        "{after} s"
    );
    assert!(judge.decide(100 * SECOND, &newcomer(&needs), 600).is_ok());
}

proptest! {
    #[test]
    fn what_is_let_in_could_be_sent_ahead_in_every_run_of_seconds(
        bins in prop::collection::vec(0u32..1000, 40..400),
        comes in prop::collection::vec(0u64..20, 1..40),
    ) {
        let needs = [(LINK, Arc::new(Curve::new(bins)))];
        let (limit, ahead) = (9000, 1000);
        let capacity = Capacity::unlimited().with(LINK, limit, 1000);
        let mut judge = Admission::new(Policy::Exact, capacity, Limits::default())
            .with_ahead(Duration::from_millis(ahead));
        let mut now = 1000 * SECOND;
        let mut loads = std::collections::BTreeMap::new();
        for quarters in comes {
            now += quarters * SECOND / BINS as u64;
            let _ = judge.decide(now, &newcomer(&needs), 0);
            let second = now / SECOND;
            for second in second..second + 120 {
                loads.insert(second, judge.load(LINK, second));
            }
        }
        // In any run of seconds, no more is due than the link carries in it and in the time ahead.
        let loads: Vec<u64> = loads.into_values().collect();
        for from in 0..loads.len() {
            let mut sum = 0;
            for (nth, load) in loads[from..].iter().enumerate() {
                sum += load;
                prop_assert!(sum <= limit * (nth as u64 + 1) + limit * ahead / 1000);
            }
        }
    }
}

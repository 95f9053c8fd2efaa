//! Tests of the curves, with films whose needs are known.

use super::*;
use crate::films;

/// A film of groups of a second, of which one in four has nine times the bytes of the others.
fn bytes(seconds: u32) -> Vec<u32> {
    let of_group = |number| if number % 4 == 3 { 900_000 } else { 100_000 };
    (0..seconds).map(of_group).collect()
}

#[test]
fn the_index_of_a_film_is_wanted_once_and_of_so_many_films_at_a_time() {
    let mut curves = Curves::new(&Config {
        capacity: Capacity::unlimited().with(WHOLE_NETWORK, 1 << 30, 1000),
        ..Config::default()
    });
    let title = films::title(1000, &bytes(8));
    let mut watched = Vec::new();
    for film in 0..FILMS as u32 {
        let (demand, want) = curves.demand(&film, &title).unwrap();
        assert_eq!(want, Some(Want { film }));
        watched.push(demand);
    }
    let (rough, want) = curves.demand(&0, &title).unwrap();
    assert!(want.is_none() && Arc::ptr_eq(&rough, &watched[0]));
    let mut wants = |film| curves.demand(&film, &title).unwrap().1.is_some();
    assert!(!wants(1000), "as many as may be are wanted");
    curves.reads(&0);
    let mut wants = |film| curves.demand(&film, &title).unwrap().1.is_some();
    assert!(wants(1000) && !wants(1001) && !wants(0));
    let exact = Demand::rough(&title, PayloadOptions::default(), Config::default().reading);
    curves.learn(0, fitting(exact));
    let (learnt, want) = curves.demand(&0, &title).unwrap();
    assert!(want.is_none() && !Arc::ptr_eq(&learnt, &rough));
    let nothing = Curves::new(&Config::default()).demand(&0, &title);
    assert!(nothing.is_none(), "nothing is limited");
}

#[test]
fn a_film_that_goes_on_is_booked_beyond_its_end_at_the_highest_rate_seen() {
    let mut curves = Curves::<u32>::new(&Config {
        capacity: (Capacity::unlimited().with(Resource::Processor, 1 << 30, 1000)).with(
            Resource::Disk,
            1 << 30,
            1000,
        ),
        ..Config::default()
    });
    let demand = films::demand(1000, &bytes(40));
    let mut booked = |goes_on, from| {
        let wants = Wants {
            demand: demand.clone(),
            tracks: Vec::new(),
            carriage: Carriage::Http,
            is_remote: false,
            goes_on,
            eager: None,
        };
        let needs = curves.needs(&wants, None, (from, Nanos::MAX));
        assert_eq!(needs.range.1, needs.len, "to the end");
        let of = needs.of.into_iter();
        of.map(|(_, curve)| curve.bins()).collect::<Vec<_>>()
    };
    let wire = demand.wire(demand.usual_tracks(), Carriage::Http);
    let most = [wire.peak(), demand.disk().peak()];
    for from in [0, 11 * SECOND] {
        let (short, long) = (booked(false, from), booked(true, from));
        assert_eq!((short.len(), long.len()), (2, 2));
        for ((short, long), most) in short.iter().zip(&long).zip(most) {
            let sum = |bins: &[u32]| bins.iter().map(|bin| u64::from(*bin)).sum::<u64>();
            let beyond = (BEYOND / BIN) as u64 * u64::from(most.div_ceil(BINS as u32));
            assert_eq!(sum(long) - sum(short), beyond);
            // A viewer who fetches is at most a little ahead of that.
            let end = long.len() - 60 * BINS..long.len() - 30 * BINS;
            assert!(
                long[end]
                    .iter()
                    .all(|bin| *bin == most.div_ceil(BINS as u32))
            );
        }
    }
}

#[test]
fn over_a_narrow_network_a_film_is_fetched_more_slowly_and_never_refused_for_its_beginning() {
    let film = films::demand(1000, &[125_000; 60]);
    let wants = |carriage| Wants {
        demand: film.clone(),
        tracks: Vec::new(),
        carriage,
        is_remote: false,
        goes_on: false,
        eager: None,
    };
    let of_class = |rate, carriage, class: Option<&Class>| {
        let mut curves = Curves::<u32>::new(&Config {
            capacity: Capacity::unlimited().with(Resource::Network(1), rate, 1000),
            ..Config::default()
        });
        let wants = curves.slowly_if_narrow(wants(carriage), Some(1), class);
        let needs = curves.needs(&wants, Some(1), (0, Nanos::MAX));
        (wants.eager, needs.of[0].1.peak())
    };
    let of_link = |rate, carriage| of_class(rate, carriage, None);
    let ways = Eager::default().slower();
    // A film of about 135,000 bytes per second on the wire.
    let found = [600_000, 400_000, 210_000, 175_000, 130_000].map(|rate| {
        let (eager, peak) = of_link(rate, Carriage::Http);
        (
            ways.iter().position(|way| Some(*way) == eager),
            peak <= rate as u32,
        )
    });
    let [all, even, half, least] = [0, 1, 2, 3].map(|way| (Some(way), true));
    assert_eq!(found, [all, even, half, least, (Some(3), false)]);
    assert_eq!(of_link(400_000, Carriage::UdpV4).0, None);
    // For a class that may fill half of a link, the link is half as wide.
    let half = Class {
        name: "half".into(),
        ceiling: 500,
    };
    let of_half = of_class(800_000, Carriage::Http, Some(&half));
    assert_eq!(of_half, of_link(400_000, Carriage::Http));
}

#[test]
fn what_is_sent_ahead_over_rtp_is_booked_as_it_is_sent() {
    let demand = films::demand(1000, &bytes(40));
    let needs = |ahead, carriage, from| {
        let mut curves = Curves::<u32>::new(&Config {
            capacity: Capacity::unlimited().with(Resource::Processor, 1 << 30, 1000),
            sent_ahead: ahead,
            ..Config::default()
        });
        let wants = Wants {
            demand: demand.clone(),
            tracks: Vec::new(),
            carriage,
            is_remote: false,
            goes_on: false,
            eager: None,
        };
        let needs = curves.needs(&wants, None, (from, Nanos::MAX));
        assert_eq!(needs.range.1, needs.len, "to the end");
        (needs.of[0].1.clone(), needs.range)
    };
    for carriage in [Carriage::UdpV4, Carriage::Tcp] {
        for from in [0, 11 * SECOND] {
            let ((own, _), (even, range)) =
                (needs(0, carriage, from), needs(4 * SECOND, carriage, from));
            assert!(
                even.peak() < own.peak() / 2,
                "{} {}",
                even.peak(),
                own.peak()
            );
            let due: u64 = own.bins()[range.0..]
                .iter()
                .map(|bin| u64::from(*bin))
                .sum();
            assert!(
                even.total().abs_diff(due) <= range.1 as u64,
                "all of it is booked"
            );
            let longer = even.len() - own.len();
            assert!(longer <= 4 * BINS, "{longer}");
        }
    }
    let (own, even) = (
        needs(0, Carriage::Http, 0),
        needs(4 * SECOND, Carriage::Http, 0),
    );
    assert_eq!(
        own, even,
        "what viewers fetch is not sent ahead by the sender"
    );
}

#[test]
fn what_is_sent_of_a_film_is_made_once_for_all_and_forgotten_with_it() {
    let mut curves = Curves::<u32>::new(&Config::default());
    let (one, other) = (
        films::demand(1000, &bytes(8)),
        films::demand(1000, &bytes(9)),
    );
    let first = curves.wire(&one, &[0], Carriage::UdpV4);
    assert!(Arc::ptr_eq(
        &first,
        &curves.wire(&one, &[0], Carriage::UdpV4)
    ));
    let tcp = curves.wire(&one, &[0], Carriage::Tcp);
    assert!(
        tcp.total() != first.total(),
        "another way has other headers"
    );
    assert!(curves.wire(&other, &[0], Carriage::UdpV4).total() > first.total());
    assert_eq!((curves.wires.len(), Arc::strong_count(&one)), (2, 1));
    drop(tcp);
    curves.forget();
    assert_eq!(
        curves.wires.len(),
        1,
        "what is booked is kept, and nothing else"
    );
    assert!(Arc::ptr_eq(
        &first,
        &curves.wire(&one, &[0], Carriage::UdpV4)
    ));
    curves.wire(&other, &[0], Carriage::UdpV4);
    drop(one);
    let third = films::demand(1000, &bytes(10));
    curves.wire(&third, &[0], Carriage::UdpV4);
    assert_eq!(
        curves.wires.len(),
        2,
        "those of a film that is gone are gone"
    );
}

#[test]
fn what_films_without_viewers_need_is_forgotten_for_others() {
    let mut curves = Curves::new(&Config::default());
    let title = films::title(1000, &bytes(8));
    let demand = || {
        Arc::new(Demand::rough(
            &title,
            PayloadOptions::default(),
            Config::default().reading,
        ))
    };
    let watched = demand();
    curves.keep(0, watched.clone());
    for film in 1..3 * FILMS as u32 {
        curves.keep(film, demand());
        assert!(curves.demands.len() <= FILMS);
    }
    assert!(Arc::ptr_eq(&curves.demands[&0], &watched));
}

use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;

use reelway_admission::Config;

use super::*;
use crate::protocol::Protocol;

fn viewer() -> NewSession {
    NewSession {
        protocol: Protocol::Hls,
        peer: "127.0.0.1:1".parse().unwrap(),
        connection: 1,
        title: "bunny".into(),
        duration: Duration::from_secs(10),
        user_agent: None,
        query: None,
        wants: None,
    }
}

#[test]
fn over_the_limit_only_the_newcomer_is_refused() {
    let sessions = Sessions::new(Limits {
        sessions: 1,
        ..Limits::default()
    });
    let first = sessions.open(viewer()).unwrap();
    assert!(first.begins());
    let refusal = sessions.open(viewer()).unwrap_err();
    assert_eq!(
        refusal.reason,
        "there are 1 sessions, and `sessions.max` is 1"
    );
    assert!(!first.is_ended());
    first.end(EndReason::Left);
    assert!(sessions.open(viewer()).is_ok());
}

#[test]
fn a_silent_viewer_is_given_up_and_a_lively_one_kept() {
    let sessions = Sessions::new(Limits {
        idle: Duration::from_millis(40),
        ..Limits::default()
    });
    let silent = sessions.open(viewer()).unwrap();
    let lively = sessions.open(viewer()).unwrap();
    lively.set_idle_limit(Duration::MAX);
    let now = reelway_clock::now();
    sessions.tick_at(now);
    sessions.tick_at(now + Duration::from_millis(60));
    assert!(silent.is_ended());
    assert!(!lively.is_ended());
    assert!(sessions.by_token(silent.token()).is_none());
}

#[test]
fn whoever_ends_it_the_protocol_hears_of_it_once() {
    let sessions = Sessions::new(Limits::default());
    let session = sessions.open(viewer()).unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let counter = heard.clone();
    session.on_end(move |reason| {
        assert_eq!(*reason, EndReason::Kicked);
        counter.fetch_add(1, Ordering::Relaxed);
    });
    assert!(sessions.end(session.id(), EndReason::Kicked));
    session.end(EndReason::Left);
    assert_eq!(heard.load(Ordering::Relaxed), 1);
    assert!(sessions.is_empty());
}

#[test]
fn a_hundred_thousand_come_and_go_and_nothing_is_left_of_them() {
    let config = GateConfig {
        admission: Config {
            limits: reelway_admission::Limits {
                title: 50,
                ..Default::default()
            },
            ..Config::default()
        },
        ..GateConfig::default()
    };
    let sessions = Sessions::with_gate(Limits::default(), Gate::new(config));
    let mut present = std::collections::VecDeque::new();
    let mut refused = 0;
    for _ in 0..100_000 {
        match sessions.open(viewer()) {
            Ok(session) => {
                assert!(session.begins());
                present.push_back(session);
            }
            Err(_) => refused += 1,
        }
        if refused % 2 == 0 && present.len() > 40 {
            present.pop_front().unwrap().end(EndReason::Left);
        }
    }
    assert!(present.len() <= 50);
    present
        .iter()
        .for_each(|session| session.end(EndReason::Left));
    assert!(sessions.is_empty());
    assert_eq!(sessions.gate().judge().viewers(), 0);
    // Only a limited number of refusals is remembered.
    assert!(sessions.gate().judge().refusals().count() <= 256);
}

#[test]
fn a_stopping_server_takes_nobody_in() {
    let sessions = Sessions::new(Limits::default());
    sessions.drain();
    assert!(sessions.open(viewer()).unwrap_err().retry_after.is_some());
}

/// Returns a newcomer from this address, over this connection.
fn from(address: [u8; 4], connection: u64) -> NewSession {
    NewSession {
        peer: SocketAddr::from((address, 1)),
        connection,
        ..viewer()
    }
}

#[test]
fn ten_thousand_who_never_play_do_not_keep_anybody_out() {
    for addresses in [1, 64] {
        let sessions = Sessions::new(Limits {
            sessions: 2_000,
            ..Limits::default()
        });
        let honest = sessions.open(from([10, 1, 0, 1], 999)).unwrap();
        let mut let_in = 0;
        for number in 0..10_000u32 {
            let address = [10, 0, 0, (number % addresses) as u8];
            let_in += u32::from(
                sessions
                    .open(from(address, u64::from(number / 100)))
                    .is_ok(),
            );
            sessions.run_farewells();
        }
        // Each address may hold only so many that its neighbours are safe; addresses do not push
        // each other out.
        assert!(let_in >= 2_000, "{let_in} of {addresses} addresses");
        assert!(sessions.len() <= 2_000);
        assert!(honest.begins(), "its place was kept until it played");
        let newcomer = sessions.open(from([10, 1, 0, 2], 998)).unwrap();
        assert!(newcomer.begins());
        sessions.end_all(EndReason::Left);
        assert!(sessions.is_empty());
        assert!(sessions.gate().desk().is_empty());
    }
}

#[test]
fn a_connection_holds_few_that_never_play_and_the_oldest_ends_as_its_protocol_hears() {
    let sessions = Sessions::new(Limits::default());
    let first = sessions.open(from([10, 0, 0, 1], 1)).unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let counter = heard.clone();
    first.on_end(move |reason| {
        assert_eq!(*reason, EndReason::MadeRoom);
        counter.fetch_add(1, Ordering::Relaxed);
    });
    for _ in 0..10_000 {
        sessions.open(from([10, 0, 0, 1], 1)).unwrap();
    }
    assert_eq!(sessions.len(), Limits::default().unplayed_per_connection);
    assert!(first.is_ended() && !first.begins());
    assert_eq!(heard.load(Ordering::Relaxed), 0, "locks may be held");
    sessions.run_farewells();
    assert_eq!(heard.load(Ordering::Relaxed), 1);
    assert_eq!(sessions.made_room(), 10_001 - 16);
}

#[test]
fn bounds_of_an_address_are_refused_by_their_names() {
    let sessions = Sessions::new(Limits {
        per_address: 3,
        unplayed_per_address: 2,
        ..Limits::default()
    });
    let refused = |connection| {
        let refusal = sessions.open(from([10, 0, 0, 1], connection)).unwrap_err();
        assert!(refusal.retry_after.is_some());
        refusal.reason
    };
    let two = [1, 2].map(|connection| sessions.open(from([10, 0, 0, 1], connection)).unwrap());
    assert!(refused(3).contains("`sessions.unplayed_per_address`"));
    two.iter().for_each(|session| assert!(session.begins()));
    let third = sessions.open(from([10, 0, 0, 1], 3)).unwrap();
    assert!(third.begins());
    assert!(refused(4).contains("`sessions.per_address` is 3"));
    assert!(sessions.open(from([10, 0, 0, 2], 5)).is_ok());
    third.end(EndReason::Left);
    assert!(sessions.open(from([10, 0, 0, 1], 6)).is_ok());
}

#[test]
fn one_whose_media_could_not_be_had_is_among_the_first_to_go_again() {
    let sessions = Sessions::new(Limits::default());
    let session = sessions.open(from([10, 0, 0, 1], 1)).unwrap();
    assert!(session.begins());
    let unplayed = || sessions.gate().desk().unplayed();
    assert_eq!(unplayed(), 0);
    session.waits_again();
    assert_eq!(unplayed(), 1);
    session.end(EndReason::Left);
    session.waits_again();
    assert_eq!(unplayed(), 0);
}

#[test]
fn a_standstill_of_the_server_is_no_silence_of_its_viewers() {
    let sessions = Sessions::new(Limits {
        idle: Duration::from_secs(5),
        ..Limits::default()
    });
    let session = sessions.open(viewer()).unwrap();
    let start = reelway_clock::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(sessions.tick_at(at(3)), Duration::ZERO);
    let missed = sessions.tick_at(at(73));
    assert_eq!(missed, Duration::from_millis(68_500));
    assert!(!session.is_ended(), "what came meanwhile is read first");
    sessions.tick_at(at(74));
    sessions.tick_at(at(73));
    assert!(session.is_ended(), "3 s before it, and some after it");
}

#[test]
fn viewers_of_many_threads_push_each_other_out_and_nothing_is_left_of_them() {
    let config = GateConfig {
        admission: Config {
            limits: reelway_admission::Limits {
                title: 6,
                ..Default::default()
            },
            ..Config::default()
        },
        ..GateConfig::default()
    };
    let sessions = Sessions::with_gate(Limits::default(), Gate::new(config));
    std::thread::scope(|scope| {
        for connection in 0..4 {
            let sessions = &sessions;
            scope.spawn(move || {
                for nth in 0..500 {
                    let Ok(session) = sessions.open(from([10, 0, 0, 1], connection)) else {
                        continue;
                    };
                    if nth % 3 == 0 && session.begins() {
                        let _ = session.plays(0, i64::MAX, true);
                        session.end(EndReason::Left);
                    }
                    sessions.run_farewells();
                }
            });
        }
    });
    assert!(sessions.made_room() > 0);
    assert!(sessions.len() <= 6);
    assert_eq!(sessions.len(), sessions.gate().desk().len());
    assert_eq!(sessions.len(), sessions.gate().judge().viewers());
    sessions.end_all(EndReason::Left);
    assert!(sessions.is_empty() && sessions.gate().desk().is_empty());
}

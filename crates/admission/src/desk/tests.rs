//! Tests of the desk, step by step.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reelway_demand::{Carriage, Demand};
use reelway_media::{Nanos, SECOND};
use reelway_time::Monotonic;

use crate::capacity::{Capacity, Resource};
use crate::config::{Bounds, Config};
use crate::crowd::Limits;
use crate::curves::{Curves, Needs, Wants};
use crate::desk::newcomers::{Arrival, Outcome, Reservation};
use crate::desk::playing::Activity;
use crate::desk::state::Desk;
use crate::desk::weigh::PATIENCE;
use crate::films::demand;
use crate::verdict::{BookingId, Refusal};

const ETH0: Resource = Resource::Network(1);

/// A desk, the curves of its films, and the time.
struct Server {
    desk: Desk,
    curves: Curves<u32>,
    now: Monotonic,
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Server {
    fn new(config: Config) -> Server {
        Server {
            curves: Curves::new(&config),
            desk: Desk::new(config),
            now: Monotonic::from_nanos(1_000 * SECOND as u64),
        }
    }

    fn with(resource: Resource, limit: u64) -> Server {
        Server::new(Config {
            capacity: Capacity::unlimited().with(resource, limit, 1000),
            pool: 1 << 30,
            ..Config::default()
        })
    }

    fn wait(&mut self, time: f64) {
        self.now += seconds(time);
        self.desk.advance(self.now);
    }

    fn needs(&mut self, film: &Arc<Demand>, range: (Nanos, Nanos)) -> (Wants, Needs) {
        let wants = Wants {
            demand: film.clone(),
            tracks: Vec::new(),
            carriage: Carriage::UdpV4,
            is_remote: false,
            goes_on: false,
            eager: None,
        };
        let needs = self.curves.needs(&wants, Some(1), range);
        (wants, needs)
    }

    /// A viewer at this address asks for a film, and has a place reserved until `until`.
    fn reserve(
        &mut self,
        address: u8,
        film: &Arc<Demand>,
        until: Monotonic,
    ) -> Outcome<Reservation> {
        let (wants, needs) = self.needs(film, (0, Nanos::MAX));
        let arrival = Arrival {
            title: "film",
            address: IpAddr::from([10, 0, 0, address]),
            connection: address.into(),
            user: None,
            link: Some(1),
            wants: Some(&wants),
            needs: &needs,
        };
        self.desk.reserve(self.now, &arrival, until)
    }

    /// Admits a viewer, for whom no session has to end.
    fn admit(&mut self, address: u8, film: &Arc<Demand>) -> Result<BookingId, Refusal> {
        let outcome = self.reserve(address, film, Monotonic::MAX);
        assert_eq!(outcome.ended, []);
        let id = outcome.answer?.id;
        assert!(self.desk.confirm(self.now, id));
        Ok(id)
    }

    fn plays(&mut self, id: BookingId, film: &Arc<Demand>, from: Nanos) -> Outcome<()> {
        let (_, needs) = self.needs(film, (from, Nanos::MAX));
        self.desk.plays(self.now, id, &needs, true)
    }

    /// A viewer who plays from the film's beginning.
    fn watch(&mut self, address: u8, film: &Arc<Demand>) -> BookingId {
        let id = self.admit(address, film).unwrap();
        assert!(self.desk.begins(self.now, id));
        self.plays(id, film, 0).answer.unwrap();
        id
    }

    /// What is booked of a resource in the present second and the following ones.
    fn loads(&self, resource: Resource) -> Vec<u64> {
        let now = self.desk.books().second();
        let load = |second| self.desk.books().load(resource, second);
        (now..now + 700).map(load).collect()
    }
}

/// Ten minutes that need about this many bytes per second.
fn film(bytes: u32) -> Arc<Demand> {
    demand(1000, &vec![bytes; 600])
}

/// What such a film takes of a network per second.
fn rate(film: &Arc<Demand>) -> u64 {
    film.wire(&[0], Carriage::UdpV4).peak().into()
}

#[test]
fn a_place_is_held_until_it_is_confirmed_released_or_overdue() {
    let film = film(100_000);
    let mut server = Server::with(ETH0, rate(&film) + 1);
    let soon = server.now + seconds(5.0);
    let first = server.reserve(1, &film, soon).answer.unwrap();
    assert_eq!(first.starts_in, Duration::ZERO);
    assert!(server.reserve(2, &film, soon).answer.is_err(), "it is held");
    server.desk.release(server.now, first.id);
    assert!(!server.desk.confirm(server.now, first.id));
    let second = server.reserve(2, &film, soon).answer.unwrap();
    server.wait(4.9);
    assert!(server.reserve(3, &film, Monotonic::MAX).answer.is_err());
    server.wait(0.1);
    assert!(server.desk.is_empty(), "its deadline has come");
    assert!(!server.desk.confirm(server.now, second.id));
    assert!(server.loads(ETH0).iter().all(|load| *load == 0));
    let third = server
        .reserve(3, &film, soon + seconds(5.0))
        .answer
        .unwrap();
    assert!(server.desk.confirm(server.now, third.id));
    server.wait(60.0);
    server.desk.release(server.now, third.id);
    assert!(server.desk.confirm(server.now, third.id), "they stay");
    assert_eq!(server.desk.len(), 1);
}

#[test]
fn a_reserved_place_is_not_taken_by_others_before_it_is_confirmed() {
    let film = film(100_000);
    let mut server = Server::with(ETH0, rate(&film) + 1);
    let first = server.reserve(1, &film, Monotonic::MAX).answer.unwrap();
    server.wait(3.0);
    let refused = server.reserve(2, &film, Monotonic::MAX);
    assert_eq!(refused.ended, []);
    assert!(refused.answer.is_err());
    assert!(server.desk.confirm(server.now, first.id));
    let admitted = server.reserve(2, &film, Monotonic::MAX);
    assert_eq!(admitted.ended, [first.id], "they have not played for 3 s");
    assert!(admitted.answer.is_ok());
    assert!(!server.desk.begins(server.now, first.id));
}

#[test]
fn no_session_ends_in_vain() {
    let (one, other) = (film(100_000), film(150_000));
    let limit = u64::from(one.disk().peak()) * 2;
    let mut server = Server::with(Resource::Disk, limit);
    // A viewer who has not played yet, followed by another: only the first of them is booked.
    let leader = server.admit(1, &one).unwrap();
    server.wait(1.0);
    let follower = server.watch(2, &one);
    server.wait(20.0);
    let before = server.loads(Resource::Disk);
    let refused = server.reserve(3, &other, Monotonic::MAX);
    // Without the first, the disk would have to read for the second.
    assert_eq!(refused.ended, []);
    assert!(refused.answer.is_err());
    assert_eq!(server.loads(Resource::Disk), before);
    assert_eq!(server.desk.len(), 2);
    server.desk.end(server.now, follower);
    let admitted = server.reserve(3, &other, Monotonic::MAX);
    assert_eq!(admitted.ended, [leader]);
    assert!(admitted.answer.is_ok());
}

#[test]
fn a_refused_newcomer_learns_when_others_who_do_not_play_may_be_gone() {
    let film = film(100_000);
    let mut server = Server::with(ETH0, rate(&film) + 1);
    let first = server.admit(1, &film).unwrap();
    let retry = |server: &mut Server| {
        let refusal = server.reserve(2, &film, Monotonic::MAX).answer.unwrap_err();
        refusal.retry_after.unwrap()
    };
    assert_eq!(retry(&mut server), seconds(2.0), "the first may not play");
    assert!(server.desk.begins(server.now, first));
    assert!(server.plays(first, &film, 0).answer.is_ok());
    assert_eq!(retry(&mut server), seconds(600.0), "the film's end");
}

#[test]
fn a_viewer_who_plays_takes_the_room_of_those_who_do_not_and_none_of_those_who_do() {
    let (small, large) = (film(100_000), film(200_000));
    let mut server = Server::with(ETH0, rate(&small) + rate(&large) + 10);
    let waiting = server.admit(1, &small).unwrap();
    let id = server.admit(2, &small).unwrap();
    // They choose more than was booked, and begin elsewhere.
    server.desk.takes(id, vec![0], Carriage::Tcp);
    let refused = server.plays(id, &film(400_000), 60 * SECOND);
    assert!(refused.answer.is_err() && refused.ended.is_empty());
    let played = server.plays(id, &film(250_000), 60 * SECOND);
    assert!(played.answer.is_ok());
    assert_eq!(played.ended, [waiting]);
    assert_eq!(server.desk.len(), 1);
}

#[test]
fn a_viewer_who_takes_other_tracks_than_were_judged_is_judged_when_they_begin() {
    let (usual, all) = (film(100_000), film(200_000));
    let mut server = Server::with(ETH0, rate(&all) - 1);
    let id = server.admit(1, &usual).unwrap();
    server.desk.takes(id, vec![0, 1], Carriage::UdpV4);
    assert!(server.desk.begins(server.now, id));
    assert!(server.plays(id, &all, 0).answer.is_err(), "no room for all");
    server.desk.takes(id, vec![0], Carriage::UdpV4);
    assert!(server.plays(id, &usual, 0).answer.is_ok());
    assert!(server.loads(ETH0).iter().all(|load| *load < rate(&all)));
}

#[test]
fn what_a_recording_has_grown_by_is_booked_from_when_the_viewer_plays_on() {
    let whole = film(100_000);
    let early = demand(1000, &[100_000; 60]);
    let mut server = Server::with(ETH0, 10 * rate(&whole));
    let id = server.watch(1, &early);
    assert_eq!(server.loads(ETH0)[100], 0, "there is no more of it");
    server.wait(30.0);
    server.desk.grows(id, whole.clone());
    let (wants, _) = server.desk.wants(id).unwrap();
    assert!(server.plays(id, &wants.demand, 30 * SECOND).answer.is_ok());
    assert_eq!(server.loads(ETH0)[100], rate(&whole));
}

#[test]
fn room_is_kept_for_ten_seconds_and_given_back_in_a_pause() {
    let film = film(100_000);
    let mut server = Server::with(ETH0, 10 * rate(&film));
    let id = server.admit(1, &film).unwrap();
    let look = |server: &mut Server, activity, excused| {
        let excused = seconds(excused);
        server.desk.keep_books(server.now, id, activity, excused)
    };
    server.wait(10.0);
    assert!(!look(&mut server, Activity::Ready, 0.0));
    assert!(server.desk.books().is_booked(id));
    server.wait(1.0);
    assert!(!look(&mut server, Activity::Ready, 5.0), "nobody listened");
    assert!(server.desk.books().is_booked(id));
    assert!(!look(&mut server, Activity::Ready, 0.0));
    assert!(!server.desk.books().is_booked(id) && server.loads(ETH0)[1] == 0);
    assert!(look(&mut server, Activity::Playing, 0.0), "they play");
    assert!(server.plays(id, &film, 30 * SECOND).answer.is_ok());
    assert!(!look(&mut server, Activity::Playing, 0.0));
    server.wait(3600.0);
    assert!(server.desk.books().is_booked(id));
    assert!(!look(&mut server, Activity::Paused, 0.0));
    assert!(!server.desk.books().is_booked(id));
}

#[test]
fn who_never_began_and_has_no_room_any_more_is_asked_even_where_others_may_go_on() {
    let film = film(100_000);
    let mut server = Server::with(ETH0, rate(&film));
    let late = server.admit(1, &film).unwrap();
    server.wait(11.0);
    let now = server.now;
    let due = (server.desk).keep_books(now, late, Activity::Ready, Duration::ZERO);
    assert!(!due && !server.desk.books().is_booked(late));
    let other = server.watch(2, &film);
    let (_, needs) = server.needs(&film, (0, Nanos::MAX));
    let plays = |server: &mut Server| server.desk.plays(now, late, &needs, false).answer;
    assert!(plays(&mut server).is_err());
    assert!(!server.desk.books().is_booked(late));
    server.desk.end(now, other);
    assert!(plays(&mut server).is_ok());
}

#[test]
fn who_begins_elsewhere_than_where_they_were_judged_is_judged_there_whatever_may_be_refused() {
    // Few bytes for five minutes, ten times as many for the next five.
    let bytes = [vec![10_000; 300], vec![100_000; 300]].concat();
    let film = demand(1000, &bytes);
    let mut server = Server::with(ETH0, rate(&film) / 2);
    let id = server.admit(1, &demand(1000, &bytes[..300])).unwrap();
    let before = server.loads(ETH0);
    let (_, needs) = server.needs(&film, (400 * SECOND, Nanos::MAX));
    for may_refuse in [true, false] {
        let played = server.desk.plays(server.now, id, &needs, may_refuse);
        assert!(played.answer.is_err(), "{may_refuse}");
        assert_eq!(server.loads(ETH0), before);
    }
}

#[test]
fn what_was_booked_when_the_viewer_came_is_kept_when_they_begin_at_once() {
    let film = film(100_000);
    let mut server = Server::with(ETH0, 10 * rate(&film));
    let id = server.admit(1, &film).unwrap();
    let before = server.loads(ETH0);
    server.wait(0.3);
    assert!(server.plays(id, &film, 0).answer.is_ok());
    assert_eq!(server.loads(ETH0), before);
    server.wait(0.5);
    assert!(server.plays(id, &film, 0).answer.is_ok());
    assert_ne!(server.loads(ETH0), before, "they begin once more");
}

#[test]
fn who_plays_up_to_the_films_end_by_name_is_followed_as_who_names_no_end() {
    let film = film(100_000);
    let mut server = Server::with(Resource::Disk, 10 * rate(&film));
    let first = server.watch(1, &film);
    // RTSP names the end of the film in the range of a seek.
    let (_, needs) = server.needs(&film, (0, 600 * SECOND));
    let played = server.desk.plays(server.now, first, &needs, false);
    assert!(played.answer.is_ok());
    server.wait(2.0);
    let before = server.loads(Resource::Disk)[100];
    assert!(before > 0);
    server.admit(2, &film).unwrap();
    assert_eq!(server.loads(Resource::Disk)[100], before);
}

#[test]
fn a_slower_link_is_borne_for_some_seconds_and_then_the_newest_viewer_leaves() {
    let film = film(100_000);
    let rate = rate(&film);
    let mut server = Server::with(ETH0, 5 * rate / 2);
    let (first, second) = (server.watch(1, &film), server.watch(2, &film));
    assert!(server.admit(3, &film).is_err(), "two fifths for each");
    let weigh = |server: &mut Server, share| {
        server.wait(1.0);
        server.desk.weigh(server.now, &[(1, share)])
    };
    let notices = weigh(&mut server, 500).notices;
    assert_eq!((notices[0].resource, notices[0].share), (ETH0, 500));
    // Looks are a second apart.
    for _ in 1..PATIENCE.as_secs() {
        let weighed = weigh(&mut server, 500);
        assert!(weighed.ended.is_empty() && weighed.notices.is_empty());
    }
    assert!(weigh(&mut server, 1000).ended.is_empty(), "it was passing");
    for _ in 0..PATIENCE.as_secs() {
        assert!(weigh(&mut server, 500).ended.is_empty());
    }
    assert_eq!(weigh(&mut server, 500).ended, [second]);
    assert!(weigh(&mut server, 500).ended.is_empty(), "the first stays");
    assert!(server.admit(3, &film).is_err(), "half of the link is full");
    let _ = weigh(&mut server, 1000);
    let unbooked = server.desk.unbooked(server.now, ETH0);
    assert!(unbooked.abs_diff(5 * rate / 2 - rate - rate / 4) < 10);
    assert!(server.admit(3, &film).is_ok(), "the link is whole again");
    server.desk.end(server.now, first);
}

#[test]
fn nobody_leaves_for_a_moment_of_one_resource_while_another_is_slow_for_long() {
    let film = film(100_000);
    let mut server = Server::with(ETH0, 5 * rate(&film) / 2);
    server.watch(1, &film);
    let second = server.watch(2, &film);
    server.desk.set_measured(Resource::Disk, 900);
    let weigh = |server: &mut Server, share| {
        server.wait(1.0);
        server.desk.weigh(server.now, &[(1, share)]).ended
    };
    for _ in 0..10 {
        assert_eq!(weigh(&mut server, 1000), []);
    }
    assert_eq!(weigh(&mut server, 500), []);
    // The machine stood still: what was measured in that time counts as one look.
    server.wait(60.0);
    for _ in 1..PATIENCE.as_secs() {
        assert_eq!(weigh(&mut server, 500), []);
    }
    assert_eq!(weigh(&mut server, 500), [second]);
}

#[test]
fn the_slower_of_what_a_link_reports_and_what_is_measured_counts() {
    let mut server = Server::with(ETH0, 1000);
    server.desk.set_measured(ETH0, 300);
    let notices = server.desk.weigh(server.now, &[(1, 500)]).notices;
    assert_eq!((notices.len(), notices[0].share), (1, 300));
    server.desk.set_measured(ETH0, 330);
    let notices = server.desk.weigh(server.now, &[(1, 500)]).notices;
    assert!(notices.is_empty(), "a tenth is worth a notice");
    assert_eq!(server.desk.books().share(ETH0), 330);
}

#[test]
fn where_nothing_is_limited_nothing_is_booked_and_the_register_keeps_its_bounds() {
    let mut server = Server::new(Config::default());
    server.desk.set_bounds(Bounds {
        sessions: 2,
        ..Bounds::default()
    });
    let film = film(100_000);
    let (first, second) = (server.watch(1, &film), server.admit(2, &film).unwrap());
    assert_eq!(server.desk.books().viewers(), 0);
    let refusal = server.reserve(3, &film, Monotonic::MAX).answer.unwrap_err();
    let words = "there are 2 sessions, and `sessions.max` is 2";
    assert_eq!(refusal.reason, words);
    server.wait(2.0);
    let admitted = server.reserve(3, &film, Monotonic::MAX);
    assert_eq!(admitted.ended, [second]);
    assert!(server.desk.begins(server.now, first));
}

#[test]
fn what_a_desk_without_needs_counts_is_free_again() {
    let mut server = Server::new(Config {
        limits: Limits {
            title: 1,
            ..Limits::default()
        },
        ..Config::default()
    });
    let film = film(100_000);
    let id = server.watch(1, &film);
    let refusal = server.admit(2, &film).unwrap_err();
    assert!(refusal.reason.contains("`admission.per_title` is 1"));
    server.desk.end(server.now, id);
    server.desk.end(server.now, id);
    assert!(server.admit(2, &film).is_ok());
}

#[test]
fn who_waits_for_the_beginning_is_judged_by_what_they_need_then() {
    let (large, small) = (film(2_000_000), demand(1000, &[1_000_000; 20]));
    let alone = u64::from(large.memory().peak());
    let capacity = |memory| {
        Capacity::unlimited()
            .with(ETH0, 2 * rate(&large) + 1, 1000)
            .with(Resource::Memory, memory, 1000)
    };
    let wait = |memory| {
        let mut server = Server::new(Config {
            capacity: capacity(memory),
            wait: 60,
            ..Config::default()
        });
        let _ = server.watch(1, &large);
        let _ = server.watch(2, &small);
        // The link has no room before the small film ends; blocks are not shared by then.
        let starts_in = server
            .admit(3, &large)
            .map(|_| server.loads(Resource::Memory));
        starts_in.map(|loads| loads.into_iter().max().unwrap_or(0))
    };
    let both = wait(2 * alone).unwrap();
    assert!(both > alone * 3 / 2, "{both} of {alone} each");
    assert!(wait(both - 1).is_err());
}

#[test]
fn who_waits_is_booked_by_their_distance_to_others_only_where_there_is_room_for_that() {
    // Little memory at first, then much: more between viewers 6 s apart than one needs at first.
    let mut groups = [100_000; 25];
    groups[5..].fill(4_000_000);
    let (film, first, large) = (
        demand(4000, &groups),
        demand(250, &[1_000_000; 20]),
        demand(4000, &[7_000_000; 8]),
    );
    // By how much memory is booked at most; `None` if the newcomer is refused.
    let come = |network, memory| {
        let capacity = Capacity::unlimited().with(ETH0, network, 1000);
        let mut server = Server::new(Config {
            capacity: capacity.with(Resource::Memory, memory, 1000),
            wait: 60,
            ..Config::default()
        });
        for (number, film) in (1..).zip([&film, &first, &large]) {
            let _ = server.admit(number, film).ok()?;
        }
        let reservation = server.reserve(4, &film, Monotonic::MAX).answer.ok()?;
        let max = |of| server.loads(of).into_iter().max().unwrap_or(0);
        let (network, memory) = (max(ETH0), max(Resource::Memory));
        Some((reservation.starts_in, network, memory))
    };
    let much = 1 << 40;
    let (at_once, both, _) = come(much, much).expect("room for all");
    assert_eq!(at_once, Duration::ZERO);
    let waits = |memory| come(both - 10_000, memory);
    let (starts_in, _, beside) = waits(much).expect("room for all");
    assert!(starts_in > seconds(4.0), "{starts_in:?}");
    let admitted: Vec<(u64, u64)> = (0..2 * beside / 100_000)
        .map(|nth| nth * 100_000)
        .filter_map(|memory| Some((memory, waits(memory)?.2)))
        .collect();
    assert!(admitted.iter().any(|(there_is, _)| *there_is < beside));
    for (there_is, booked) in admitted {
        assert!(booked <= there_is, "{booked} of {there_is} are booked");
    }
}

#[test]
fn what_a_viewer_takes_and_who_has_not_played_is_known() {
    let film = film(100_000);
    let mut server = Server::with(ETH0, 10 * rate(&film));
    let id = server.admit(1, &film).unwrap();
    let (wants, link) = server.desk.wants(id).expect("a viewer");
    assert!(Arc::ptr_eq(&wants.demand, &film) && wants.tracks.is_empty());
    assert_eq!(link, Some(1));
    assert_eq!(server.desk.unplayed(), 1);
    assert!(server.desk.begins(server.now, id));
    assert_eq!(server.desk.unplayed(), 0);
    server.desk.end(server.now, id);
    assert!(server.desk.wants(id).is_none());
}

#[test]
fn a_viewer_behind_another_reads_little_until_that_one_leaves() {
    let film = film(100_000);
    let mut server = Server::with(Resource::Disk, 250_000);
    let first = server.watch(1, &film);
    server.wait(20.0);
    // What the first played before may be evicted already: for a while, both read.
    server.watch(2, &film);
    let later = |server: &Server| server.loads(Resource::Disk)[100];
    let alone = later(&server);
    assert!((90_000..150_000).contains(&alone), "one reads: {alone}");
    server.desk.end(server.now, first);
    let after = later(&server);
    assert!(
        (90_000..150_000).contains(&after),
        "the other one reads: {after}"
    );
}

//! Lanes on simulated time: beginning, pausing, seeking, a kernel without room, late groups.

mod world;

use std::sync::Arc;

use proptest::prelude::*;
use reelway_demand::{Carriage, Curve, smooth};
use reelway_media::Nanos;
use reelway_playout::{Link, State, StreamId, TURN, Way};

use world::{MS, World};

#[test]
fn packets_leave_at_their_times_and_bye_follows_the_last() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 100, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    let info = world.answers.remove(&1).expect("it is ready");
    assert_eq!((info.start, info.tracks[0].seq), (0, 65_000));
    assert!(world.sent(1).is_empty(), "nothing leaves before it may go");
    let begins = world.now;
    world.go(1);
    world.run(world.now + 10_000 * MS);
    let sent = world.sent(1);
    assert_eq!(sent.len(), 100);
    for (nth, (at, ..)) in sent.iter().enumerate() {
        let due = begins + nth as u64 * 10 * MS;
        assert!(
            (due..due + TURN).contains(at) || (due - TURN..due).contains(at),
            "{nth}"
        );
    }
    assert_eq!((&*world.byes, &*world.ended), (&[1][..], &[1][..]));
    assert_eq!(world.state(1), State::Ended);
}

#[test]
fn packets_that_the_kernel_holds_leave_at_their_times_by_the_rule() {
    for interval in [10 * MS, MS] {
        let mut world = World::new(vec![3 * MS], Vec::new());
        world.held = true;
        world.add(1, 200, interval as Nanos);
        world.run(world.now + 50 * MS);
        let begins = world.now;
        world.go(1);
        world.run(begins + 10_000 * MS);
        world.check(1).expect("in order, by the rule");
        let sent = world.sent(1);
        assert_eq!(sent.len(), 200);
        for (nth, (leaves, ..)) in sent.iter().enumerate() {
            let due = begins + nth as u64 * interval;
            assert!(
                (due..due + 2 * TURN).contains(leaves),
                "{nth}: {leaves}, {due}"
            );
        }
        // The packets of several milliseconds are handed over at once.
        let film = 200 * interval;
        assert!(
            (world.turns.len() as u64) < film / (2 * TURN),
            "{} turns",
            world.turns.len()
        );
    }
}

#[test]
fn who_gets_the_place_of_one_that_was_touched_and_left_is_walked_once() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    for id in [1, 2] {
        world.add(id, 100, 10 * MS as Nanos);
    }
    world.run(world.now + 50 * MS);
    let begins = world.now;
    world.go(2);
    world.run(world.now + 100 * MS);
    let place = world.lane.place_of(2).expect("a place");
    let stream = world.lane.take_over(place).expect("the stream");
    // All of this happens before the next turn.
    world.now += 5 * MS;
    let place = world.lane.place_of(1).expect("a place");
    world.go(1);
    assert!(world.lane.remove(1).is_some());
    world.lane.arrive(stream, world.now);
    assert_eq!(world.lane.place_of(2), Some(place));
    world.run(world.now + 10_000 * MS);
    world.check(2).expect("in order, by the rule");
    assert_eq!(world.sent(2).len(), 100);
    for (nth, (at, ..)) in world.sent(2).iter().enumerate() {
        let due = begins + nth as u64 * 10 * MS;
        assert!(at + TURN >= due, "packet {nth} at {at}, due at {due}");
    }
}

#[test]
fn a_group_that_is_needed_now_is_urgent_and_one_that_is_read_ahead_is_not() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 3000, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 10_000 * MS);
    let urgent: Vec<bool> = world.wanted.iter().map(|(_, want)| want.urgent).collect();
    assert!(urgent.len() > 2, "{urgent:?}");
    assert!(
        urgent[0] && urgent[1..].iter().all(|urgent| !urgent),
        "{urgent:?}"
    );
}

#[test]
fn a_stream_that_stands_goes_on_with_the_next_packet() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 100, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 300 * MS);
    let at = world.lane.pause(1, world.now).expect("a position");
    world.act();
    assert!((at - 300 * MS as Nanos).unsigned_abs() <= 10 * MS, "{at}");
    let before = world.sent(1).len();
    world.run(world.now + 5_000 * MS);
    assert_eq!(world.sent(1).len(), before, "it stands");
    world.lane.resume(1, 1, world.now);
    world.act();
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 10_000 * MS);
    assert_eq!(world.sent(1).len(), 100);
    world.check(1).expect("in order");
}

#[test]
fn a_stream_that_is_stopped_is_forgotten_and_another_has_its_place() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 100, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 100 * MS);
    let place = world.lane.place_of(1).expect("a place");
    let stream = world.lane.remove(1).expect("the stream");
    assert!(stream.owes_bye());
    let before = world.sent(1).len();
    world.add(2, 10, 10 * MS as Nanos);
    assert_eq!(world.lane.place_of(2), Some(place));
    world.run(world.now + 50 * MS);
    world.go(2);
    world.run(world.now + 1_000 * MS);
    assert_eq!((world.sent(1).len(), world.sent(2).len()), (before, 10));
}

#[test]
fn a_stream_that_begins_while_it_is_seen_to_waits_for_room_on_its_link() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    let way = Arc::new(Way {
        number: 0,
        links: vec![Arc::new(Link::new(1_000_000, 20 * MS, 1))],
    });
    world.way = Some(way.clone());
    let rules = Arc::get_mut(&mut world.rules).expect("no stream yet");
    rules.link_ahead = 1_000 * MS;
    world.add(1, 100, 10 * MS as Nanos);
    world.turn();
    let (_, first) = world.coming.pop_first().expect("it asks for a group");
    world.give(first);
    world.go(1);
    assert!(
        way.take(world.now, 20_000, world.now, 0),
        "the queue is full"
    );
    world.turn();
    assert_eq!((world.state(1), world.sent(1)), (State::Playing, &[][..]));
    let begins = world.now;
    world.run(begins + 19 * MS);
    assert_eq!(world.sent(1), []);
    world.run(begins + 10_000 * MS);
    assert_eq!(world.sent(1).len(), 100);
    world.check(1).expect("in order");
}

#[test]
fn a_standstill_moves_the_timetable_of_all_who_play() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    for id in [1, 2] {
        world.add(id, 100, 10 * MS as Nanos);
    }
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 100 * MS);
    world.now += 3_000 * MS;
    assert_eq!(world.lane.stood_still(3_000 * MS), 1);
    world.run(world.now + 5_000 * MS);
    let sent = world.sent(1);
    assert_eq!(sent.len(), 100);
    let gaps = sent
        .windows(2)
        .filter(|pair| pair[1].0 - pair[0].0 > 20 * MS);
    assert_eq!(gaps.count(), 1, "everything else is 10 ms apart");
    world.check(1).expect("by the rule");
}

#[test]
fn nothing_leaves_between_a_seek_and_the_word_to_go() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 400, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 300 * MS);
    let before = world.sent(1).len();
    world.lane.seek(1, 2_000 * MS as Nanos, None, 2);
    world.act();
    world.run(world.now + 1_000 * MS);
    assert_eq!(world.sent(1).len(), before);
    let info = world.answers.remove(&2).expect("it is ready");
    let seq = 65_000u16.wrapping_add(before as u16);
    assert_eq!((info.start, info.tracks[0].seq), (2_000 * MS as Nanos, seq));
    world.go(1);
    world.run(world.now + 10_000 * MS);
    assert_eq!(world.sent(1).len(), before + 200);
    world.check(1).expect("in order");
}

#[test]
fn a_standstill_moves_the_clock_of_sender_reports_with_it() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 1000, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 100 * MS);
    // RTP time minus wall time, in ticks of a 90 kHz clock.
    let apart = |world: &World| {
        let place = world.lane.place_of(1).expect("a place");
        let stream = world.lane.stream(place).expect("a stream");
        let rtp = stream.rtp_now(&stream.tracks[0], world.now);
        i64::from(rtp) - (world.now * 9 / 100_000) as i64
    };
    let before = apart(&world);
    world.now += 1_200 * MS;
    world.lane.stood_still(1_200 * MS);
    assert_eq!(before - apart(&world), 1_200 * 90);
}

#[test]
fn who_pauses_while_a_group_is_missing_goes_on_where_they_stood() {
    let mut world = World::new(vec![MS], Vec::new());
    world.add(1, 3000, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    // Groups that are requested from now on take a minute.
    world.takes = vec![60_000 * MS];
    world.go(1);
    world.run(world.now + 12_000 * MS);
    let sent = world.sent(1).len() as i64;
    let stood = sent * 10 * MS as Nanos;
    assert!(stood < 11_000 * MS as Nanos, "it waits for a group");
    let at = world.lane.pause(1, world.now).expect("a position");
    world.act();
    assert!((at - stood).unsigned_abs() <= 10 * MS, "{at}, not {stood}");
    world.run(world.now + 5_000 * MS);
    world.takes = vec![MS];
    world.lane.resume(1, 1, world.now);
    world.act();
    world.run(world.now + 50 * MS);
    let resumed = world.now;
    world.go(1);
    world.run(world.now + 1_000 * MS);
    let soon = world.sent(1).iter().filter(|(at, ..)| *at >= resumed);
    let soon = soon.count() as i64;
    assert!((99..=101).contains(&soon), "{soon} packets in a second");
}

#[test]
fn bye_and_the_end_come_a_second_after_the_last_packet() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 100, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    let begins = world.now;
    world.run(begins + 1_900 * MS);
    assert_eq!(world.sent(1).len(), 100);
    assert!(world.byes.is_empty() && world.ended.is_empty());
    world.run(begins + 2_100 * MS);
    assert_eq!((&*world.byes, &*world.ended), (&[1][..], &[1][..]));
}

#[test]
fn sender_reports_come_twice_at_the_beginning_and_then_every_five_seconds() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 1200, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    assert!(world.reports.is_empty(), "nothing has left");
    world.go(1);
    let begins = world.now;
    world.run(begins + 11_000 * MS);
    let at: Vec<u64> = world
        .reports
        .iter()
        .map(|(at, _)| (at - begins) / MS)
        .collect();
    assert_eq!(at.len(), 4, "{at:?}");
    for (at, due) in at.iter().zip([0, 100, 5_100, 10_100]) {
        assert!(at.abs_diff(due) <= 3, "{at} ms, not {due}");
    }
}

#[test]
fn what_has_been_sent_is_counted_and_rtp_time_is_ahead_of_it() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 1000, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 1_000 * MS);
    let place = world.lane.place_of(1).expect("a place");
    let stream = world.lane.stream(place).expect("a stream");
    let sent = world.sent(1).len() as u64;
    assert!((99..=101).contains(&sent));
    assert_eq!(stream.tally().packets, sent);
    assert!(stream.tally().bytes > sent * world::PACKET);
    // 300 ms more than the second that was sent, in ticks of a 9 kHz clock.
    let rtp = stream.rtp_now(&stream.tracks[0], world.now);
    let ahead = i64::from(rtp) - 1_000 * 9;
    assert!((299 * 9..=301 * 9).contains(&ahead), "{ahead} ticks");
}

#[test]
fn a_stream_that_was_held_up_for_long_goes_on_later_and_does_not_hurry() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 300, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    let begins = world.now;
    world.run(begins + 500 * MS);
    // No standstill was reported.
    world.now += 1_000 * MS;
    world.run(begins + 20_000 * MS);
    assert_eq!(world.sent(1).len(), 300);
    let last = world.sent(1)[299].0 - begins;
    assert!((3_700 * MS..4_000 * MS).contains(&last), "{} ms", last / MS);
    world.check(1).expect("by the rule");
}

/// The number of droppable frames left out of 300, if `happens` occurs after half a second.
fn left_out(shifts: u32, happens: impl FnOnce(&mut World)) -> u64 {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.droppable = true;
    world.add(1, 300, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 500 * MS);
    happens(&mut world);
    // All overdue packets leave, some per millisecond, before the others follow on time.
    let owed = world.now;
    world.run(owed + 1_000 * MS);
    let place = world.lane.place_of(1).expect("a place");
    let mishaps = world.lane.stream(place).expect("a stream").mishaps();
    assert_eq!(mishaps.shifts, shifts);
    mishaps.dropped
}

#[test]
fn nothing_is_left_out_for_a_lane_that_was_woken_late() {
    assert_eq!(left_out(0, |world| world.now += 240 * MS), 0);
}

/// The lane looks at the due streams, and is held up for `nanos` before their packets are sent.
fn held_up(world: &mut World, nanos: u64) {
    world.lane.turn(world.now);
    let mut jobs = Vec::new();
    assert!(world.lane.poll(world.now, &mut jobs, &mut Vec::new()));
    world.now += nanos;
    world.lane.settle(world.now);
}

#[test]
fn nothing_is_left_out_for_a_lane_that_is_held_up_while_it_works() {
    assert_eq!(left_out(0, |world| held_up(world, 240 * MS)), 0);
}

#[test]
fn nothing_is_left_out_for_a_lane_that_is_held_up_again_before_it_has_caught_up() {
    let again = |world: &mut World| {
        world.now += 80 * MS;
        held_up(world, 80 * MS);
        held_up(world, 80 * MS);
    };
    assert_eq!(left_out(0, again), 0);
}

#[test]
fn frames_are_left_out_that_the_kernel_has_no_room_for_until_they_are_late() {
    let no_room = |world: &mut World| {
        world.kernel = vec![(0, 0)];
        world.run(world.now + 240 * MS);
        world.kernel.clear();
    };
    assert!(left_out(0, no_room) >= 3);
}

#[test]
fn a_standstill_excuses_nothing_that_is_late_after_it() {
    let after = |world: &mut World| {
        world.now += 3_000 * MS;
        world.lane.stood_still(3_000 * MS);
        world.turn();
        world.kernel = vec![(0, 0)];
        world.run(world.now + 240 * MS);
        world.kernel.clear();
    };
    assert!(left_out(1, after) >= 3);
}

#[test]
fn frames_are_left_out_of_a_lane_that_works_and_is_late() {
    let works = |world: &mut World| {
        // Each turn takes longer than the film time that it sends.
        for _ in 0..9 {
            held_up(world, 30 * MS);
        }
    };
    assert!(left_out(0, works) >= 3);
}

#[test]
fn a_reader_who_takes_nothing_for_five_seconds_is_given_up_and_groups_that_come_later_change_nothing()
 {
    let mut world = World::new(vec![MS], Vec::new());
    world.add_by(1, 3000, 10 * MS as Nanos, Carriage::Tcp, false);
    world.run(world.now + 50 * MS);
    world.room = 20;
    world.go(1);
    let begins = world.now;
    // Groups that are requested from now on come after the end.
    world.takes = vec![20_000 * MS];
    world.run(begins + 5_000 * MS);
    assert!(world.failed.is_empty());
    world.run(begins + 6_000 * MS);
    assert_eq!((world.state(1), &*world.failed), (State::Failed, &[1][..]));
    world.room = u32::MAX;
    world.run(begins + 60_000 * MS);
    let taken: u32 = world.writes.iter().map(|(_, taken)| taken).sum();
    assert_eq!((world.state(1), taken), (State::Failed, 20));
}

#[test]
fn by_a_schedule_packets_leave_before_their_time() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 400, 10 * MS as Nanos);
    world.run(world.now + 50 * MS);
    // A low rate for two seconds, then a high one, sent up to a second ahead.
    let bins = [vec![400; 8], vec![4_000; 8]].concat();
    let (_, schedule) = smooth(&Curve::new(bins), 0, 4);
    let schedule = Arc::new(schedule);
    world.lane.send_by(1, Some(schedule.clone()), world.now);
    world.go(1);
    let begins = world.now;
    world.run(begins + 20_000 * MS);
    let sent = world.sent(1);
    assert_eq!(sent.len(), 400);
    let mut ahead = 0;
    for (nth, (at, ..)) in sent.iter().enumerate() {
        let due = nth as Nanos * 10 * MS as Nanos;
        let leaves = begins + schedule.leaves(due) as u64;
        assert!(at.abs_diff(leaves) <= 2 * TURN, "packet {nth}");
        ahead = ahead.max(begins + due as u64 - at.min(&(begins + due as u64)));
    }
    assert!(ahead > 300 * MS, "{} ms ahead at most", ahead / MS);
}

proptest! {
    #[test]
    fn every_packet_leaves_once_in_order_and_by_the_rule(
        streams in prop::collection::vec((1u64..400, 150_000i64..20_000_000), 1..12),
        takes in prop::collection::vec(0u64..400 * MS, 1..20),
        kernel in prop::collection::vec((0u32..10, 0u32..2), 0..20),
        stalls in prop::collection::vec((0u64..2_000 * MS, 0u64..600 * MS), 0..5),
    ) {
        // At least one entry takes packets, as otherwise none would ever leave.
        let kernel: Vec<_> = kernel.into_iter().chain([(8, 0)]).collect();
        let mut world = World::new(takes, kernel);
        for (nth, (packets, interval)) in streams.iter().enumerate() {
            let id = nth as StreamId + 1;
            world.add(id, *packets, *interval);
            world.run(world.now + 20 * MS);
            world.go(id);
        }
        for (after, lasts) in stalls {
            world.run(world.now + after);
            world.now += lasts;
        }
        world.run(world.now + 600_000 * MS);
        for (nth, (packets, _)) in streams.iter().enumerate() {
            let id = nth as StreamId + 1;
            world.check(id)?;
            prop_assert_eq!(world.sent(id).len() as u64, *packets);
            prop_assert_eq!(world.state(id), State::Ended);
        }
        let mut byes = world.byes.clone();
        byes.sort_unstable();
        prop_assert_eq!(byes.len(), streams.len());
    }
}

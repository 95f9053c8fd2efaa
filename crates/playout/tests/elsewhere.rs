//! Lanes on simulated time: streams that move to another lane, connections, and lost packets.

mod world;

use reelway_demand::Carriage;
use reelway_media::Nanos;
use reelway_playout::{Lane, State, TURN};

use world::{BURST, MS, World};

const STEP: Nanos = 10 * MS as Nanos;

/// Packets with these sequence numbers in this order.
fn in_order(world: &World, packets: u16) -> bool {
    let seqs = world.sent(1).iter().map(|(_, seq, _)| *seq);
    seqs.eq((0..packets).map(|nth| 65_000u16.wrapping_add(nth)))
}

#[test]
fn a_stream_that_moves_to_another_lane_goes_on_with_the_next_packet() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add(1, 1000, STEP);
    world.run(world.now + 50 * MS);
    let place = world.lane.place_of(1).expect("a place");
    assert!(!world.lane.may_move(place), "it does not play");
    world.go(1);
    let begins = world.now;
    world.run(begins + 2005 * MS);
    assert!(world.lane.may_move(place));
    let stream = world.lane.take_over(place).expect("the stream");
    assert!(world.lane.place_of(1).is_none());
    world.lane = Lane::new(1, world.now);
    world.lane.arrive(stream, world.now);
    world.act();
    let place = world.lane.place_of(1).expect("a place");
    assert!(!world.lane.may_move(place), "it moves once");
    world.run(begins + 20_000 * MS);
    assert!(in_order(&world, 1000));
    for (nth, (at, ..)) in world.sent(1).iter().enumerate() {
        let due = begins + nth as u64 * 10 * MS;
        assert!(
            at.abs_diff(due) <= 4 * MS,
            "packet {nth} at {at}, due {due}"
        );
    }
    assert_eq!(world.state(1), State::Ended);
}

#[test]
fn a_lane_that_was_reset_serves_the_streams_that_come_as_a_new_one_does() {
    let turns = [true, false].map(|is_reset| {
        let mut world = World::new(vec![3 * MS], Vec::new());
        world.run(world.now + 7 * MS);
        match is_reset {
            true => world.lane.reset(world.now),
            false => world.lane = Lane::new(0, world.now),
        }
        world.add(1, 100, STEP);
        world.run(world.now + 50 * MS);
        world.go(1);
        let begins = world.now;
        world.run(begins + 10_000 * MS);
        assert!(in_order(&world, 100));
        let last = world.sent(1)[99].0;
        assert!(last.abs_diff(begins + 990 * MS) <= MS, "{last}");
        world.turns
    });
    assert!(turns[0] == turns[1], "it is looked at as often");
}

#[test]
fn packets_that_the_receiver_misses_are_sent_again_once() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add_by(1, 100, STEP, Carriage::UdpV4, true);
    world.add(2, 100, STEP);
    world.run(world.now + 50 * MS);
    (1..=2).for_each(|id| world.go(id));
    world.run(world.now + 205 * MS);
    assert!((20..=22).contains(&world.sent(1).len()));
    let at = world.now;
    // Two packets that were sent, and one that was not; one packet of a stream that cannot
    // retransmit, and one of a track that does not exist.
    world.lane.missed(1, 0, &[65_005, 65_007, 65_050]);
    world.lane.missed(2, 0, &[65_005]);
    world.lane.missed(1, 1, &[65_001]);
    world.run(at + 5 * MS);
    let again: Vec<_> = world
        .again
        .iter()
        .map(|(_, id, packet)| (*id, *packet))
        .collect();
    assert_eq!(again, [(1, 5), (1, 7)]);
    assert!(world.again.iter().all(|(when, ..)| *when <= at + 2 * MS));
    world.run(at + 10_000 * MS);
    assert_eq!(world.again.len(), 2);
    assert!(in_order(&world, 100));
    world.lane.missed(1, 0, &[65_006]);
    world.run(world.now + 100 * MS);
    assert_eq!(world.again.len(), 2, "it has ended");
}

#[test]
fn many_that_are_missed_are_sent_again_by_the_burst_rule_and_no_slower() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add_by(1, 100, STEP, Carriage::UdpV4, true);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 205 * MS);
    let at = world.now;
    let missed: Vec<u16> = (65_000..65_018).collect();
    world.lane.missed(1, 0, &missed);
    world.run(at + 20 * MS);
    let again: Vec<u64> = world.again.iter().map(|(when, ..)| when - at).collect();
    assert_eq!(again.len(), 18);
    assert!(again[17] <= 4 * MS, "{again:?}");
    for (first, from) in again.iter().enumerate() {
        let within = again[first..].iter().filter(|when| **when < from + TURN);
        assert!(within.count() <= usize::from(BURST), "{again:?}");
    }
}

#[test]
fn a_group_that_was_left_behind_is_fetched_back_while_its_packets_can_be_in_time() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add_by(1, 3000, STEP, Carriage::UdpV4, true);
    world.run(world.now + 50 * MS);
    world.go(1);
    let begins = world.now;
    let group = world.packets[&0] as u64;
    // Half a second after the last packet of the first group.
    let at = begins + (group + 50) * 10 * MS;
    world.run(at);
    world.wanted.clear();
    let last_of_first = 65_000u16.wrapping_add(group as u16 - 1);
    world.lane.missed(1, 0, &[last_of_first]);
    world.run(at + 50 * MS);
    let back: Vec<_> = world
        .wanted
        .iter()
        .filter(|(_, want)| want.group == 0)
        .map(|(when, want)| (*when, want.deadline, want.urgent, want.leads))
        .collect();
    let [(when, deadline, true, false)] = back[..] else {
        panic!("{back:?} of groups of {group}");
    };
    assert!(when <= at + 2 * MS, "{} ns later", when - at);
    assert_eq!(deadline, when + 200 * MS);
    let [(again, 1, packet)] = world.again[..] else {
        panic!("{:?}", world.again);
    };
    assert_eq!(u64::from(packet), group - 1);
    assert!((when + 3 * MS..=when + 5 * MS).contains(&again));
    // Two seconds after the last packet of the group was due, all of them are too late.
    let ended = begins + group * 10 * MS;
    for (after, fetched) in [(1_990, true), (2_010, false)] {
        let mut world = World::new(vec![3 * MS], Vec::new());
        world.add_by(1, 3000, STEP, Carriage::UdpV4, true);
        world.run(world.now + 50 * MS);
        world.go(1);
        world.run(ended + after * MS);
        world.wanted.clear();
        world.lane.missed(1, 0, &[last_of_first]);
        world.run(world.now + 50 * MS);
        let back = world.wanted.iter().any(|(_, want)| want.group == 0);
        assert_eq!(back, fetched, "{after} ms after");
    }
    assert!(in_order(&world, world.sent(1).len() as u16));
}

#[test]
fn a_packet_for_which_the_kernel_had_no_room_is_sent_again_in_the_next_millisecond() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add_by(1, 100, STEP, Carriage::UdpV4, true);
    world.run(world.now + 50 * MS);
    world.go(1);
    world.run(world.now + 205 * MS);
    world.lane.missed(1, 0, &[65_005]);
    let turn = world.now.next_multiple_of(TURN);
    world.lane.turn(turn);
    let lost = world.lane.next_lost(turn).expect("a packet");
    world.lane.resent(&lost, None, turn);
    assert!(world.lane.next_lost(turn).is_none());
    world.lane.turn(turn + TURN / 2);
    assert!(world.lane.next_lost(turn + TURN / 2).is_none());
    world.lane.turn(turn + TURN);
    let again = world.lane.next_lost(turn + TURN).expect("a packet");
    assert_eq!(again.at, lost.at);
}

#[test]
fn a_connection_that_takes_all_gets_each_packet_in_its_time() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add_by(1, 100, STEP, Carriage::Tcp, false);
    world.run(world.now + 50 * MS);
    world.go(1);
    let begins = world.now;
    let place = world.lane.place_of(1).expect("a place");
    assert_eq!(world.lane.frames(place), 4);
    world.run(begins + 10_000 * MS);
    assert_eq!(world.writes.len(), 100);
    for (nth, (at, taken)) in world.writes.iter().enumerate() {
        let due = begins + nth as u64 * 10 * MS;
        assert!(*taken == 1 && at.abs_diff(due) <= MS, "packet {nth}");
    }
    assert_eq!(world.state(1), State::Ended);
}

#[test]
fn a_connection_that_is_full_is_tried_less_and_less_and_goes_on_where_it_stood() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add_by(1, 300, STEP, Carriage::Tcp, false);
    world.run(world.now + 50 * MS);
    world.room = 20;
    world.go(1);
    let begins = world.now;
    world.run(begins + 1200 * MS);
    let taken = |world: &World| world.writes.iter().map(|(_, taken)| taken).sum::<u32>();
    assert_eq!(taken(&world), 20);
    // At first after 10 ms, with the wait doubled each time; after 200 ms it only checks for room.
    let full: Vec<u64> = world.writes[20..]
        .iter()
        .map(|(at, _)| (at - begins) / MS)
        .collect();
    assert!((3..=7).contains(&full.len()), "{full:?}");
    let waits: Vec<u64> = full.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(
        waits.windows(2).all(|two| two[1] + 1 >= 2 * two[0] - 1),
        "{waits:?}"
    );
    assert!(full.last().is_some_and(|last| *last < 700), "{full:?}");
    // There is room again: all that was missed follows, faster than real time.
    world.room = u32::MAX;
    let at = world.now;
    world.run(at + 10_000 * MS);
    assert_eq!(taken(&world), 300);
    let late = |(when, _): &&(u64, u32)| *when > at && *when < at + 1300 * MS;
    let caught_up = world.writes.iter().filter(late).count();
    assert!(caught_up > 200, "{caught_up}");
    assert_eq!(world.state(1), State::Ended);
    let last = world.writes.last().expect("writes").0;
    assert!(
        last.abs_diff(begins + 2990 * MS) <= 2 * MS,
        "back in time at the end"
    );
}

#[test]
fn who_pauses_behind_a_full_connection_stands_at_what_it_did_not_take() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add_by(1, 3000, STEP, Carriage::Tcp, false);
    world.run(world.now + 50 * MS);
    // Some packets of the second group.
    world.room = 350;
    world.go(1);
    let begins = world.now;
    world.run(begins + 4_500 * MS);
    let at = world.lane.pause(1, world.now).expect("a position");
    world.act();
    let stood = 350 * STEP;
    assert!((at - stood).unsigned_abs() <= 10 * MS, "{at}, not {stood}");
    // It continues from there at once.
    world.room = u32::MAX;
    world.lane.resume(1, 1, world.now);
    world.act();
    world.run(world.now + 50 * MS);
    let resumed = world.now;
    world.go(1);
    world.run(resumed + 1_000 * MS);
    let soon = world.writes.iter().filter(|(at, _)| *at >= resumed);
    let soon: u32 = soon.map(|(_, taken)| taken).sum();
    assert!((99..=101).contains(&soon), "{soon} packets in a second");
}

#[test]
fn what_a_reader_needs_who_reads_again_is_not_due_in_the_past() {
    let mut world = World::new(vec![3 * MS], Vec::new());
    world.add_by(1, 3000, STEP, Carriage::Tcp, false);
    world.run(world.now + 50 * MS);
    world.room = 250;
    world.go(1);
    // The reader has read all but some packets of the first group, and stops reading
    // for some seconds.
    world.run(world.now + 6_500 * MS);
    let (before, again) = (world.wanted.len(), world.now);
    world.room = u32::MAX;
    world.run(again + 100 * MS);
    let wanted = &world.wanted[before..];
    assert!(
        wanted.len() >= 2,
        "the group at hand, and the next: {wanted:?}"
    );
    for (at, want) in wanted {
        assert!(want.deadline >= *at, "{want:?} at {at}");
    }
}

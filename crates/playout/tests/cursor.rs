//! A viewer's position in a track, step by step.

use std::sync::Arc;

use reelway_demand::Leaving;
use reelway_media::Nanos;
use reelway_playout::{Cursor, Cut, Group, GroupPlan, InMemory, Outline, PacketPlace, StreamError};
use reelway_rtp::{Frame, Packet, Plan};

const MS: Nanos = 1_000_000;
/// The duration of a group, and the time from one to the next.
const GROUP: Nanos = 256 * MS;

/// Bytes that are never read, in the given number of blocks.
struct Blocks(usize);

impl InMemory for Blocks {
    fn blocks(&self) -> usize {
        self.0
    }

    fn start(&self) -> u64 {
        0
    }

    fn prefetch(&self, _: u64, _: u32) {}
}

/// An outline of three groups.
fn outline() -> Outline {
    let outline = Outline::file(Cut::new(0..3 * 256_000, 1000, MS, 1));
    assert_eq!((outline.groups(0), outline.group_due(0, 2)), (3, 2 * GROUP));
    outline
}

/// A frame: its number of packets, whether a decoder may start with it, and whether it can
/// be left out.
type Shape = (u32, bool, bool);

const SYNC: Shape = (1, true, false);
const PLAIN: Shape = (1, false, false);
const EXTRA: Shape = (1, false, true);

/// The `nth` group, with frames of 10 ms each, in two blocks of memory.
fn group(nth: usize, frames: &[Shape], leaving: &[Leaving]) -> Arc<Group<Blocks>> {
    let mut plan = Plan::default();
    for (number, (packets, sync, droppable)) in (0..).zip(frames) {
        let due = nth as Nanos * GROUP + number * 10 * MS;
        let first = plan.packets.len() as u32;
        for _ in 0..*packets {
            plan.packets.push(Packet::of_film(0, 100, false));
        }
        plan.frames.push(Frame {
            due,
            duration: 10 * MS,
            shown: due,
            rtp_time: number as u32,
            packets: first..first + packets,
            sync: *sync,
            droppable: *droppable,
        });
    }
    let plan = GroupPlan {
        plan: Arc::new(plan),
        leaving: leaving.into(),
        range: 0..1,
    };
    Arc::new(Group::new(plan, Blocks(2)))
}

fn failed() -> StreamError {
    StreamError("broken".to_owned())
}

/// A cursor at the beginning, with a preface of `preface` packets.
fn cursor(preface: u32) -> Cursor<Blocks> {
    let mut cursor = Cursor::new(0, 3, preface, 8, false);
    assert!(cursor.is_done(), "it is nowhere yet");
    cursor.place(Some((0, 0)), Nanos::MAX);
    cursor
}

/// The next packets, and when they are due.
fn head(cursor: &Cursor<Blocks>) -> (std::ops::Range<u32>, Nanos) {
    let head = cursor.head().expect("something to send");
    (head.packets.clone(), head.due)
}

/// Group, packet in its plan, and packet of the preface.
fn at(cursor: &Cursor<Blocks>) -> Option<(u32, u32, Option<u16>)> {
    let (place, _) = cursor.at()?;
    let PacketPlace {
        group,
        packet,
        preface,
    } = place;
    Some((group, packet, preface))
}

#[test]
fn the_group_at_hand_is_asked_for_at_once_and_the_next_when_it_is_due_soon() {
    let outline = outline();
    let mut cursor = cursor(0);
    assert_eq!(
        (cursor.missing(&outline), cursor.is_ready()),
        (Some(0), false)
    );
    assert_eq!(cursor.want(&outline, Nanos::MIN), Some((0, 0)));
    assert_eq!(cursor.want(&outline, Nanos::MAX), None, "it was asked for");
    assert_eq!(cursor.asks(&outline), None);
    cursor.ask_again();
    assert_eq!(cursor.want(&outline, 0), Some((0, 0)));
    cursor.give(0, Ok(group(0, &[SYNC], &[]))).unwrap();
    assert_eq!((cursor.missing(&outline), cursor.is_ready()), (None, true));
    assert_eq!(cursor.asks(&outline), Some(GROUP));
    assert_eq!(cursor.want(&outline, GROUP), None);
    assert_eq!(cursor.asks(&outline), Some(GROUP));
    assert_eq!(cursor.want(&outline, GROUP + 1), Some((1, GROUP)));
    assert_eq!(cursor.want(&outline, Nanos::MAX), None);
    cursor.give(1, Ok(group(1, &[SYNC], &[]))).unwrap();
    assert_eq!(cursor.want(&outline, Nanos::MAX), None, "two are enough");
    assert_eq!((cursor.held().count(), cursor.blocks()), (2, 4));
    // The last group has no next one.
    cursor.advance(1).unwrap();
    cursor.give(2, Ok(group(2, &[SYNC], &[]))).unwrap();
    cursor.advance(1).unwrap();
    assert_eq!(
        (at(&cursor), cursor.want(&outline, Nanos::MAX)),
        (Some((2, 0, None)), None)
    );
    cursor.advance(1).unwrap();
    assert!(cursor.is_done() && cursor.is_ready() && cursor.held().count() == 0);
    assert_eq!(
        (cursor.missing(&outline), cursor.asks(&outline)),
        (None, None)
    );
}

#[test]
fn nothing_is_asked_for_beyond_the_end_of_the_range() {
    let outline = outline();
    for (end, next) in [(GROUP, None), (GROUP + 1, Some((1, GROUP)))] {
        let mut cursor = cursor(0);
        cursor.place(Some((0, 0)), end);
        assert_eq!(cursor.want(&outline, Nanos::MAX), Some((0, 0)));
        cursor.give(0, Ok(group(0, &[SYNC], &[]))).unwrap();
        assert_eq!(cursor.want(&outline, Nanos::MAX), next, "to {end}");
    }
}

#[test]
fn packets_leave_one_after_the_other_over_the_ends_of_frames_and_groups() {
    let mut cursor = cursor(0);
    cursor
        .give(0, Ok(group(0, &[(3, true, false), (2, false, false)], &[])))
        .unwrap();
    assert_eq!(
        (at(&cursor), head(&cursor)),
        (Some((0, 0, None)), (0..3, 0))
    );
    cursor.advance(2).unwrap();
    assert_eq!(
        (at(&cursor), head(&cursor)),
        (Some((0, 2, None)), (2..3, 0))
    );
    assert_eq!(cursor.untouched(), None);
    cursor.advance(1).unwrap();
    assert_eq!(
        (at(&cursor), head(&cursor)),
        (Some((0, 3, None)), (0..2, 10 * MS))
    );
    assert_eq!(cursor.untouched(), Some(10 * MS));
    let unit = cursor.unit(|| None).expect("a frame");
    assert_eq!(
        (unit.packets.len(), unit.due, unit.duration, unit.rtp_time),
        (2, 10 * MS, 10 * MS, 1)
    );
    cursor.advance(2).unwrap();
    assert!(
        cursor.head().is_none() && !cursor.is_ready(),
        "the next group is not here"
    );
    assert_eq!(at(&cursor), None);
    let next = group(1, &[SYNC], &[]);
    cursor.give(1, Ok(next.clone())).unwrap();
    assert_eq!(
        (at(&cursor), head(&cursor)),
        (Some((1, 0, None)), (0..1, GROUP))
    );
    assert!(cursor.group(0).is_none() && Arc::ptr_eq(cursor.group(1).expect("at hand"), &next));
}

#[test]
fn a_large_frame_is_sent_in_slices() {
    let mut cursor = cursor(0);
    cursor
        .give(0, Ok(group(0, &[(20, true, false)], &[])))
        .unwrap();
    // A burst of 8: three slices at intervals of a third of 10 ms.
    let mut slices = Vec::new();
    while at(&cursor).is_some() {
        let (packets, due) = head(&cursor);
        let count = packets.end - packets.start;
        slices.push((packets, due));
        cursor.advance(count).unwrap();
    }
    assert_eq!(slices, [(0..6, 0), (6..13, 3_333_333), (13..20, 6_666_666)]);
}

#[test]
fn the_preface_comes_first_and_its_frame_cannot_be_left_out_before() {
    let mut cursor = cursor(2);
    cursor.give(0, Ok(group(0, &[EXTRA, EXTRA], &[]))).unwrap();
    let preface = Plan {
        packets: vec![Packet::of_film(0, 10, false); 2],
        ..Plan::default()
    };
    assert_eq!(cursor.at().map(|(_, before)| before), Some(2));
    for sent in 0..2 {
        assert_eq!(at(&cursor), Some((0, 0, Some(sent))));
        assert_eq!(head(&cursor), (u32::from(sent)..2, 0));
        let unit = cursor.unit(|| Some(&preface)).expect("the preface");
        assert_eq!((unit.packets.len(), unit.due, unit.duration), (2, 0, 0));
        assert_eq!((cursor.droppable(), cursor.untouched()), (None, None));
        cursor.advance(1).unwrap();
    }
    assert_eq!(at(&cursor), Some((0, 0, None)));
    assert_eq!(cursor.at().map(|(_, before)| before), Some(0));
    assert_eq!((cursor.droppable(), cursor.untouched()), (Some(0), Some(0)));
}

#[test]
fn frames_that_are_left_out_are_passed_over() {
    let mut cursor = cursor(0);
    cursor
        .give(
            0,
            Ok(group(0, &[SYNC, EXTRA, (3, false, true), PLAIN], &[])),
        )
        .unwrap();
    cursor.give(1, Ok(group(1, &[SYNC], &[]))).unwrap();
    assert_eq!(cursor.droppable(), None);
    cursor.advance(1).unwrap();
    assert_eq!(cursor.droppable(), Some(10 * MS));
    cursor.skip().unwrap();
    assert_eq!(
        (at(&cursor), cursor.droppable()),
        (Some((0, 2, None)), Some(20 * MS))
    );
    cursor.advance(1).unwrap();
    assert_eq!(cursor.droppable(), None, "a part of it was sent");
    cursor.advance(2).unwrap();
    assert_eq!(
        (at(&cursor), cursor.droppable()),
        (Some((0, 5, None)), None)
    );
    cursor.skip().unwrap();
    assert_eq!(at(&cursor), Some((1, 0, None)));
}

#[test]
fn a_place_within_a_group_is_the_frame_that_it_lies_in() {
    for (from, packet) in [
        (0, 0),
        (9 * MS, 0),
        (10 * MS, 1),
        (19 * MS, 1),
        (20 * MS, 2),
        (29 * MS, 2),
    ] {
        let mut cursor = cursor(0);
        cursor.place(Some((0, from)), Nanos::MAX);
        assert_eq!(cursor.missing(&outline()), Some(from));
        cursor
            .give(0, Ok(group(0, &[SYNC, PLAIN, PLAIN], &[])))
            .unwrap();
        assert_eq!(at(&cursor), Some((0, packet, None)), "from {from}");
    }
    // A position behind all frames of the group is in the next group.
    let mut cursor = cursor(0);
    cursor.place(Some((0, 30 * MS)), Nanos::MAX);
    cursor.give(1, Ok(group(1, &[SYNC], &[]))).unwrap();
    cursor
        .give(0, Ok(group(0, &[SYNC, PLAIN, PLAIN], &[])))
        .unwrap();
    assert_eq!(at(&cursor), Some((1, 0, None)));
}

#[test]
fn the_range_ends_before_the_frame_that_is_due_then() {
    for (end, frames) in [
        (0, 0),
        (1, 1),
        (10 * MS, 1),
        (10 * MS + 1, 2),
        (20 * MS, 2),
        (Nanos::MAX, 3),
    ] {
        let mut cursor = cursor(0);
        cursor.place(
            Some((2, 0)),
            if end == Nanos::MAX {
                end
            } else {
                2 * GROUP + end
            },
        );
        cursor
            .give(2, Ok(group(2, &[SYNC, PLAIN, PLAIN], &[])))
            .unwrap();
        let mut sent = 0;
        while !cursor.is_done() {
            cursor.advance(1).unwrap();
            sent += 1;
        }
        assert_eq!(sent, frames, "to {end}");
    }
    let mut nowhere = cursor(0);
    nowhere.place(None, Nanos::MAX);
    assert!(nowhere.is_done());
    nowhere.place(Some((3, 0)), Nanos::MAX);
    assert!(nowhere.is_done(), "there are three groups");
}

#[test]
fn the_next_sync_frame_is_behind_the_one_at_hand_and_before_the_end() {
    let mut cursor = cursor(0);
    cursor
        .give(0, Ok(group(0, &[SYNC, PLAIN, SYNC, PLAIN], &[])))
        .unwrap();
    assert_eq!(cursor.next_sync(), Some(20 * MS));
    (0..2).for_each(|_| cursor.advance(1).unwrap());
    assert_eq!(cursor.next_sync(), None, "the next group is not here");
    cursor.give(1, Ok(group(1, &[PLAIN, SYNC], &[]))).unwrap();
    assert_eq!(cursor.next_sync(), Some(GROUP + 10 * MS));
    for (end, sync) in [(20 * MS, None), (20 * MS + 1, Some(20 * MS))] {
        cursor.place(Some((0, 0)), end);
        cursor
            .give(0, Ok(group(0, &[SYNC, PLAIN, SYNC, PLAIN], &[])))
            .unwrap();
        assert_eq!(cursor.next_sync(), sync, "to {end}");
    }
}

#[test]
fn what_is_sent_ahead_leaves_when_its_plan_says_unless_that_is_not_wanted() {
    let leaving = [Leaving {
        due: 0,
        first: -100 * MS,
        last: -40 * MS,
    }];
    for (even, dues) in [
        // 16 packets in two slices by the burst rule: over 60 ms, or over the frame's 10 ms.
        (true, [-100 * MS, -70 * MS]),
        (false, [0, 5 * MS]),
    ] {
        let mut cursor = Cursor::new(0, 1, 0, 8, even);
        cursor.place(Some((0, 0)), Nanos::MAX);
        cursor
            .give(0, Ok(group(0, &[(16, true, false)], &leaving)))
            .unwrap();
        let first = head(&cursor);
        cursor.advance(8).unwrap();
        assert_eq!([first, head(&cursor)], [(0..8, dues[0]), (8..16, dues[1])]);
        assert_eq!(cursor.unit(|| None).expect("a frame").due, 0);
    }
}

#[test]
fn a_group_that_cannot_be_had_fails_when_it_is_at_hand() {
    let mut cursor = cursor(0);
    assert!(cursor.give(0, Err(failed())).is_err());
    cursor.give(0, Ok(group(0, &[SYNC], &[]))).unwrap();
    cursor.give(1, Err(failed())).unwrap();
    assert_eq!((cursor.held().count(), cursor.next_sync()), (1, None));
    assert!(cursor.advance(1).is_err());
    // Groups that were not requested are ignored.
    let mut other = self::cursor(0);
    other.give(2, Err(failed())).unwrap();
    other.give(2, Ok(group(2, &[SYNC], &[]))).unwrap();
    assert_eq!(other.held().count(), 0);
    other.place(None, 0);
    other.give(0, Err(failed())).unwrap();
}

#[test]
fn a_cursor_that_lets_go_keeps_its_place() {
    let outline = outline();
    let mut cursor = cursor(0);
    assert_eq!(cursor.want(&outline, 0), Some((0, 0)));
    cursor
        .give(0, Ok(group(0, &[(2, true, false), PLAIN], &[])))
        .unwrap();
    cursor.advance(2).unwrap();
    let due = cursor.unit(|| None).expect("a frame").due;
    assert!(due > 0, "in the middle of its group");
    assert_eq!(cursor.missing(&outline), None);
    cursor.let_go();
    assert_eq!((cursor.held().count(), cursor.is_ready()), (0, false));
    assert_eq!(cursor.missing(&outline), Some(due));
    assert_eq!(cursor.want(&outline, 0), Some((0, 0)));
    cursor
        .give(0, Ok(group(0, &[(2, true, false), PLAIN], &[])))
        .unwrap();
    assert_eq!(at(&cursor), Some((0, 2, None)));
}

//! Lanes on simulated time: streams that begin, stand still and go elsewhere, a kernel without room, groups that come late.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use reelway_demand::Carriage;
use reelway_media::Nanos;
use reelway_playout::{
    Cursor, Cut, Effect, Group, Host, InMemory, Job, Lane, NewStream, Outline, PlayInfo, Prefetch,
    Rules, Script, Share, State, Stream, StreamId, TURN, Track, Want,
};
use reelway_rtp::Bytes;

const MS: u64 = 1_000_000;
const BURST: u16 = 8;
/// Bytes of a packet's payload.
const PACKET: u64 = 1000;

/// Bytes that nobody looks at.
struct Nothing;

impl InMemory for Nothing {
    fn blocks(&self) -> usize {
        1
    }

    fn start(&self) -> u64 {
        0
    }

    fn prefetch(&self, _: u64, _: u32) {}
}

impl Bytes for Nothing {
    fn read_at(&self, _: u64, bytes: &mut [u8]) -> bool {
        bytes.fill(0);
        true
    }
}

struct File(Outline);

impl Script for File {
    fn outline(&self) -> &Outline {
        &self.0
    }

    fn lead(&self) -> u64 {
        200 * MS
    }
}

struct Beside;

impl Prefetch for Beside {
    fn prefetch(&self) {}
}

/// There is always room.
struct Free;

impl Share for Free {
    type Part = ();
    type Ticket = ();

    fn take(&self, _: usize) -> Option<()> {
        Some(())
    }

    fn take_in_turn(&self, _: &mut Option<()>, _: usize) -> Option<()> {
        Some(())
    }
}

enum Test {}

impl Host for Test {
    type Bytes = Nothing;
    type Script = File;
    type Path = Beside;
    type Owner = Beside;
    type Reply = StreamId;
    type Share = Free;
}

/// What a stream has sent: when, and the sequence number of each packet; whether the kernel took it.
type Sent = Vec<(u64, u16, bool)>;

/// A lane and what surrounds it.
struct World {
    now: u64,
    lane: Lane<Test>,
    rules: Arc<Rules<Free>>,
    /// Groups that are on their way, by when they come.
    coming: BTreeMap<(u64, u64), (StreamId, Want)>,
    serial: u64,
    /// How long a group takes, ns: one after the other of these.
    takes: Vec<u64>,
    answers: HashMap<StreamId, PlayInfo>,
    ended: Vec<StreamId>,
    byes: Vec<StreamId>,
    sent: HashMap<StreamId, Sent>,
    /// How many packets the kernel takes of a job, and how many it refuses then: one after the other of these.
    kernel: Vec<(u32, u32)>,
    jobs: u64,
}

impl World {
    fn new(takes: Vec<u64>, kernel: Vec<(u32, u32)>) -> World {
        let rules = Rules {
            burst: BURST,
            drop_after: 200 * MS,
            ahead: 2_000 * MS as Nanos,
            link_ahead: 0,
            lag_limit: 5_000 * MS,
            catch_up: 250 * MS,
            report_interval: 5_000 * MS,
            behind: Free,
            again: Free,
        };
        let now = 1_000_000 * MS;
        World {
            now,
            lane: Lane::new(0, now),
            rules: Arc::new(rules),
            coming: BTreeMap::new(),
            serial: 0,
            takes,
            answers: HashMap::new(),
            ended: Vec::new(),
            byes: Vec::new(),
            sent: HashMap::new(),
            kernel,
            jobs: 0,
        }
    }

    /// A stream of so many packets, one every `interval` ns.
    fn add(&mut self, id: StreamId, packets: u64, interval: Nanos) {
        let cut = Cut::new(0..packets * PACKET, PACKET, interval, 90);
        let outline = Outline::file(cut);
        let groups = outline.groups(0);
        let track = Track {
            ssrc: id as u32,
            rtp_base: 0,
            packets: 0,
            octets: 0,
            seq: 65_000,
            payload_type: 96,
            resend: None,
            cursor: Cursor::new(0, groups, 0, BURST, true),
            path: Beside,
        };
        let stream = Stream::new(NewStream {
            id,
            script: Arc::new(File(outline)),
            tracks: vec![track],
            carriage: Carriage::UdpV4,
            held: false,
            link: None,
            rules: self.rules.clone(),
            wish: (0, None),
            reply: id,
            owner: Beside,
        });
        self.lane.add(Box::new(stream));
        self.act();
    }

    fn next_of<T: Copy>(list: &[T], nth: u64) -> Option<T> {
        let count = list.len().max(1) as u64;
        list.get((nth % count) as usize).copied()
    }

    /// Does what the lane has asked for.
    fn act(&mut self) {
        while let Some((place, effect)) = self.lane.effect() {
            let stream = self.lane.stream(place).expect("a stream");
            let id = stream.id();
            match effect {
                Effect::Locate { epoch, wish } => {
                    let found = stream.script().0.locate(&[0], wish);
                    self.lane.located(id, epoch, found, self.now);
                }
                Effect::Want(want) => {
                    self.serial += 1;
                    let takes = World::next_of(&self.takes, self.serial).unwrap_or(0);
                    let at = (self.now + takes, self.serial);
                    self.coming.insert(at, (id, want));
                }
                Effect::Answer(reply, info) => {
                    self.answers.insert(reply, info.expect("a beginning"));
                }
                Effect::State(State::Ended) => self.ended.push(id),
                Effect::Report { bye: true } => self.byes.push(id),
                Effect::State(_) | Effect::Report { .. } => {}
                Effect::Failed(error) => panic!("{error}"),
            }
        }
    }

    fn give(&mut self, (id, want): (StreamId, Want)) {
        let Some(place) = self.lane.place_of(id) else {
            return;
        };
        let script = self.lane.stream(place).expect("a stream").script().clone();
        let group = (0, want.group);
        let wanted = script.0.wanted(group).expect("what to read");
        let plan = script
            .0
            .plan(group, &wanted.samples, &Nothing, wanted.range)
            .expect("a plan");
        let group = Arc::new(Group::new(plan, Nothing));
        let which = (want.epoch, want.track, want.group);
        self.lane.planned(id, which, Ok(group), self.now);
        self.act();
    }

    /// Goes on until `end`, or until nothing is due any more.
    fn run(&mut self, end: u64) {
        loop {
            let group = self.coming.first_key_value().map(|((at, _), _)| *at);
            let turn = self.lane.next_turn(self.now);
            let Some(next) = group.into_iter().chain(turn).min().filter(|at| *at < end) else {
                self.now = self.now.max(end);
                return;
            };
            self.now = self.now.max(next);
            while let Some(entry) = self.coming.first_entry()
                && entry.key().0 <= self.now
            {
                let what = entry.remove();
                self.give(what);
            }
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.lane.turn(self.now);
        let (mut jobs, mut connections) = (Vec::new(), Vec::new());
        while self.lane.poll(self.now, &mut jobs, &mut connections) {
            self.act();
            for job in jobs.drain(..) {
                self.send(&job);
            }
            self.lane.settle(self.now);
            self.act();
        }
        assert!(connections.is_empty());
    }

    fn send(&mut self, job: &Job) {
        let stream = self.lane.stream(job.place).expect("a stream");
        let (id, seq) = (stream.id(), stream.tracks[0].seq);
        let all = job.due.end - job.due.first;
        assert!(all > 0 && job.due.at < self.now + TURN, "{job:?}");
        self.jobs += 1;
        let (takes, refuses) = World::next_of(&self.kernel, self.jobs).unwrap_or((all, 0));
        let taken = takes.min(all);
        let refused = refuses.min(all - taken);
        let log = self.sent.entry(id).or_default();
        for nth in 0..taken + refused {
            log.push((self.now, seq.wrapping_add(nth as u16), nth < taken));
        }
        self.lane.taken(job, (taken, refused), self.now);
    }

    fn go(&mut self, id: StreamId) {
        self.lane.go(id, self.now);
        self.act();
    }

    fn sent(&self, id: StreamId) -> &[(u64, u16, bool)] {
        self.sent.get(&id).map_or(&[], Vec::as_slice)
    }

    fn state(&self, id: StreamId) -> State {
        let place = self.lane.place_of(id).expect("a place");
        self.lane.stream(place).expect("a stream").state()
    }

    /// Each packet left once, in order, and no millisecond saw more than the rule allows.
    fn check(&self, id: StreamId) -> Result<(), TestCaseError> {
        let sent = self.sent(id);
        for (nth, (_, seq, _)) in sent.iter().enumerate() {
            prop_assert_eq!(*seq, 65_000u16.wrapping_add(nth as u16));
        }
        for (first, (from, ..)) in sent.iter().enumerate() {
            let within = sent[first..]
                .iter()
                .take_while(|(at, ..)| *at < from + TURN)
                .count();
            prop_assert!(
                within <= usize::from(BURST),
                "{} packets from {}",
                within,
                from
            );
        }
        Ok(())
    }
}

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
    // RTP time less the time on the clock, in ticks of a 90 kHz clock.
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
    // Those that are asked for from now on do not come for a minute.
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

proptest! {
    #[test]
    fn every_packet_leaves_once_in_order_and_by_the_rule(
        streams in prop::collection::vec((1u64..400, 150_000i64..20_000_000), 1..12),
        takes in prop::collection::vec(0u64..400 * MS, 1..20),
        kernel in prop::collection::vec((0u32..10, 0u32..2), 0..20),
        stalls in prop::collection::vec((0u64..2_000 * MS, 0u64..600 * MS), 0..5),
    ) {
        // One that takes something now and then, or nothing would ever leave.
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

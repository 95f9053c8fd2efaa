//! A lane on simulated time, with a kernel that may have no room, connections, and late groups.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use proptest::prelude::*;
use reelway_demand::Carriage;
use reelway_media::Nanos;
use reelway_playout::{
    Again, Cursor, Cut, Effect, Frame, Group, Host, InMemory, Job, Lane, NewStream, OnLink,
    Outline, PlayInfo, Prefetch, Resend, Rules, Script, Share, State, Stream, StreamId, TURN,
    Track, Want, Way,
};
use reelway_rtp::Bytes;

pub const MS: u64 = 1_000_000;
pub const BURST: u16 = 8;
/// The payload size of a packet, bytes.
pub const PACKET: u64 = 1000;

/// Bytes that are never read.
pub struct Nothing;

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

pub struct File(Outline);

impl Script for File {
    fn outline(&self) -> &Outline {
        &self.0
    }

    fn lead(&self) -> u64 {
        200 * MS
    }
}

pub struct Beside;

impl Prefetch for Beside {
    fn prefetch(&self) {}
}

/// A share that always grants memory.
pub struct Free;

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

pub enum Test {}

impl Host for Test {
    type Bytes = Nothing;
    type Script = File;
    type Path = Beside;
    type Owner = Beside;
    type Reply = StreamId;
    type Share = Free;
}

/// The packets that a stream has sent: time, sequence number, and whether the kernel
/// took the packet.
pub type Sent = Vec<(u64, u16, bool)>;

/// A lane and its environment.
pub struct World {
    pub now: u64,
    pub lane: Lane<Test>,
    pub rules: Arc<Rules<Free>>,
    /// Groups in preparation, by the time at which they arrive.
    pub coming: BTreeMap<(u64, u64), (StreamId, Want)>,
    pub serial: u64,
    /// How long groups take, ns: used in turn.
    pub takes: Vec<u64>,
    pub answers: HashMap<StreamId, PlayInfo>,
    pub ended: Vec<StreamId>,
    pub failed: Vec<StreamId>,
    pub byes: Vec<StreamId>,
    /// Sender reports without BYE: time and stream.
    pub reports: Vec<(u64, StreamId)>,
    pub sent: HashMap<StreamId, Sent>,
    /// How many packets of a job the kernel takes, and how many it then refuses: used in turn.
    pub kernel: Vec<(u32, u32)>,
    pub jobs: u64,
    /// How many packets connections take before they are full.
    pub room: u32,
    /// Writes: time, and the number of packets taken.
    pub writes: Vec<(u64, u32)>,
    /// Whether no frame is needed by another one.
    pub droppable: bool,
    /// Whether the kernel holds packets until they should leave; that is then the time of sending.
    pub held: bool,
    /// The times at which the lane was looked at.
    pub turns: Vec<u64>,
    /// Groups that were requested, with the time.
    pub wanted: Vec<(u64, Want)>,
    /// The number of packets of each group that arrived.
    pub packets: HashMap<usize, usize>,
    /// The limited link over which streams added from now on are sent.
    pub way: Option<Arc<Way>>,
    /// Packets sent again: time, stream, and number in the group.
    pub again: Vec<(u64, StreamId, u32)>,
}

impl World {
    pub fn new(takes: Vec<u64>, kernel: Vec<(u32, u32)>) -> World {
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
            failed: Vec::new(),
            byes: Vec::new(),
            reports: Vec::new(),
            sent: HashMap::new(),
            kernel,
            jobs: 0,
            room: u32::MAX,
            writes: Vec::new(),
            droppable: false,
            held: false,
            turns: Vec::new(),
            wanted: Vec::new(),
            packets: HashMap::new(),
            way: None,
            again: Vec::new(),
        }
    }

    /// Adds a stream of `packets` packets, one every `interval` ns.
    pub fn add(&mut self, id: StreamId, packets: u64, interval: Nanos) {
        self.add_by(id, packets, interval, Carriage::UdpV4, false);
    }

    /// Adds a stream over `carriage`; with `again`, lost packets are sent again.
    pub fn add_by(
        &mut self,
        id: StreamId,
        packets: u64,
        interval: Nanos,
        carriage: Carriage,
        again: bool,
    ) {
        let again = again.then(|| {
            Resend::new(Again {
                payload_type: 112,
                ssrc: 1000 + id as u32,
                seq: 0,
            })
        });
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
            resend: again.map(Box::new),
            cursor: Cursor::new(0, groups, 0, BURST, true),
            path: Beside,
        };
        let way = self.way.clone();
        let link = way.map(|way| Box::new(OnLink::new(way, self.rules.link_ahead, u64::MAX)));
        let stream = Stream::new(NewStream {
            id,
            script: Arc::new(File(outline)),
            tracks: vec![track],
            carriage,
            held: self.held,
            link,
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

    /// Carries out the lane's effects.
    pub fn act(&mut self) {
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
                    self.wanted.push((self.now, want));
                    let takes = World::next_of(&self.takes, self.serial).unwrap_or(0);
                    let at = (self.now + takes, self.serial);
                    self.coming.insert(at, (id, want));
                }
                Effect::Answer(reply, info) => {
                    self.answers.insert(reply, info.expect("a beginning"));
                }
                Effect::State(State::Ended) => self.ended.push(id),
                Effect::Report { bye: true } => self.byes.push(id),
                Effect::Report { bye: false } => self.reports.push((self.now, id)),
                Effect::State(_) => {}
                Effect::Failed(_) => self.failed.push(id),
            }
        }
    }

    pub fn give(&mut self, (id, want): (StreamId, Want)) {
        let Some(place) = self.lane.place_of(id) else {
            return;
        };
        let script = self.lane.stream(place).expect("a stream").script().clone();
        let group = (0, want.group);
        let wanted = script.0.wanted(group).expect("what to read");
        let mut plan = script
            .0
            .plan(group, &wanted.samples, &Nothing, wanted.range)
            .expect("a plan");
        for frame in &mut Arc::make_mut(&mut plan.plan).frames {
            frame.droppable |= self.droppable;
        }
        self.packets.insert(want.group, plan.plan.packets.len());
        let group = Arc::new(Group::new(plan, Nothing));
        let which = (want.epoch, want.track, want.group);
        self.lane.planned(id, which, Ok(group), self.now);
        self.act();
    }

    /// Runs until `end`, or until nothing is due any more.
    pub fn run(&mut self, end: u64) {
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

    pub fn turn(&mut self) {
        self.turns.push(self.now);
        self.lane.turn(self.now);
        let (mut jobs, mut connections) = (Vec::new(), Vec::new());
        while self.lane.poll(self.now, &mut jobs, &mut connections) {
            self.act();
            let looked_at: Vec<u32> = (0..).map_while(|nth| self.lane.looked_at(nth)).collect();
            assert!(jobs.iter().all(|job| looked_at.contains(&job.place)));
            assert!(connections.iter().all(|place| looked_at.contains(place)));
            for job in jobs.drain(..) {
                self.send(&job);
            }
            for place in connections.drain(..) {
                self.write(place);
            }
            self.lane.settle(self.now);
            self.act();
        }
        while let Some(lost) = self.lane.next_lost(self.now) {
            let id = self.lane.stream(lost.place).expect("a stream").id();
            self.again.push((self.now, id, lost.at.packet));
            self.lane.resent(&lost, Some(1014), self.now);
            self.act();
        }
        self.act();
    }

    /// Hands packets to a connection until it is full.
    fn write(&mut self, place: u32) {
        for _ in 0..self.lane.frames(place) {
            match self.lane.frame(place, self.now) {
                Frame::Nothing => return,
                Frame::Look => {
                    self.lane.connection(place, self.room > 0, self.now);
                    return self.act();
                }
                Frame::Write(due) => {
                    let taken = (due.end - due.first).min(self.room);
                    self.room -= taken;
                    self.writes.push((self.now, taken));
                    self.lane.wrote(place, &due, taken, self.now);
                    self.act();
                    if taken < due.end - due.first {
                        return;
                    }
                }
            }
        }
    }

    pub fn send(&mut self, job: &Job) {
        let stream = self.lane.stream(job.place).expect("a stream");
        let (id, seq) = (stream.id(), stream.tracks[0].seq);
        let all = job.due.end - job.due.first;
        assert!(all > 0, "{job:?}");
        let is_ahead = self.held || self.way.is_some();
        assert!(is_ahead || job.due.at < self.now + TURN, "{job:?}");
        let leaves = if self.held { job.due.departs } else { self.now };
        self.jobs += 1;
        let (takes, refuses) = World::next_of(&self.kernel, self.jobs).unwrap_or((all, 0));
        let taken = takes.min(all);
        let refused = refuses.min(all - taken);
        let log = self.sent.entry(id).or_default();
        for nth in 0..taken + refused {
            log.push((leaves, seq.wrapping_add(nth as u16), nth < taken));
        }
        self.lane.taken(job, (taken, refused), self.now);
    }

    pub fn go(&mut self, id: StreamId) {
        self.lane.go(id, self.now);
        self.act();
    }

    pub fn sent(&self, id: StreamId) -> &[(u64, u16, bool)] {
        self.sent.get(&id).map_or(&[], Vec::as_slice)
    }

    pub fn state(&self, id: StreamId) -> State {
        let place = self.lane.place_of(id).expect("a place");
        self.lane.stream(place).expect("a stream").state()
    }

    /// Checks that each packet left once and in order, and that no millisecond exceeded
    /// the burst rule.
    pub fn check(&self, id: StreamId) -> Result<(), TestCaseError> {
        let sent = self.sent(id);
        prop_assert!(!self.failed.contains(&id), "it failed");
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

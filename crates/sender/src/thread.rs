//! A sender thread: turns of a millisecond.
//!
//! In each turn the streams that are due in it are walked in the order of their places in memory, and
//! what they may send leaves in as few system calls as it takes. Between turns the thread sleeps to
//! the next one that holds something, or until it is told something.

mod balance;
mod commands;
mod waiting;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossbeam_channel::Receiver;
use reelway_playout::{StreamError, TURN, Wheel};
use reelway_supervise as supervise;
use reelway_sys::limits;
use reelway_sys::udp::{Turn, UdpSocket};
use reelway_sys::wake::Sleeper;

use crate::active::{Active, Rules};
use crate::backend::Backend;
use crate::histogram::Histogram;
use crate::inbox::{Command, Inbox, StreamId};
use crate::resending::Resending;
use crate::rtcp::Directory;
use crate::send::{Cells, Job, Reporter};
use crate::stream::State;

use self::waiting::{IN_LINE, Waiting};

/// Streams whose packets are handed to the kernel together: so few that the times noted are those at
/// which they left, to some 100 µs.
const TOGETHER: usize = 32;

/// Parts of a turn that are walked one after the other, so that what is due early leaves before what is due late: a turn
/// of two thousand streams takes most of its millisecond. Within one, streams are walked in the order of their places.
const PART: u64 = TURN / 16;

/// A stream in the list of those walked now.
const AT_WORK: u64 = u64::MAX;

/// For how long a thread wants the processor when it wakes: half a turn. A short slice comes first; beside
/// eight busy loops on its core the 99.9th percentile of wake-ups fell from 4 ms to 0.1 ms (nice -10 both).
const SLICE: Duration = Duration::from_micros(500);

/// What a thread has done; it writes, others read.
#[derive(Default)]
pub(crate) struct Counters {
    pub playing: AtomicUsize,
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    pub runs: AtomicU64,
    pub calls: AtomicU64,
    pub turns: AtomicU64,
    pub retried: AtomicU64,
    pub refused: AtomicU64,
    pub shifts: AtomicU64,
    pub dropped: AtomicU64,
    pub resent: AtomicU64,
    pub cpu: AtomicU64,
    pub late: Histogram,
}

/// How often a thread notes its CPU time.
const CPU_EVERY: u64 = 50_000_000;

/// Another thread, or this one.
pub(crate) struct Neighbour {
    pub inbox: Inbox,
    pub counters: Arc<Counters>,
}

/// What a sender thread is given.
pub(crate) struct Parts {
    pub commands: Receiver<Command>,
    pub sleeper: Sleeper,
    pub sockets: Vec<UdpSocket>,
    pub reporter: Reporter,
    pub backend: Box<dyn Backend>,
    pub number: usize,
    /// All threads by number, once they all are there.
    pub neighbours: Arc<OnceLock<Vec<Neighbour>>>,
    /// Streams of each thread.
    pub loads: Arc<[AtomicU64]>,
    pub rules: Arc<Rules>,
    pub counters: Arc<Counters>,
    pub directory: Arc<Directory>,
}

/// What a sender thread has.
pub(crate) struct Thread {
    pub commands: Receiver<Command>,
    pub sleeper: Sleeper,
    pub sockets: Vec<UdpSocket>,
    pub reporter: Reporter,
    pub backend: Box<dyn Backend>,
    pub number: usize,
    /// All threads by number, once they all are there.
    pub neighbours: Arc<OnceLock<Vec<Neighbour>>>,
    /// Streams of each thread.
    pub loads: Arc<[AtomicU64]>,
    pub rules: Arc<Rules>,
    pub counters: Arc<Counters>,
    pub directory: Arc<Directory>,
    pub streams: Vec<Option<Box<Active>>>,
    free: Vec<u32>,
    places: HashMap<StreamId, u32>,
    /// Streams that went over to other threads: their handles still speak to this one.
    away: HashMap<StreamId, usize>,
    balance_at: u64,
    /// When its CPU time is read next.
    cpu_at: u64,
    /// Dropped frames that the log knows of.
    told_dropped: u64,
    wheel: Wheel,
    /// Looks within a turn that has begun, by time.
    soon: BinaryHeap<Reverse<(u64, u32)>>,
    /// When each stream is to be walked, by its place: 0 not by the wheel, [`AT_WORK`] now. Beside the streams, so that
    /// who is not due is not fetched.
    armed: Vec<u64>,
    /// Whether a stream's packets pass a limited link, by its place.
    limited: Vec<bool>,
    /// Streams to walk now, each with the part of the turn in which it is due.
    work: Vec<(u64, u32)>,
    /// Those of them that have waited for a limited link; then they go into `work`.
    served: Vec<(u64, u32)>,
    due: Vec<(u32, u64)>,
    pub jobs: Vec<Job>,
    /// Scratch lists of `send.rs`, kept so that a turn allocates nothing.
    pub dues: Vec<crate::active::Due>,
    pub refused_cut: Vec<u32>,
    pub turn_calls: u64,
    pub turn: Turn,
    pub cells: Cells,
    closed: bool,
    /// Streams that could send and wait for room on a limited link.
    waiting: Waiting,
    /// Streams whose receivers miss packets.
    pub resending: Resending,
}

pub(crate) fn now() -> u64 {
    reelway_clock::now().nanos()
}

impl Thread {
    pub fn new(parts: Parts) -> Thread {
        let Parts {
            commands,
            sleeper,
            sockets,
            reporter,
            backend,
            number,
            neighbours,
            loads,
            rules,
            counters,
            directory,
        } = parts;
        Thread {
            commands,
            sleeper,
            sockets,
            reporter,
            backend,
            number,
            neighbours,
            loads,
            rules,
            counters,
            directory,
            streams: Vec::new(),
            free: Vec::new(),
            places: HashMap::new(),
            away: HashMap::new(),
            balance_at: 0,
            cpu_at: 0,
            told_dropped: 0,
            wheel: Wheel::new(now() / TURN),
            soon: BinaryHeap::new(),
            armed: Vec::new(),
            limited: Vec::new(),
            work: Vec::new(),
            served: Vec::new(),
            due: Vec::new(),
            jobs: Vec::new(),
            dues: Vec::new(),
            refused_cut: Vec::new(),
            turn_calls: 0,
            turn: Turn::default(),
            cells: Cells::default(),
            closed: false,
            waiting: Waiting::default(),
            resending: Resending::default(),
        }
    }

    /// Runs until it is closed.
    pub fn run(mut self) {
        reelway_sys::time::precise_timers();
        self.go_first();
        let mut panicked = false;
        supervise::run(|| {
            if std::mem::replace(&mut panicked, true) {
                self.recover();
            }
            self.turns();
        });
    }

    /// Takes its processor and its priority, as far as the system lets it.
    fn go_first(&self) {
        let Rules {
            nice,
            realtime,
            cores,
            ..
        } = &*self.rules;
        let number = self.number;
        if let Some(core) = cores.get(number % cores.len().max(1))
            && let Err(error) = limits::set_thread_core(*core)
        {
            tracing::warn!(
                "sender thread {number} cannot be bound to processor {core} and runs on any: {error}"
            );
        }
        if *realtime > 0 {
            match limits::set_thread_realtime(*realtime) {
                Ok(()) => return,
                Err(error) => tracing::warn!(
                    "sender thread {number} has no real-time priority (it needs CAP_SYS_NICE, or a limit on rtprio \
                     of at least {realtime}), it continues without: {error}"
                ),
            }
        }
        if let Err(error) = limits::set_thread_nice(*nice) {
            tracing::debug!("a sender thread runs at the ordinary priority: {error}");
        }
        if let Err(error) = limits::set_thread_slice(SLICE) {
            tracing::debug!("a sender thread has scheduler slices of the usual length: {error}");
        }
    }

    /// Goes on after a fault of this program: the thread's streams are ended with a word, since nobody
    /// knows in which state they are, and it is there for new ones. The other threads did not notice.
    fn recover(&mut self) {
        let mut ended = 0;
        for stream in self.streams.iter_mut().flatten() {
            if !matches!(stream.state, State::Ended | State::Failed | State::Stopped) {
                ended += 1;
                let error = StreamError("ended by a fault of this program".to_owned());
                // What the stream's owner does when told may be the very fault.
                let _ = supervise::guard("a stream's end", || stream.fail(error));
            }
        }
        tracing::error!(
            "sender thread {}: {ended} streams were ended by a panic, it goes on",
            self.number
        );
        (self.wheel, self.turn) = (Wheel::new(now() / TURN), Turn::default());
        self.soon.clear();
        self.armed.fill(0);
        self.work.clear();
        self.served.clear();
        self.due.clear();
        self.jobs.clear();
        self.dues.clear();
        self.refused_cut.clear();
        self.turn_calls = 0;
        self.waiting.forget(self.number);
        self.resending = Resending::default();
    }

    /// Turn after turn, until it is closed.
    fn turns(&mut self) {
        let mut last = now();
        loop {
            self.obey();
            supervise::inject("send");
            if self.closed {
                return;
            }
            let now = now();
            // The process was stopped, or the machine asleep: nobody's fault, everybody goes on later.
            if now.saturating_sub(last) > self.rules.catch_up {
                self.shift_all(now - last);
            }
            self.balance(now);
            self.take_due(now);
            self.walk();
            self.resend();
            last = self.sleep();
        }
    }

    /// Sleeps to the next turn that holds something; the time at which it meant to wake, or did.
    fn sleep(&mut self) -> u64 {
        let turn = self.wheel.next_filled().map(|turn| turn * TURN);
        let soon = self.soon.peek().map(|Reverse((at, _))| *at);
        let asleep = now();
        // Links drain while nobody looks; what is missed has room again in the next turn.
        let looks = self.waiting.anyone() || self.resending.anyone();
        let line = looks.then(|| (asleep / TURN + 1) * TURN);
        let until = turn.into_iter().chain(soon).chain(line).min();
        // A system call: not each turn.
        if self.cpu_at <= asleep {
            self.cpu_at = asleep + CPU_EVERY;
            crate::shared::set(&self.counters.cpu, reelway_sys::time::thread_cpu_ns());
        }
        // What was meant to be woken for tells how long the thread stood still, if it did.
        let meant = |now: u64| until.map_or(now, |until| until.min(now));
        if !self.commands.is_empty() || meant(asleep) < asleep {
            return meant(asleep);
        }
        self.sleeper.sleep(until);
        meant(now())
    }

    fn shift_all(&mut self, nanos: u64) {
        let mut moved = 0;
        for stream in self
            .streams
            .iter_mut()
            .flatten()
            .filter(|stream| stream.state == State::Playing)
        {
            stream.shift(nanos);
            moved += 1;
        }
        if moved > 0 {
            tracing::warn!(
                "the server stood still for {:.1} s; {moved} streams go on that much later",
                nanos as f64 / 1e9
            );
            crate::shared::add(&self.counters.shifts, moved);
        }
    }

    /// Gathers the streams to walk now.
    fn take_due(&mut self, now: u64) {
        self.wheel.take(now / TURN, &mut self.due);
        let mut due = std::mem::take(&mut self.due);
        for (place, turn) in due.drain(..) {
            // Who was put elsewhere since is not due.
            let at = self.armed[place as usize];
            if at / TURN == turn {
                self.enlist(place, at);
            }
        }
        self.due = due;
        while let Some(Reverse((at, place))) = self.soon.peek().copied() {
            if at > now {
                break;
            }
            self.soon.pop();
            self.enlist(place, at);
        }
        self.serve_waiting(now);
        self.work.append(&mut self.served);
        self.work.sort_unstable();
    }

    /// Has a stream walked now, once, among those due at `at`; one on a limited link when it has room there.
    fn enlist(&mut self, place: u32, at: u64) {
        if self.armed[place as usize] >= IN_LINE {
            return;
        }
        if self.limited[place as usize] && self.line_up(place, now()) {
            return;
        }
        self.armed[place as usize] = AT_WORK;
        self.work.push((at / PART, place));
    }

    /// Sends what the streams to walk may send, and puts each where it is due next.
    fn walk(&mut self) {
        if self.work.is_empty() {
            return;
        }
        crate::shared::add(&self.counters.turns, 1);
        let mut work = std::mem::take(&mut self.work);
        // What is due before the end of the turn in which the walk began leaves.
        let began = now();
        // A stream may come again in the same turn, with its next slice; bounded by its window.
        while !work.is_empty() {
            let (mut first, mut again) = (0, 0);
            while first < work.len() {
                let last = (first + TOGETHER).min(work.len());
                self.send_together(&work[first..last], began);
                // While what it reads of the streams is still near.
                let now = now();
                for number in first..last {
                    if self.look_again(work[number].1, now, began) {
                        work[again] = work[number];
                        again += 1;
                    }
                }
                first = last;
            }
            work.truncate(again);
            if work.is_empty() {
                // Those who lined up meanwhile.
                self.serve_waiting(now());
                work.append(&mut self.served);
                work.sort_unstable();
            }
        }
        self.work = work;
    }

    /// Puts a stream where it is to be looked at next; true if that is at once.
    fn look_again(&mut self, place: u32, now: u64, began: u64) -> bool {
        let armed = &mut self.armed[place as usize];
        *armed = 0;
        let Some(stream) = self.streams[place as usize].as_deref_mut() else {
            return false;
        };
        if let Some(link) = &mut stream.link {
            link.settle(now);
        }
        let horizon = stream.horizon(began);
        let Some(at) = stream.next_look(now, horizon) else {
            return false;
        };
        // Only while the turn lasts: an overlong walk must not starve the streams of the next one.
        if at <= now && now < horizon {
            if self.limited[place as usize] && self.line_up(place, now) {
                return false;
            }
            self.armed[place as usize] = AT_WORK;
            return true;
        }
        let turn = at / TURN;
        if turn < self.wheel.next() && at > now {
            self.soon.push(Reverse((at, place)));
        } else {
            let put = self.wheel.put(turn, place);
            self.armed[place as usize] = if put == turn { at } else { put * TURN };
        }
        false
    }

    /// Walks a stream at once; one that waits in line for a limited link stays there.
    fn touch(&mut self, place: u32, now: u64) {
        match self.armed[place as usize] {
            IN_LINE => self.touch_in_line(place, now),
            _ => self.enlist(place, 0),
        }
    }
}

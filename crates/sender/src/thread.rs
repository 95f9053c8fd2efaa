//! A sender thread: turns of a millisecond.
//!
//! In each turn the streams that are due in it are walked in the order of their places in memory, and
//! what they may send leaves in as few system calls as it takes. Between turns the thread sleeps to
//! the next one that holds something, or until it is told something.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_channel::Receiver;
use reelway_sys::udp::{Turn, UdpSocket};
use reelway_sys::wake::Sleeper;

use crate::active::{Active, Rules};
use crate::backend::Backend;
use crate::histogram::Histogram;
use crate::inbox::{Command, Inbox, StreamId};
use crate::pacing::TURN;
use crate::rtcp::Directory;
use crate::send::{Cells, Job, Reporter};
use crate::stream::{State, StreamError};
use crate::wheel::Wheel;

/// Streams whose packets are handed to the kernel together: so few that the times noted are those at
/// which they left, to some 200 µs.
const TOGETHER: usize = 64;

/// Commands obeyed at most before packets are looked after again: five thousand viewers who leave at
/// once must not make the others' packets late.
const COMMANDS: usize = 128;

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

/// How often a thread looks whether others have much less to do.
const BALANCE: u64 = 1_000_000_000;
/// Streams more than another thread's that are not worth a move.
const EVEN: u64 = 16;
/// Streams that go over at a time: the others' packets must not wait for it.
const OVER: usize = 64;

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
    /// Dropped frames that the log knows of.
    told_dropped: u64,
    wheel: Wheel,
    /// Looks within a turn that has begun, by time.
    soon: BinaryHeap<Reverse<(u64, u32)>>,
    /// Streams to walk now.
    work: Vec<u32>,
    due: Vec<(u32, u64)>,
    pub jobs: Vec<Job>,
    /// Scratch lists of `send.rs`, kept so that a turn allocates nothing.
    pub dues: Vec<crate::active::Due>,
    pub refused_cut: Vec<u32>,
    pub turn_calls: u64,
    pub turn: Turn,
    pub cells: Cells,
    closed: bool,
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
            told_dropped: 0,
            wheel: Wheel::new(now() / TURN),
            soon: BinaryHeap::new(),
            work: Vec::new(),
            due: Vec::new(),
            jobs: Vec::new(),
            dues: Vec::new(),
            refused_cut: Vec::new(),
            turn_calls: 0,
            turn: Turn::default(),
            cells: Cells::default(),
            closed: false,
        }
    }

    /// Runs until it is closed.
    pub fn run(mut self) {
        reelway_sys::time::precise_timers();
        if let Err(error) = reelway_sys::limits::set_thread_nice(self.rules.nice) {
            tracing::debug!("a sender thread runs at the ordinary priority: {error}");
        }
        while let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| self.turns())) {
            self.recover(&*panic);
        }
    }

    /// Goes on after a fault of this program: the thread's streams are ended with a word, since nobody
    /// knows in which state they are, and it is there for new ones. The other threads did not notice.
    fn recover(&mut self, panic: &(dyn Any + Send)) {
        let words = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no reason given");
        let mut ended = 0;
        for stream in self.streams.iter_mut().flatten() {
            if !matches!(stream.state, State::Ended | State::Failed | State::Stopped) {
                ended += 1;
                let error = StreamError("ended by a fault of this program".to_owned());
                // What the stream's owner does when told may be the very fault.
                let _ = panic::catch_unwind(AssertUnwindSafe(|| stream.fail(error)));
            }
        }
        tracing::error!(
            "a fault in sender thread {}: {words}; its {ended} streams were ended, it goes on",
            self.number
        );
        (self.wheel, self.turn) = (Wheel::new(now() / TURN), Turn::default());
        self.soon.clear();
        self.work.clear();
        self.due.clear();
        self.jobs.clear();
        self.dues.clear();
        self.refused_cut.clear();
        self.turn_calls = 0;
    }

    /// Turn after turn, until it is closed.
    fn turns(&mut self) {
        let mut last = now();
        loop {
            self.obey();
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
            last = self.sleep();
        }
    }

    /// Sleeps to the next turn that holds something; the time at which it meant to wake, or did.
    fn sleep(&mut self) -> u64 {
        let turn = self.wheel.next_filled().map(|turn| turn * TURN);
        let soon = self.soon.peek().map(|Reverse((at, _))| *at);
        let until = turn.into_iter().chain(soon).min();
        crate::shared::set(&self.counters.cpu, reelway_sys::time::thread_cpu_ns());
        let asleep = now();
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

    /// Gives streams to the thread that has the fewest, if that is many fewer: where they began is no
    /// longer even when viewers have left.
    fn balance(&mut self, now: u64) {
        if now < self.balance_at {
            return;
        }
        self.balance_at = now + BALANCE;
        let dropped = self.counters.dropped.load(Ordering::Relaxed);
        if dropped > self.told_dropped {
            tracing::warn!(
                "sender thread {} has more to do than it can: {} frames that no other needs were left out",
                self.number,
                dropped - self.told_dropped
            );
            self.told_dropped = dropped;
        }
        let neighbours = Arc::clone(&self.neighbours);
        let Some(neighbours) = neighbours.get() else {
            return;
        };
        let load = |number: usize| self.loads[number].load(Ordering::Relaxed);
        let Some(to) = (0..neighbours.len()).min_by_key(|number| load(*number)) else {
            return;
        };
        let (mine, least) = (load(self.number), load(to));
        if mine <= least + (least / 4).max(EVEN) {
            return;
        }
        let give = ((mine - least) / 2).min(OVER as u64) as usize;
        let mut given = 0;
        for place in 0..self.streams.len() {
            if given == give {
                break;
            }
            let over = self.streams[place].as_ref().is_some_and(|stream| {
                stream.may_move() && stream.shared.lane.go_over(self.number, to)
            });
            if let Some(mut stream) = self.streams[place].take_if(|_| over) {
                self.places.remove(&stream.id());
                self.free.push(place as u32);
                self.away.insert(stream.id(), to);
                let Neighbour { inbox, counters } = &neighbours[to];
                stream.move_to(inbox.clone(), Arc::clone(counters));
                inbox.send(Command::Arrive(stream));
                given += 1;
            }
        }
        if given > 0 {
            // Soon again if there is more to give.
            self.balance_at = now + BALANCE / 10;
            tracing::debug!("{given} streams go from thread {} to {to}", self.number);
        }
    }

    /// Passes on what is for a stream that went over to another thread.
    fn pass_on(&mut self, command: Command) -> Option<Command> {
        if self.away.is_empty() {
            return Some(command);
        }
        let to = command.of_handle().and_then(|id| match command {
            Command::Stop(_) => self.away.remove(&id),
            _ => self.away.get(&id).copied(),
        });
        match to.zip(self.neighbours.get()) {
            Some((to, neighbours)) => {
                neighbours[to].inbox.send(command);
                None
            }
            None => Some(command),
        }
    }

    /// Gathers the streams to walk now.
    fn take_due(&mut self, now: u64) {
        self.wheel.take(now / TURN, &mut self.due);
        for (place, turn) in self.due.drain(..) {
            // Who was put elsewhere since is not due.
            if self.streams[place as usize]
                .as_ref()
                .is_some_and(|stream| stream.armed == turn)
            {
                self.work.push(place);
            }
        }
        while let Some(Reverse((at, place))) = self.soon.peek().copied() {
            if at > now {
                break;
            }
            self.soon.pop();
            self.work.push(place);
        }
        self.work.sort_unstable();
        self.work.dedup();
    }

    /// Sends what the streams to walk may send, and puts each where it is due next.
    fn walk(&mut self) {
        if self.work.is_empty() {
            return;
        }
        crate::shared::add(&self.counters.turns, 1);
        let mut work = std::mem::take(&mut self.work);
        // The turn in which the walk began: what is due before its end leaves.
        let horizon = (now() / TURN) * TURN + self.backend.horizon().as_nanos() as u64;
        // A stream may come again in the same turn, with its next slice; bounded by its window.
        while !work.is_empty() {
            for together in work.chunks(TOGETHER) {
                self.send_together(together, horizon);
            }
            let now = now();
            work.retain(|place| self.look_again(*place, now, horizon));
        }
        self.work = work;
    }

    /// Puts a stream where it is to be looked at next; true if that is at once.
    fn look_again(&mut self, place: u32, now: u64, horizon: u64) -> bool {
        let Some(stream) = self.streams[place as usize].as_mut() else {
            return false;
        };
        let Some(at) = stream.next_look(now, horizon) else {
            stream.armed = 0;
            return false;
        };
        // Only while the turn lasts: an overlong walk must not starve the streams of the next one.
        if at <= now && now < horizon {
            return true;
        }
        let turn = at / TURN;
        if turn < self.wheel.next() && at > now {
            stream.armed = 0;
            self.soon.push(Reverse((at, place)));
        } else {
            stream.armed = self.wheel.put(turn, place);
        }
        false
    }

    /// Walks a stream at once.
    fn touch(&mut self, place: u32) {
        self.work.push(place);
    }

    // --- commands ------------------------------------------------------------------------------

    fn obey(&mut self) {
        for _ in 0..COMMANDS {
            let Ok(command) = self.commands.try_recv() else {
                return;
            };
            self.obey_one(command);
        }
    }

    fn stream(&mut self, id: StreamId) -> Option<(u32, &mut Active)> {
        let place = *self.places.get(&id)?;
        Some((place, self.streams[place as usize].as_mut()?))
    }

    fn obey_one(&mut self, command: Command) {
        let now = now();
        let Some(command) = self.pass_on(command) else {
            return;
        };
        let touched = match command {
            Command::Add(stream) => {
                self.add(stream);
                None
            }
            Command::Arrive(stream) => Some(self.put(stream)),
            Command::Go(id) => self.stream(id).map(|(place, stream)| {
                stream.go(now);
                place
            }),
            Command::SendBy(id, schedule) => self.stream(id).map(|(place, stream)| {
                stream.schedule = schedule;
                place
            }),
            Command::Pause(id, reply) => {
                if let Some((_, stream)) = self.stream(id) {
                    let _ = reply.send(stream.pause(now));
                }
                None
            }
            Command::Resume(id, reply) => self.stream(id).map(|(place, stream)| {
                stream.resume(reply, now);
                place
            }),
            Command::Seek {
                stream,
                start,
                end,
                reply,
            } => {
                if let Some((_, stream)) = self.stream(stream) {
                    stream.seek(start, end, Some(reply));
                }
                None
            }
            Command::Stop(id) => {
                self.stop(id);
                None
            }
            Command::Located {
                stream,
                epoch,
                result,
            } => {
                if let Some((_, stream)) = self.stream(stream) {
                    stream.located(epoch, result, now);
                }
                None
            }
            Command::Planned {
                stream,
                epoch,
                track,
                group,
                result,
            } => self.stream(stream).and_then(|(place, stream)| {
                let waited = stream.planned(epoch, track, group, result, now);
                waited.then_some(place)
            }),
            Command::Missed {
                stream,
                track,
                lost,
            } => self.stream(stream).map(|(place, stream)| {
                stream.miss(track, &lost);
                place
            }),
            Command::Close => {
                for id in self.places.keys().copied().collect::<Vec<_>>() {
                    self.stop(id);
                }
                self.closed = true;
                None
            }
        };
        if let Some(place) = touched {
            self.touch(place);
        }
    }

    fn add(&mut self, mut stream: Box<Active>) {
        self.directory.enter(&stream.shared);
        let (start, end) = stream.wish;
        stream.seek(start, end, None);
        self.put(stream);
    }

    /// Gives a stream a place.
    fn put(&mut self, mut stream: Box<Active>) -> u32 {
        stream.armed = 0;
        let place = self.free.pop().unwrap_or(self.streams.len() as u32);
        self.places.insert(stream.id(), place);
        match self.streams.get_mut(place as usize) {
            Some(empty) => *empty = Some(stream),
            None => self.streams.push(Some(stream)),
        }
        place
    }

    fn stop(&mut self, id: StreamId) {
        let Some(place) = self.places.remove(&id) else {
            return;
        };
        let Some(mut stream) = self.streams[place as usize].take() else {
            return;
        };
        if stream.owes_bye() {
            self.reporter.report(&mut stream, true);
        }
        stream.said_bye(false);
        self.directory.leave(&stream.shared);
        self.free.push(place);
    }
}

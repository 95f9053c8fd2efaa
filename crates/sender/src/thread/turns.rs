//! Turn after turn.

use std::time::Duration;

use reelway_playout::{State, StreamError};
use reelway_supervise as supervise;
use reelway_sys::limits;
use reelway_sys::udp::Turn;

use super::body::{ENOUGH, Priority, Thread, now};
use crate::counters::{add, set};

/// For how long a thread wants the processor when it wakes: half a turn. A short slice comes first; beside
/// eight busy loops on its core the 99.9th percentile of wake-ups fell from 4 ms to 0.1 ms (nice -10 both).
const SLICE: Duration = Duration::from_micros(500);

/// How often a thread notes its CPU time.
const CPU_EVERY: u64 = 50_000_000;

impl Thread {
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
        let Priority {
            nice,
            realtime,
            cores,
        } = &*self.given.priority;
        let number = self.given.number;
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
        for place in 0..self.lane.places() {
            let Some(stream) = self.lane.stream(place) else {
                continue;
            };
            if !matches!(
                stream.state(),
                State::Ended | State::Failed | State::Stopped
            ) {
                ended += 1;
                let error = StreamError("ended by a fault of this program".to_owned());
                // What the stream's owner does when told may be the very fault.
                let _ = supervise::guard("a stream's end", || {
                    self.lane.fail(place, error);
                    self.act();
                });
            }
        }
        tracing::error!(
            "sender thread {}: {ended} streams were ended by a panic, it goes on",
            self.given.number
        );
        self.lane.reset(now());
        self.turn = Turn::with_room(ENOUGH);
        self.turn_calls = 0;
        self.jobs.clear();
        self.connections.clear();
        self.refused_cut.clear();
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
            if now.saturating_sub(last) > self.given.rules.catch_up {
                self.stood_still(now - last);
            }
            self.balance(now);
            self.given.links.advance(now);
            self.lane.turn(now);
            self.walk();
            self.send_lost();
            last = self.sleep();
        }
    }

    /// Sleeps to the next turn that holds something; the time at which it meant to wake, or did.
    fn sleep(&mut self) -> u64 {
        let asleep = now();
        let until = self.lane.next_turn(asleep);
        // A system call: not each turn.
        if self.cpu_at <= asleep {
            self.cpu_at = asleep + CPU_EVERY;
            set(&self.given.counters.cpu, reelway_sys::time::thread_cpu_ns());
        }
        // What was meant to be woken for tells how long the thread stood still, if it did.
        let meant = |now: u64| until.map_or(now, |until| until.min(now));
        if !self.given.commands.is_empty() || meant(asleep) < asleep {
            return meant(asleep);
        }
        self.given.sleeper.sleep(until);
        meant(now())
    }

    fn stood_still(&mut self, nanos: u64) {
        let moved = self.lane.stood_still(nanos);
        if moved > 0 {
            tracing::warn!(
                "the server stood still for {:.1} s; {moved} streams go on that much later",
                nanos as f64 / 1e9
            );
        }
    }

    /// Sends what the streams that are due may send.
    fn walk(&mut self) {
        let mut walked = false;
        while self.lane.poll(now(), &mut self.jobs, &mut self.connections) {
            if !std::mem::replace(&mut walked, true) {
                add(&self.given.counters.turns, 1);
            }
            self.act();
            self.write_frames();
            self.send_jobs();
            self.show_all();
            self.lane.settle(now());
            self.act();
        }
    }

    /// Shows what the streams at hand have done.
    fn show_all(&mut self) {
        for nth in 0.. {
            let Some(place) = self.lane.looked_at(nth) else {
                return;
            };
            self.show(place);
        }
    }
}

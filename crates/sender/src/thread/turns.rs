//! The loop over turns.

use std::time::Duration;

use reelway_playout::{State, StreamError};
use reelway_supervise as supervise;
use reelway_sys::limits;
use reelway_sys::udp::Turn;

use super::body::{ENOUGH, Priority, Thread, now};
use crate::counters::{add, set};

/// Scheduler slice of sender threads: half a turn. Short slices are scheduled first: beside eight
/// busy loops on its core, the 99.9th percentile of wake-ups fell from 4 ms to 0.1 ms (both with
/// nice -10).
const SLICE: Duration = Duration::from_micros(500);

/// How often a thread records its CPU time, ns.
const CPU_EVERY: u64 = 50_000_000;

impl Thread {
    /// Runs until the thread is closed.
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

    /// Sets processor and priority, as far as the system allows.
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

    /// Continues after a panic: ends the thread's streams with an error, since their state is
    /// unknown, and is ready for new ones. The other threads are not affected.
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
                // The owner's event callback may be the cause of the panic.
                let _ = supervise::guard("a stream's end", || {
                    self.lane.fail(place, error);
                    self.act();
                });
            }
        }
        tracing::error!(
            "sender thread {} continues after a panic, which ended {ended} streams",
            self.given.number
        );
        self.lane.reset(now());
        self.turn = Turn::with_room(ENOUGH);
        self.turn_calls = 0;
        self.jobs.clear();
        self.connections.clear();
        self.refused_cut.clear();
    }

    /// Runs turns until the thread is closed.
    fn turns(&mut self) {
        let mut last = now();
        loop {
            self.obey();
            supervise::inject("send");
            if self.closed {
                return;
            }
            let now = now();
            // The process was stopped or the machine suspended: shift all streams instead of
            // catching up.
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

    /// Sleeps until the next turn with work; returns when it meant to wake, or the current time if
    /// that is earlier.
    fn sleep(&mut self) -> u64 {
        let asleep = now();
        let until = self.lane.next_turn(asleep);
        // A system call, so not in each turn.
        if self.cpu_at <= asleep {
            self.cpu_at = asleep + CPU_EVERY;
            set(&self.given.counters.cpu, reelway_sys::time::thread_cpu_ns());
        }
        // The intended wake-up time shows how long the thread stood still, if it did.
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
                "the server stood still for {:.1} s; {moved} streams continue that much later",
                nanos as f64 / 1e9
            );
        }
    }

    /// Sends what is due of all streams.
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

    /// Publishes the figures of the current streams.
    fn show_all(&mut self) {
        for nth in 0.. {
            let Some(place) = self.lane.looked_at(nth) else {
                return;
            };
            self.show(place);
        }
    }
}

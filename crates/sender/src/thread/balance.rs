//! Streams go over to the thread that has many fewer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::body::{Neighbour, Thread};
use crate::inbox::Command;

/// How often a thread looks whether others have much less to do.
const BALANCE: u64 = 1_000_000_000;
/// Streams more than another thread's that are not worth a move.
const EVEN: u64 = 16;
/// Streams that go over at a time: the others' packets must not wait for it.
const OVER: usize = 64;

impl Thread {
    /// Gives streams to the thread that has the fewest, if that is many fewer: where they began is no
    /// longer even when viewers have left.
    pub(super) fn balance(&mut self, now: u64) {
        if now < self.balance_at {
            return;
        }
        self.balance_at = now + BALANCE;
        let dropped = self.given.counters.dropped.load(Ordering::Relaxed);
        if dropped > self.told_dropped {
            tracing::warn!(
                "sender thread {} is overloaded: {} frames that no other frame needs were dropped",
                self.given.number,
                dropped - self.told_dropped
            );
            self.told_dropped = dropped;
        }
        let neighbours = Arc::clone(&self.given.neighbours);
        let Some(neighbours) = neighbours.get() else {
            return;
        };
        let load = |number: usize| self.given.loads[number].load(Ordering::Relaxed);
        let Some(to) = (0..neighbours.len()).min_by_key(|number| load(*number)) else {
            return;
        };
        let (mine, least) = (load(self.given.number), load(to));
        if mine <= least + (least / 4).max(EVEN) {
            return;
        }
        let give = ((mine - least) / 2).min(OVER as u64) as usize;
        let mut given = 0;
        for place in 0..self.lane.places() {
            if given == give {
                break;
            }
            let goes = |place| {
                let shared = &self.lane.stream(place)?.owner.shared;
                (self.lane.may_move(place) && shared.lane.go_over(self.given.number, to))
                    .then_some(())
            };
            if let Some(stream) = goes(place).and_then(|()| self.lane.take_over(place)) {
                self.away.insert(stream.id(), to);
                let Neighbour { inbox, counters } = &neighbours[to];
                self.given.counters.playing.fetch_sub(1, Ordering::Relaxed);
                counters.playing.fetch_add(1, Ordering::Relaxed);
                inbox.send(Command::Arrive(stream));
                given += 1;
            }
        }
        if given > 0 {
            // Soon again if there is more to give.
            self.balance_at = now + BALANCE / 10;
            tracing::debug!(
                "{given} streams move from thread {} to {to}",
                self.given.number
            );
        }
    }

    /// Passes on what is for a stream that went over to another thread.
    pub(super) fn pass_on(&mut self, command: Command) -> Option<Command> {
        if self.away.is_empty() {
            return Some(command);
        }
        let to = command.of_handle().and_then(|id| match command {
            Command::Stop(..) => self.away.remove(&id),
            _ => self.away.get(&id).copied(),
        });
        match to.zip(self.given.neighbours.get()) {
            Some((to, neighbours)) => {
                neighbours[to].inbox.send(command);
                None
            }
            None => Some(command),
        }
    }
}

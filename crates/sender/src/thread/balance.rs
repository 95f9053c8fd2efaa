//! Moves streams to threads that have far fewer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::body::{Neighbour, Thread};
use crate::inbox::Command;

/// How often a thread checks whether others have far less to do, ns.
const BALANCE: u64 = 1_000_000_000;
/// Largest difference in streams that is not worth a move.
const EVEN: u64 = 16;
/// Maximum number of streams moved at a time, so that packets of others are not delayed.
const OVER: usize = 64;

impl Thread {
    /// Moves streams to the thread with the fewest, if it has far fewer: an even distribution at
    /// the start becomes uneven when viewers leave.
    pub(super) fn balance(&mut self, now: u64) {
        if now < self.balance_at {
            return;
        }
        self.balance_at = now + BALANCE;
        let dropped = self.given.counters.dropped.load(Ordering::Relaxed);
        if dropped > self.reported_dropped {
            tracing::warn!(
                "sender thread {} is overloaded: {} frames that no other frame needs were dropped",
                self.given.number,
                dropped - self.reported_dropped
            );
            self.reported_dropped = dropped;
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
            // Again soon, if there are more to move.
            self.balance_at = now + BALANCE / 10;
            tracing::debug!(
                "{given} streams move from thread {} to {to}",
                self.given.number
            );
        }
    }

    /// Forwards commands for streams that moved to another thread; returns the others.
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

//! TCP connections of viewers: data that readers have not read yet fills them.

use std::time::Duration;

use reelway_playout::Due;
use reelway_time::Monotonic;

use crate::world::LATE;

/// What a packet takes of a connection, bytes: all packets count as full.
const PACKET: u64 = 1460;

/// A viewer's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The capacity of both ends together, bytes.
    room: u64,
    /// The rate at which its reader reads, bytes per second.
    rate: u64,
    /// Unread bytes at the time `at`.
    filled: u64,
    at: Monotonic,
    /// Until this time, its reader reads nothing.
    stands: Monotonic,
    /// Since when it has not taken everything offered, without having been seen to have room.
    refuses: Option<Monotonic>,
    /// When it became full, while packets sent since are still late because of that; and the tracks
    /// of which packets have been on time since.
    full: Option<(Monotonic, [bool; 2])>,
}

impl Connection {
    /// Creates an empty connection with room for `room` bytes, whose reader reads `rate`
    /// bytes per second.
    pub fn new(room: u64, rate: u64, now: Monotonic) -> Connection {
        Connection {
            room,
            rate,
            filled: 0,
            at: now,
            stands: Monotonic::ZERO,
            refuses: None,
            full: None,
        }
    }

    /// Returns whether packets are late because the reader does not read.
    pub fn is_behind(&self) -> bool {
        self.full.is_some()
    }

    /// Records that packets have been written, all or the first of them. `done` marks the tracks of
    /// which nothing is left.
    pub fn wrote(&mut self, now: Monotonic, due: &Due, is_all: bool, done: [bool; 2]) {
        if !is_all {
            self.full = Some((now, [false; 2]));
        } else if let Some((full, on_time)) = &mut self.full
            && due.at > full.nanos()
            && now.nanos().saturating_sub(due.at) <= LATE
        {
            on_time[due.track] = true;
            if (0..2).all(|track| on_time[track] || done[track]) {
                self.full = None;
            }
        }
    }

    /// Simulates the reader up to `now`.
    fn drain(&mut self, now: Monotonic) {
        let since = self.at.max(self.stands.min(now));
        let nanos = u128::from(now.since(since).as_nanos() as u64);
        let read = nanos * u128::from(self.rate) / 1_000_000_000;
        self.filled = self
            .filled
            .saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        self.at = now;
    }

    /// Returns how many of `packets` packets it takes: the last one may be only partly in it, with
    /// the rest in the server's hands.
    pub fn takes(&mut self, now: Monotonic, packets: u32) -> u32 {
        self.drain(now);
        let room = self.room.saturating_sub(self.filled).div_ceil(PACKET);
        let taken = packets.min(u32::try_from(room).unwrap_or(u32::MAX));
        self.filled += u64::from(taken) * PACKET;
        self.refuses = match taken == packets {
            true => None,
            false => self.refuses.or(Some(now)),
        };
        taken
    }

    /// Returns whether the kernel reports room: a third of the capacity, as in Linux.
    pub fn has_room(&mut self, now: Monotonic) -> bool {
        self.drain(now);
        let has_room = self.filled * 3 <= self.room * 2;
        if has_room {
            self.refuses = None;
        }
        has_room
    }

    /// Resets the state for a seek: packets written from now on are due at other times.
    pub fn goes_elsewhere(&mut self) {
        (self.refuses, self.full) = (None, None);
    }

    /// Notes that nothing is to be written for a while.
    pub fn rests(&mut self) {
        self.refuses = None;
    }

    /// Returns whether it has taken too little for longer than `time`, and has no room now.
    pub fn stands_for(&mut self, now: Monotonic, time: Duration) -> bool {
        let since = self.refuses;
        !self.has_room(now) && since.is_some_and(|since| now.since(since) > time)
    }

    /// Makes its reader stop reading for `time`.
    pub fn stand(&mut self, now: Monotonic, time: Duration) {
        self.drain(now);
        self.stands = now + time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_takes_what_its_reader_has_made_room_for() {
        let at = |millis: u64| Monotonic::from_nanos(1_000_000 * millis);
        let mut connection = Connection::new(10 * PACKET, 1000 * PACKET, at(0));
        assert_eq!(connection.takes(at(0), 20), 10);
        assert!(!connection.has_room(at(3)));
        assert!(connection.has_room(at(4)));
        assert_eq!(connection.takes(at(5), 20), 5);
        connection.stands = at(100);
        assert_eq!(connection.takes(at(50), 1), 0);
        assert_eq!(connection.takes(at(107), 20), 7);
    }
}

//! Packets written to viewers' connections, as many as these take.

use std::time::Duration;

use reelway_demand::Carriage;
use reelway_playout::{Due, Frame};

use crate::config::Rule;
use crate::connection::Connection;
use crate::node::Node;
use crate::trace::Line;
use crate::viewer::State;

/// How long a viewer who does not read may keep film: the time that the server allows, and the time
/// until the next check.
const KEEPS: Duration = Duration::from_secs(1);

impl Node {
    /// Creates a connection for a viewer of a film: most readers are far faster than it plays, some
    /// hardly as fast.
    pub fn connection(&mut self, film: usize) -> Connection {
        let of = &self.films[film];
        let bytes: u64 = of.title.tracks.iter().map(|track| track.bytes).sum();
        let mean = bytes.saturating_mul(1_000_000_000) / (of.length() as u64).max(1);
        let percent = match self.random.once_in(4) {
            true => self.random.within(60, 200),
            false => self.random.within(400, 4000),
        };
        let room = self.random.within(16 << 10, 512 << 10);
        Connection::new(room, (mean * percent / 100).max(1), self.now)
    }

    /// Makes a TCP viewer stop reading for a while.
    pub fn stops_reading(&mut self, id: u64) {
        let millis = self.random.within(100, 15_000);
        let now = self.now;
        let viewer = self.viewers.get_mut(&id);
        let Some(connection) = viewer.and_then(|viewer| viewer.connection.as_mut()) else {
            return;
        };
        connection.stand(now, Duration::from_millis(millis));
        self.counters.stood += 1;
        self.note(&Line::Stands { viewer: id, millis });
    }

    /// Writes what TCP streams may hand to their connections now.
    pub fn write(&mut self, connections: &mut Vec<u32>) {
        for place in connections.drain(..) {
            for _ in 0..self.lane.frames(place) {
                match self.lane.frame(place, self.now.nanos()) {
                    Frame::Nothing => break,
                    Frame::Look => {
                        self.looks(place);
                        break;
                    }
                    Frame::Write(due) => self.write_packets(place, &due),
                }
            }
        }
    }

    /// Checks whether the connection of a stream that released its bytes has room again.
    fn looks(&mut self, place: u32) {
        let now = self.now;
        let id = self.lane.stream(place).map(reelway_playout::Stream::id);
        let viewer = id.and_then(|id| self.viewers.get_mut(&id));
        let connection = viewer.and_then(|viewer| viewer.connection.as_mut());
        let has_room = connection.is_none_or(|connection| connection.has_room(now));
        self.lane.connection(place, has_room, now.nanos());
    }

    fn write_packets(&mut self, place: u32, due: &Due) {
        let Some(stream) = self.lane.stream(place) else {
            return;
        };
        let (id, track, now) = (stream.id(), &stream.tracks[due.track], self.now);
        let done = [0, 1].map(|number: usize| {
            let track = stream.tracks.get(number);
            track.is_none_or(|track| track.cursor.is_done())
        });
        let (seq, at, mishaps) = (track.seq, track.cursor.at(), *stream.mishaps());
        let viewer = self.viewers.get_mut(&id);
        let Some(connection) = viewer.and_then(|viewer| viewer.connection.as_mut()) else {
            return;
        };
        let all = due.end - due.first;
        let taken = connection.takes(now, all);
        let was_behind = connection.is_behind();
        connection.wrote(now, due, taken == all, done);
        self.trace.slice(id, seq, taken);
        if taken > 0 {
            self.check_announced(id, due.track, seq);
        }
        if let Some((at, preface)) = at {
            self.check_slice(id, due.track, (seq, at, preface, taken), &mishaps);
        }
        if mishaps.dropped > 0 {
            self.broken(
                Rule::InOrder,
                format!("frames are left out for viewer {id}, who watches over TCP"),
            );
        }
        if taken > 0 && !was_behind {
            self.check_time(id, due.track, due.at);
        }
        let bytes = self.lane.wrote(place, due, taken, now.nanos());
        self.hand_over(id, Carriage::Tcp, (bytes as u32, taken));
        self.counters.packets += u64::from(taken);
        self.counters.written += u64::from(taken);
        self.comes_to_next(place, due.track, id, taken);
    }

    /// Checks that viewers whose connections have no room keep no film for longer than a moment.
    pub fn check_connections(&mut self) {
        let now = self.now;
        for id in self.viewers.keys().copied().collect::<Vec<_>>() {
            let viewer = self.viewers.get_mut(&id);
            let Some(viewer) = viewer.filter(|viewer| viewer.state == State::Playing) else {
                continue;
            };
            let connection = viewer.connection.as_mut();
            let stands = connection.is_some_and(|connection| connection.stands_for(now, KEEPS));
            let pinned = if stands { self.pinned_by(id) } else { 0 };
            if pinned > 0 && !self.explains(now) {
                let what = format!("viewer {id} does not read, but has {pinned} blocks pinned");
                self.broken(Rule::WithinBooking, what);
            }
        }
    }
}

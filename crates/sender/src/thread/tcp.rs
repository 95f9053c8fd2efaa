//! Packets over RTSP connections.

use std::sync::Arc;

use reelway_playout::{Due, Frame, StreamError};

use super::body::{Thread, now};
use crate::counters::add;
use crate::packets::fill_tcp;
use crate::path::Path;
use crate::writer::FrameWriter;

impl Thread {
    /// Writes the packets that streams may send over their connections now.
    pub(super) fn write_frames(&mut self) {
        let mut connections = std::mem::take(&mut self.connections);
        for place in connections.drain(..) {
            for _ in 0..self.lane.frames(place) {
                match self.lane.frame(place, now()) {
                    Frame::Nothing => break,
                    Frame::Look => {
                        self.look_at_connection(place);
                        break;
                    }
                    Frame::Write(due) => self.write(place, &due),
                }
            }
        }
        self.connections = connections;
    }

    /// Returns the connection of the stream in a place.
    fn connection(&self, place: u32) -> Option<Arc<FrameWriter>> {
        let tracks = self.lane.stream(place)?.tracks.iter();
        let mut connections = tracks.filter_map(|track| match &track.path {
            Path::Tcp { conn, .. } => Some(conn),
            Path::Udp(_) => None,
        });
        connections.next().cloned()
    }

    /// Checks whether the connection of a stream that released its bytes has room again.
    fn look_at_connection(&mut self, place: u32) {
        let room = self
            .connection(place)
            .map_or(Ok(true), |conn| conn.has_room());
        match room {
            Ok(has_room) => self.lane.connection(place, has_room, now()),
            Err(error) => self.lane.fail(place, StreamError(error.to_string())),
        }
    }

    /// Writes packets of a stream, as many as its connection accepts.
    fn write(&mut self, place: u32, due: &Due) {
        let Some(stream) = self.lane.stream(place) else {
            return;
        };
        let Path::Tcp { conn, .. } = &stream.tracks[due.track].path else {
            return;
        };
        let mut batch = self.turn.begin();
        let mut cells = &mut *self.cells.0;
        fill_tcp(stream, due, &mut cells, &mut batch);
        let written = conn.write_packets(&batch);
        drop(batch);
        let after = now();
        add(&self.given.counters.calls, 1);
        add(&self.given.counters.runs, 1);
        match written {
            Ok(taken) => {
                let bytes = self.lane.wrote(place, due, taken as u32, after);
                let late = after.saturating_sub(due.at);
                self.given.counters.sent(taken as u32, bytes, late);
            }
            Err(error) => self.lane.fail(place, StreamError(error.to_string())),
        }
    }
}

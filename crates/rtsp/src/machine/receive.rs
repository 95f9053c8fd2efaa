//! What receivers report: signs of life, loss and jitter.

use std::time::Duration;

use reelway_clock::Monotonic;

use crate::machine::{ConnId, Machine};
use crate::watch::Reception;

/// What a viewer says over RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// That he is there.
    Alive,
    /// How a track arrives: its place among the session's tracks.
    Report(usize, Reported),
    /// BYE, for all tracks.
    Bye,
}

/// How a track arrives, as its receiver says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported {
    /// Packets lost since it began; negative with duplicates.
    pub lost: i32,
    /// Interarrival jitter.
    pub jitter: Duration,
}

impl<W: Clone> Machine<W> {
    /// A frame of an interleaved channel.
    pub(super) fn frame(&mut self, now: Monotonic, conn: ConnId, channel: u8, data: &[u8]) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        // Frames of channels that nobody set up are passed over, and keep no connection open.
        let Some(name) = connection.channels.get(&channel) else {
            return;
        };
        connection.heard = now;
        let Some(session) = self.sessions.get_mut(name) else {
            return;
        };
        session.shows_life(now);
        if let Some(playback) = &session.playback {
            playback.rtcp(data);
        }
    }

    /// RTCP that the sender has assigned to a stream. Over UDP anybody can send it with any address:
    /// BYE comes here only if it named the SSRCs by which this viewer has reported on every track.
    pub(super) fn heard(&mut self, now: Monotonic, name: &str, said: Said) {
        let Some(session) = self.sessions.get_mut(name) else {
            return;
        };
        session.shows_life(now);
        if said == Said::Bye {
            session.left = Some(now);
        }
        if let Said::Report(at, reported) = said
            && let Some(track) = session.tracks.get(at)
        {
            session.watch.heard(Reception {
                ssrc: track.order.ssrc,
                lost: u64::try_from(reported.lost).unwrap_or(0),
                jitter_ms: reported.jitter.as_secs_f64() * 1000.0,
            });
        }
    }
}

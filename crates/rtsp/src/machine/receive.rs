//! Reports of receivers: signs of life, loss and jitter.

use reelway_time::Monotonic;

use crate::machine::event::{Action, ConnId, Feedback};
use crate::machine::state::Machine;
use crate::seam::Reception;

impl<W: Clone, F> Machine<W, F> {
    /// Handles a frame of an interleaved channel.
    pub(super) fn frame(&mut self, now: Monotonic, conn: ConnId, channel: u8, data: Vec<u8>) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        // Frames of channels that are not set up are ignored and keep no connection open.
        let Some(name) = connection.channels.get(&channel) else {
            return;
        };
        connection.heard = now;
        let Some(session) = self.sessions.get_mut(name) else {
            return;
        };
        session.shows_life(now);
        if session.has_stream {
            self.actions.push(Action::Rtcp {
                session: name.clone(),
                data,
            });
        }
    }

    /// Handles RTCP that the sender has assigned to a stream. Over UDP anybody can send it with any
    /// source address: BYE arrives here only if it named the SSRCs from which this viewer has
    /// reported on every track.
    pub(super) fn feedback(&mut self, now: Monotonic, name: &str, feedback: Feedback) {
        let Some(session) = self.sessions.get_mut(name) else {
            return;
        };
        session.shows_life(now);
        if feedback == Feedback::Bye {
            session.left = Some(now);
        }
        if let Feedback::Report(at, reported) = feedback
            && let Some(track) = session.tracks.get(at)
        {
            self.actions.push(Action::Receives {
                session: name.to_owned(),
                reception: Reception {
                    ssrc: track.order.ssrc,
                    lost: u64::try_from(reported.lost).unwrap_or(0),
                    jitter_ms: reported.jitter.as_secs_f64() * 1000.0,
                },
            });
        }
    }
}

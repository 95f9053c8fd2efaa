//! TEARDOWN and all other ways in which sessions and connections end.

use reelway_time::{Monotonic, excused};

use crate::machine::event::{Action, ConnId};
use crate::machine::session::Phase;
use crate::machine::state::Machine;
use crate::machine::step::{Refused, Step};
use crate::message::Request;
use crate::response::{Response, Status};
use crate::seam::{EndReason, Out};
use crate::target::Target;

impl<W: Clone, F> Machine<W, F> {
    pub(super) fn teardown(
        &mut self,
        conn: ConnId,
        request: &Request,
        target: &Target,
    ) -> Result<Step<W, F>, Refused> {
        let (name, session) = self.session_of(conn, request)?;
        let whole = session.film.title == target.whole_title();
        let one_of_several = target
            .track()
            .filter(|_| !whole && session.tracks.len() > 1);
        if let Some(number) = one_of_several {
            if !session
                .tracks
                .iter()
                .any(|track| track.order.track.number == number)
            {
                return Err(Response::refuse(
                    Status::NOT_FOUND,
                    "this track is not set up",
                ));
            }
            if session.busy || session.phase != Phase::Ready {
                let words = "tracks that played together end together, by the film's URL";
                return Err(Response::refuse(Status::ONLY_AGGREGATE_ALLOWED, words));
            }
            self.remove_track(&name, number);
            return Ok(Step::Answer(Response::ok().header("Session", name)));
        }
        self.end(&name, EndReason::Left, false);
        Ok(Step::Answer(Response::ok().header("Session", name)))
    }

    /// Ends a session. With `close`, connections that served only this session are closed too.
    pub(super) fn end(&mut self, name: &str, reason: EndReason, close: bool) {
        let Some(session) = self.sessions.get(name) else {
            return;
        };
        // Removing the tracks clears it.
        let media = session.media;
        let numbers = session.tracks.iter().map(|track| track.order.track.number);
        for number in numbers.collect::<Vec<_>>() {
            self.remove_track(name, number);
        }
        let Some(session) = self.sessions.remove(name) else {
            return;
        };
        if session.has_stream {
            self.actions.push(Action::Stop {
                session: name.to_owned(),
                why: reason.words(),
            });
        }
        self.actions.push(Action::Leave {
            session: name.to_owned(),
            reason,
        });
        let mut connections: Vec<ConnId> = session.control.into_iter().chain(media).collect();
        connections.dedup();
        for conn in connections {
            if let Some(connection) = self.connections.get_mut(&conn) {
                connection.sessions.retain(|other| other != name);
                if close && connection.sessions.is_empty() && connection.channels.is_empty() {
                    self.close(conn);
                }
            }
        }
    }

    /// Removes a track with its SSRCs and channels.
    pub(super) fn remove_track(&mut self, name: &str, number: u32) {
        let Some(session) = self.sessions.get_mut(name) else {
            return;
        };
        let Some(at) = session
            .tracks
            .iter()
            .position(|track| track.order.track.number == number)
        else {
            return;
        };
        let track = session.tracks.remove(at);
        self.ssrcs.remove(&track.order.ssrc);
        if let Some(again) = track.order.again {
            self.ssrcs.remove(&again.ssrc);
        }
        if let Out::Tcp { rtp, rtcp, .. } = track.order.out {
            if let Some(connection) = session
                .media
                .and_then(|media| self.connections.get_mut(&media))
            {
                connection.channels.remove(&rtp);
                connection.channels.remove(&rtcp);
            }
            if session.channels().next().is_none() {
                session.media = None;
            }
        }
    }

    /// Ends sessions whose media was sent over the connection, and sessions that never played,
    /// whose places others need. The rest stay until they expire.
    pub(super) fn disconnected(&mut self, conn: ConnId) {
        let Some(connection) = self.connections.remove(&conn) else {
            return;
        };
        if let Some((_, pending)) = connection.pending {
            self.give_up(pending);
        }
        let of_media = connection.channels.into_values();
        let mut concerned: Vec<String> = connection.sessions.into_iter().chain(of_media).collect();
        concerned.sort();
        concerned.dedup();
        for name in concerned {
            let Some(session) = self.sessions.get_mut(&name) else {
                continue;
            };
            let unplayed = session.phase == Phase::Ready && !session.has_stream;
            let mut ends = session.media == Some(conn);
            if session.control == Some(conn) {
                session.control = None;
                ends |= unplayed && !session.busy;
            }
            if ends {
                self.end(&name, EndReason::Disconnected, true);
            }
        }
    }

    /// Ends the sessions of viewers who said BYE or have been silent for too long. Everything that
    /// arrived before `now` has been read. If the readers stood still, that time is not counted and
    /// no session is ended yet.
    pub(super) fn tick(&mut self, now: Monotonic) {
        let missed = self.listening.missed(now);
        if !missed.is_zero() {
            for session in self.sessions.values_mut() {
                session.alive = excused(session.alive, missed, now);
                session.left = session.left.map(|left| excused(left, missed, now));
            }
            for connection in self.connections.values_mut() {
                connection.heard = excused(connection.heard, missed, now);
            }
            return;
        }
        let left = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.busy && session.has_left(now));
        let left: Vec<String> = left.map(|(name, _)| name.clone()).collect();
        for name in left {
            self.end(&name, EndReason::Left, false);
        }
        let config = &self.settings.config;
        let expired = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.busy && session.is_expired(now, config));
        let expired: Vec<String> = expired.map(|(name, _)| name.clone()).collect();
        for name in expired {
            self.end(&name, EndReason::Expired, true);
        }
        let idle_timeout = self.settings.config.idle_timeout;
        let idle = self.connections.iter().filter(|(_, connection)| {
            let unused = connection.sessions.is_empty() && connection.channels.is_empty();
            unused && connection.pending.is_none() && now.since(connection.heard) > idle_timeout
        });
        let idle: Vec<ConnId> = idle.map(|(conn, _)| *conn).collect();
        for conn in idle {
            self.close(conn);
        }
    }
}

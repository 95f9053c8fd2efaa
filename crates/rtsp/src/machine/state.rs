//! All connections and sessions, and what all methods need of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use reelway_time::{Listening, Monotonic};

use crate::config::RtspConfig;
use crate::machine::event::{Action, ConnId};
use crate::machine::session::{Phase, Session};
use crate::machine::step::{Pending, Refused, RequestHead};
use crate::message::Request;
use crate::response::{Response, Status};

/// Fixed parameters of the machine.
pub struct Settings {
    /// Timeouts and limits.
    pub config: RtspConfig,
    /// RTP and RTCP port for viewers over IPv4, if available.
    pub udp_v4: Option<(u16, u16)>,
    /// The same for IPv6.
    pub udp_v6: Option<(u16, u16)>,
    /// Source of unpredictable numbers.
    pub random: Box<dyn FnMut() -> u32 + Send>,
}

/// All connections and sessions. `W` is the write side of a connection, `F` the server's handle of
/// a film.
pub struct Machine<W, F> {
    pub(super) settings: Settings,
    pub(super) connections: BTreeMap<ConnId, Connection<W, F>>,
    pub(super) sessions: BTreeMap<String, Session<W, F>>,
    /// SSRCs in use; no two tracks of any sessions share one.
    pub(super) ssrcs: BTreeSet<u32>,
    pub(super) listening: Listening,
    pub(super) actions: Vec<Action<W, F>>,
}

pub(super) struct Connection<W, F> {
    pub peer: SocketAddr,
    pub local: SocketAddr,
    pub writer: W,
    /// When the last complete message arrived.
    pub heard: Monotonic,
    /// The part after `?` in the URL of the film last described: clients that set up a track below
    /// Content-Base do not repeat it.
    pub query: Option<String>,
    /// Sessions it controls.
    pub sessions: Vec<String>,
    /// Interleaved channels in use, with the session that uses each.
    pub channels: BTreeMap<u8, String>,
    /// Whether it is about to be closed; its requests are no longer answered.
    pub closing: bool,
    /// The request that waits for a job.
    pub pending: Option<(RequestHead, Pending<W, F>)>,
}

impl<W: Clone, F> Machine<W, F> {
    /// Creates a machine without connections.
    pub fn new(settings: Settings) -> Self {
        Machine {
            settings,
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            ssrcs: BTreeSet::new(),
            listening: Listening::default(),
            actions: Vec::new(),
        }
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(&conn)
            && !std::mem::replace(&mut connection.closing, true)
        {
            self.actions.push(Action::Close { conn });
        }
    }

    /// Returns the session that a request names, if it belongs to the client. Sessions belong to an
    /// IP address, so that they survive a lost connection and cannot be taken over from elsewhere
    /// by their identifier.
    pub(super) fn session_of(
        &mut self,
        conn: ConnId,
        request: &Request,
    ) -> Result<(String, &mut Session<W, F>), Refused> {
        let refused = |words: &str| Response::refuse(Status::SESSION_NOT_FOUND, words);
        let name = request
            .session()
            .ok_or_else(|| refused("the Session header is missing; SETUP gives it"))?;
        let peer = self
            .connections
            .get(&conn)
            .map(|connection| connection.peer.ip());
        let session = self
            .sessions
            .get_mut(name)
            .filter(|session| Some(session.peer) == peer);
        let session = session.ok_or_else(|| refused("no such session; it may have expired"))?;
        Ok((name.to_owned(), session))
    }

    /// Records a sign of life of the session that the request names, or else of all sessions of its
    /// connection.
    pub(super) fn alive(&mut self, now: Monotonic, conn: ConnId, request: &Request) {
        if request.session().is_some() {
            let Ok((name, session)) = self.session_of(conn, request) else {
                return;
            };
            session.shows_life(now);
            // A connection that may use the session controls it from now on.
            let before = session.control.replace(conn);
            if before != Some(conn) {
                if let Some(before) = before.and_then(|before| self.connections.get_mut(&before)) {
                    before.sessions.retain(|other| *other != name);
                }
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.sessions.push(name);
                }
            }
        } else if let Some(connection) = self.connections.get(&conn) {
            for name in &connection.sessions {
                if let Some(session) = self.sessions.get_mut(name) {
                    session.shows_life(now);
                }
            }
        }
    }

    /// Changes the phase of a session and shows the new state.
    pub(super) fn enter(&mut self, name: &str, phase: Phase) {
        if let Some(session) = self.sessions.get_mut(name) {
            session.phase = phase;
            self.actions.push(Action::Show {
                session: name.to_owned(),
                state: phase.state(),
            });
        }
    }
}

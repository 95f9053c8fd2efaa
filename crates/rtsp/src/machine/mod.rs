//! The state machine: what happens comes in with its time, what is to be done comes out.
//!
//! One machine holds all connections and sessions of a server, because a session may outlive its
//! connection and be used from another. It does nothing itself: bytes to write, jobs to be done and
//! streams to let go are returned as [`Action`]s, in the order in which they are to be carried out.
//!
//! | file | what lives there |
//! |---|---|
//! | `mod.rs` | events, actions, what all methods have in common |
//! | `session.rs` | a session: its tracks, its phase, how long it may be silent |
//! | `describe.rs` | OPTIONS, DESCRIBE, GET_PARAMETER, SET_PARAMETER |
//! | `setup.rs` | SETUP: transports, and newcomers |
//! | `play.rs` | PLAY and PAUSE |
//! | `leave.rs` | TEARDOWN and all the other ways in which sessions and connections end |
//! | `receive.rs` | what receivers report |

mod describe;
mod leave;
mod play;
mod receive;
mod session;
mod setup;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_rtp::sdp::Profile;
use reelway_session::{EndReason, Listening};

use crate::config::RtspConfig;
use crate::message::{Method, Request};
use crate::parser::Malformed;
use crate::response::{Response, Status};
use crate::seam::{Job, Outcome, Playback};
use crate::target::Target;

pub use receive::{Reported, Said};
pub(crate) use setup::carriage;

use play::Playing;
use session::Session;
use setup::Newcomer;

/// A connection's number, never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// What happens. `W` stands for a connection's write side.
pub enum Event<W> {
    /// Somebody connected.
    Connected {
        /// The connection's number.
        conn: ConnId,
        /// From where.
        peer: SocketAddr,
        /// To which address of ours.
        local: SocketAddr,
        /// Its write side.
        writer: W,
    },
    /// A request came in. Not before the last one was answered.
    Request {
        /// On which connection.
        conn: ConnId,
        /// What is asked.
        request: Request,
    },
    /// Something came in that cannot be understood.
    Malformed {
        /// On which connection.
        conn: ConnId,
        /// Why not.
        bad: Malformed,
    },
    /// An interleaved frame came in.
    Frame {
        /// On which connection.
        conn: ConnId,
        /// On which channel.
        channel: u8,
        /// What it carries.
        data: Vec<u8>,
    },
    /// A job is done.
    Done {
        /// For which connection.
        conn: ConnId,
        /// What became of it.
        outcome: Outcome,
    },
    /// A connection is closed.
    Disconnected {
        /// Which.
        conn: ConnId,
    },
    /// A viewer was heard by RTCP.
    Heard {
        /// Whose it is, by its address or by the SSRC it reports on.
        session: String,
        /// What was said.
        said: Said,
    },
    /// A stream has come to its end.
    Finished {
        /// Whose.
        session: String,
    },
    /// A stream cannot go on.
    Failed {
        /// Whose.
        session: String,
        /// In words.
        reason: String,
    },
    /// Somebody else ended a session: an operator, the server's end.
    Ended {
        /// Which.
        session: String,
        /// Why.
        reason: EndReason,
    },
    /// Time passes; about once a second.
    Tick {
        /// Everything that receivers sent before this time has been read, or is being read now.
        heard_until: Monotonic,
    },
}

/// What is to be done.
pub enum Action<W> {
    /// Queue these bytes, a whole answer.
    Send {
        /// On which connection.
        writer: W,
        /// What.
        bytes: Vec<u8>,
    },
    /// Carry out a job and tell of it by [`Event::Done`].
    Do {
        /// For which connection.
        conn: ConnId,
        /// What.
        job: Job<W>,
    },
    /// Let a stream flow, now that the answer is queued.
    Go(Arc<dyn Playback>),
    /// End a stream, and tell the viewer why if he did not ask for it.
    Stop(Arc<dyn Playback>, Option<String>),
    /// Take a session off the register.
    Leave {
        /// Which.
        session: String,
        /// Why.
        reason: EndReason,
    },
    /// Close a connection when what is queued has been written.
    Close {
        /// Which.
        conn: ConnId,
    },
}

/// What the machine is told once.
pub struct Settings {
    /// Timeouts and bounds.
    pub config: RtspConfig,
    /// RTP and RTCP port for viewers over IPv4, if any can be had.
    pub udp_v4: Option<(u16, u16)>,
    /// Likewise over IPv6.
    pub udp_v6: Option<(u16, u16)>,
    /// Numbers that nobody can guess.
    pub random: Box<dyn FnMut() -> u32 + Send>,
}

/// All connections and sessions.
pub struct Machine<W> {
    settings: Settings,
    connections: HashMap<ConnId, Connection<W>>,
    sessions: HashMap<String, Session<W>>,
    /// SSRCs in use: no two tracks of any sessions have the same.
    ssrcs: HashSet<u32>,
    listening: Listening,
    actions: Vec<Action<W>>,
}

struct Connection<W> {
    peer: SocketAddr,
    local: SocketAddr,
    writer: W,
    /// When the last whole message came.
    heard: Monotonic,
    /// What followed `?` in the address of the film that was asked for last: who sets up a track below
    /// Content-Base does not say it again.
    query: Option<String>,
    /// Sessions it controls.
    sessions: Vec<String>,
    /// Interleaved channels in use, and by which session.
    channels: HashMap<u8, String>,
    /// It is to be closed; nothing it asks is answered any more.
    closing: bool,
    /// What waits for a job.
    pending: Option<(Asked, Pending<W>)>,
}

/// What of a request its answer needs.
#[derive(Clone, Debug)]
struct Asked {
    method: Method,
    url: String,
    cseq: Option<String>,
    timestamp: Option<String>,
    close: bool,
}

enum Pending<W> {
    Describe { origin: String, profile: Profile },
    Newcomer(Box<Newcomer>),
    Admission(Box<setup::Admitted<W>>),
    Play(Playing),
    Pause { session: String },
}

/// Methods that are understood, as `Public` and `Allow` list them.
const METHODS: &str =
    "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";

/// What a method came to.
enum Step<W> {
    Answer(Response),
    /// The answer, and a stream to be let go after it.
    AnswerAndGo(Response, Arc<dyn Playback>),
    Wait(Job<W>, Pending<W>),
}

type Refused = Response;

impl<W: Clone> Machine<W> {
    /// A machine without connections.
    pub fn new(settings: Settings) -> Self {
        Machine {
            settings,
            connections: HashMap::new(),
            sessions: HashMap::new(),
            ssrcs: HashSet::new(),
            listening: Listening::default(),
            actions: Vec::new(),
        }
    }

    /// Takes what happened at `now`; gives what is to be done, in order.
    pub fn handle(&mut self, now: Monotonic, event: Event<W>) -> Vec<Action<W>> {
        match event {
            Event::Connected {
                conn,
                peer,
                local,
                writer,
            } => {
                let connection = Connection {
                    peer: canonical(peer),
                    local: canonical(local),
                    writer,
                    heard: now,
                    query: None,
                    sessions: Vec::new(),
                    channels: HashMap::new(),
                    closing: false,
                    pending: None,
                };
                self.connections.insert(conn, connection);
            }
            Event::Request { conn, request } => self.request(now, conn, request),
            Event::Malformed { conn, bad } => self.malformed(now, conn, bad),
            Event::Frame {
                conn,
                channel,
                data,
            } => self.frame(now, conn, channel, &data),
            Event::Done { conn, outcome } => self.done(now, conn, outcome),
            Event::Disconnected { conn } => self.disconnected(conn),
            Event::Heard { session, said } => self.heard(now, &session, said),
            Event::Finished { session } => self.finished(&session),
            Event::Failed { session, reason } => {
                self.end(&session, EndReason::Failed(reason), true)
            }
            Event::Ended { session, reason } => self.end(&session, reason, true),
            Event::Tick { heard_until } => self.tick(now.min(heard_until)),
        }
        std::mem::take(&mut self.actions)
    }

    /// The streams of all sessions, for one who gives the machine up.
    pub fn into_playbacks(self) -> impl Iterator<Item = Arc<dyn Playback>> {
        let sessions = self.sessions.into_values();
        sessions.filter_map(|session| session.playback)
    }

    /// Connections there are.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn request(&mut self, now: Monotonic, conn: ConnId, request: Request) {
        let open = self
            .connections
            .get_mut(&conn)
            .filter(|connection| !connection.closing);
        let Some(connection) = open else { return };
        connection.heard = now;
        let closes = |value: &str| {
            value
                .split(',')
                .any(|word| word.trim().eq_ignore_ascii_case("close"))
        };
        let asked = Asked {
            method: request.method.clone(),
            url: request.url.clone(),
            cseq: request.cseq().map(str::to_owned),
            timestamp: request.headers.get("Timestamp").map(str::to_owned),
            close: request.headers.all("Connection").any(closes),
        };
        if connection.pending.is_some() {
            // Cannot be: the next request is read after the answer.
            let refused = Response::refuse(
                Status::NOT_VALID_IN_THIS_STATE,
                "the last request is not answered yet",
            );
            return self.answer(conn, &asked, &refused);
        }
        let step = self.step(now, conn, &request);
        self.carry_on(conn, asked, step);
    }

    fn step(
        &mut self,
        now: Monotonic,
        conn: ConnId,
        request: &Request,
    ) -> Result<Step<W>, Refused> {
        if request.version.0 != 1 {
            return Err(Response::refuse(
                Status::VERSION_NOT_SUPPORTED,
                "this server speaks RTSP/1.0",
            ));
        }
        if request.cseq().is_none() {
            return Err(Response::refuse(
                Status::BAD_REQUEST,
                "CSeq, a number, is missing",
            ));
        }
        self.authorize(request)?;
        let required = request
            .headers
            .all("Require")
            .chain(request.headers.all("Proxy-Require"));
        let required: Vec<&str> = required.filter(|value| !value.is_empty()).collect();
        if !required.is_empty() {
            // There is no extension yet that a client may require.
            let unsupported = required.join(", ");
            return Err(
                Response::new(Status::OPTION_NOT_SUPPORTED).header("Unsupported", unsupported)
            );
        }
        self.alive(now, conn, request);
        let target = Target::parse(&request.url);
        match &request.method {
            Method::Options => self.options(conn, request),
            Method::Describe => self.describe(conn, request, &target),
            Method::Setup => self.setup(now, conn, request, &target),
            Method::Play => self.play(conn, request, &target),
            Method::Pause => self.pause(conn, request, &target),
            Method::Teardown => self.teardown(conn, request, &target),
            Method::GetParameter | Method::SetParameter => self.parameter(conn, request),
            Method::Announce | Method::Record | Method::Redirect => {
                let words = format!("{} is not for clients of this server", request.method);
                Err(Response::refuse(Status::METHOD_NOT_ALLOWED, words).header("Allow", METHODS))
            }
            Method::Other(_) => {
                Err(Response::new(Status::NOT_IMPLEMENTED).header("Allow", METHODS))
            }
        }
    }

    /// Whether this client may ask at all. Basic and Digest authentication will stand here (401);
    /// who may come in as a viewer is decided by [`Job::Admit`].
    fn authorize(&self, _: &Request) -> Result<(), Refused> {
        Ok(())
    }

    fn done(&mut self, now: Monotonic, conn: ConnId, outcome: Outcome) {
        let pending = self
            .connections
            .get_mut(&conn)
            .and_then(|connection| connection.pending.take());
        let Some((asked, pending)) = pending else {
            return self.too_late(outcome);
        };
        let step = match (pending, outcome) {
            (Pending::Describe { origin, profile }, Outcome::Film(film)) => {
                self.described(conn, &origin, profile, film)
            }
            (Pending::Newcomer(newcomer), Outcome::Film(film)) => {
                self.newcomer(conn, *newcomer, film)
            }
            (Pending::Admission(setup), Outcome::Admitted(admission)) => {
                self.admitted(now, conn, *setup, admission)
            }
            (Pending::Play(playing), Outcome::Made(made)) => self.made(playing, made),
            (Pending::Play(playing), Outcome::Moved(info)) => self.moved(playing, info),
            (Pending::Play(playing), Outcome::Refused(refusal)) => self.no_room(&playing, refusal),
            (Pending::Pause { session }, Outcome::Paused(at)) => self.paused(&session, at),
            (_, outcome) => {
                self.too_late(outcome);
                Err(Response::new(Status::INTERNAL_ERROR))
            }
        };
        self.carry_on(conn, asked, step);
    }

    fn carry_on(&mut self, conn: ConnId, asked: Asked, step: Result<Step<W>, Refused>) {
        match step {
            Ok(Step::Wait(job, pending)) => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.pending = Some((asked, pending));
                    self.actions.push(Action::Do { conn, job });
                }
            }
            Ok(Step::Answer(answer)) | Err(answer) => self.answer(conn, &asked, &answer),
            Ok(Step::AnswerAndGo(answer, playback)) => {
                self.answer(conn, &asked, &answer);
                self.actions.push(Action::Go(playback));
            }
        }
    }

    fn answer(&mut self, conn: ConnId, asked: &Asked, answer: &Response) {
        let Some(connection) = self.connections.get(&conn) else {
            return;
        };
        tracing::debug!(
            peer = %connection.peer, method = %asked.method, url = asked.url.as_str(),
            answer = answer.status().code(), reason = answer.reason(), "rtsp request"
        );
        let answer = match &asked.timestamp {
            Some(timestamp) => &answer.clone().header("Timestamp", timestamp.as_str()),
            None => answer,
        };
        let bytes = answer.to_bytes(asked.cseq.as_deref());
        self.actions.push(Action::Send {
            writer: connection.writer.clone(),
            bytes,
        });
        if asked.close {
            self.close(conn);
        }
    }

    fn malformed(&mut self, now: Monotonic, conn: ConnId, bad: Malformed) {
        let Some(connection) = self.connections.get_mut(&conn) else {
            return;
        };
        connection.heard = now;
        tracing::debug!(peer = %connection.peer, %bad, "rtsp message not understood");
        let bytes = Response::refuse(bad.status, bad.reason).to_bytes(bad.cseq.as_deref());
        self.actions.push(Action::Send {
            writer: connection.writer.clone(),
            bytes,
        });
        if bad.lost {
            self.close(conn);
        }
    }

    fn close(&mut self, conn: ConnId) {
        if let Some(connection) = self.connections.get_mut(&conn)
            && !std::mem::replace(&mut connection.closing, true)
        {
            self.actions.push(Action::Close { conn });
        }
    }

    /// The session that a request names, if it is the asker's: sessions belong to an IP address, so
    /// that they survive a lost connection and cannot be taken over with their number from elsewhere.
    fn session_of(
        &mut self,
        conn: ConnId,
        request: &Request,
    ) -> Result<(String, &mut Session<W>), Refused> {
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

    /// A request is a sign of life: of the session it names, or of all that its connection controls.
    fn alive(&mut self, now: Monotonic, conn: ConnId, request: &Request) {
        if request.session().is_some() {
            let Ok((name, session)) = self.session_of(conn, request) else {
                return;
            };
            session.shows_life(now);
            // Whoever may use it controls it from now on.
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
}

/// IPv4 in IPv6's clothes (a dual-stack socket's way) is IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    }
}

/// Seconds for `Session: …;timeout=`.
fn timeout_seconds(timeout: Duration) -> u64 {
    timeout.as_secs().max(1)
}

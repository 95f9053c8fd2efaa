//! Viewers over RTSP: clients that ask, the server's machine, and what its actions are here.
//!
//! Requests and answers are text, and take no time on their way. A client asks nothing before it was answered, as the
//! machine expects of connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reelway_admission::Arrival;
use reelway_media::{Nanos, SECOND};
use reelway_playout::{PlayInfo, StreamError};
use reelway_rtp::PayloadOptions;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::film::{Film, FilmError, Identity};
use reelway_rtsp::machine::{Action, ConnId, Event as What, Machine, Said, Settings};
use reelway_rtsp::message::Message;
use reelway_rtsp::parser::Parser;
use reelway_rtsp::seam::{self, FirstPacket, Job, Newcomer, Outcome, PlayOrder, Refusal};
use reelway_time::Monotonic;

use crate::config::Rule;
use crate::film::Film as Played;
use crate::node::{Event, Node};
use crate::trace::Line;
use crate::viewer::{State, Viewer};

/// The machine: viewers are its connections' write sides, and films go by their numbers.
pub(crate) type Server = Machine<u64, usize>;

/// How long a session may be silent.
const SILENCE: Duration = Duration::from_secs(10);
/// What is said of a stream that is no more.
const ENDED: &str = "the stream has ended";

/// What a client has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// This track, counted from 0.
    Setup(usize),
    /// To play from here on; `None`: from where it stands.
    Play(Option<Nanos>),
    Pause,
    Teardown,
}

/// A client.
pub(crate) struct Client {
    film: usize,
    /// Where the first play is to begin.
    wish: Nanos,
    /// What it waits for.
    asked: Option<Asked>,
    cseq: u32,
    session: Option<String>,
    /// What RTP-Info said of each track, until the packet of this number has come.
    pub told: [Option<u16>; 2],
}

/// The machine of a server that has no viewers.
pub(crate) fn server() -> Server {
    let mut number = 0u32;
    Machine::new(Settings {
        config: RtspConfig {
            session_timeout: SILENCE,
            ..RtspConfig::default()
        },
        udp_v4: Some((8000, 8001)),
        udp_v6: None,
        random: Box::new(move || {
            number = number.wrapping_add(0x9e37_79b9);
            number
        }),
    })
}

/// A film as the machine has it.
pub(crate) fn described(film: &Played, number: usize) -> Option<Arc<Film<usize>>> {
    let identity = Identity {
        id: number as u64,
        version: 1,
    };
    let options = PayloadOptions::default();
    Film::new(&film.name, &film.title, identity, options, number)
        .ok()
        .map(Arc::new)
}

pub(crate) fn name_of(id: u64) -> String {
    format!("viewer-{id}")
}

fn viewer_of(session: &str) -> Option<u64> {
    session.strip_prefix("viewer-")?.parse().ok()
}

impl Node {
    /// A viewer connects, and asks for their first track.
    pub fn connects(&mut self, id: u64, film: usize, wish: Nanos) {
        let client = Client {
            film,
            wish,
            asked: None,
            cseq: 0,
            session: None,
            told: [None; 2],
        };
        self.clients.insert(id, client);
        self.happens_over_rtsp(What::Connected {
            conn: ConnId(id),
            peer: SocketAddr::new(address(id), 40_000),
            local: SocketAddr::from(([10, 1, 0, 1], 8554)),
            writer: id,
        });
        self.asks_over_rtsp(id, Asked::Setup(0));
    }

    /// Whether a viewer is a client that could ask for something now.
    pub fn may_ask(&self, id: u64) -> bool {
        let client = self.clients.get(&id);
        client.is_some_and(|client| client.asked.is_none())
    }

    /// A client asks for what it was to ask for later, if it still can.
    pub fn asks_later(&mut self, id: u64, asked: Asked) {
        if self.may_ask(id) && !self.closing {
            self.asks_over_rtsp(id, asked);
        }
    }

    /// A client asks.
    pub fn asks_over_rtsp(&mut self, id: u64, asked: Asked) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.asked = Some(asked);
        client.cseq += 1;
        let url = format!("rtsp://10.1.0.1:8554/film%20{}", client.film);
        let (method, url, header) = match asked {
            Asked::Setup(track) => (
                "SETUP",
                format!("{url}/track={}", track + 1),
                format!(
                    "Transport: RTP/AVP;unicast;client_port={0}-{1}\r\n",
                    5000 + 2 * track,
                    5001 + 2 * track
                ),
            ),
            Asked::Play(Some(at)) => (
                "PLAY",
                url,
                format!("Range: npt={:.6}-\r\n", at as f64 / SECOND as f64),
            ),
            Asked::Play(None) => ("PLAY", url, String::new()),
            Asked::Pause => ("PAUSE", url, String::new()),
            Asked::Teardown => ("TEARDOWN", url, String::new()),
        };
        let session = client.session.as_ref();
        let session = session.map_or_else(String::new, |name| format!("Session: {name}\r\n"));
        let text = format!(
            "{method} {url} RTSP/1.0\r\nCSeq: {}\r\n{session}{header}\r\n",
            client.cseq
        );
        self.note(&Line::Requests { viewer: id, method });
        let mut parser = Parser::default();
        parser.push(text.as_bytes());
        let conn = ConnId(id);
        let event = match parser.next() {
            Ok(Some(Message::Request(request))) => What::Request { conn, request },
            Err(bad) => What::Malformed { conn, bad },
            _ => return,
        };
        self.happens_over_rtsp(event);
    }

    /// Something happens to the machine, and what it says is done.
    pub fn happens_over_rtsp(&mut self, event: What<u64, usize>) {
        let actions = self.rtsp.handle(self.now, event);
        for action in actions {
            self.acts_over_rtsp(action);
        }
    }

    fn acts_over_rtsp(&mut self, action: Action<u64, usize>) {
        match action {
            Action::Send { writer, bytes } => self.answers_over_rtsp(writer, &bytes),
            Action::Do { conn, job } => {
                if let Some(outcome) = self.does(conn.0, job) {
                    self.happens_over_rtsp(What::Done { conn, outcome });
                }
            }
            Action::Book { session, from, .. } => {
                if let Some(id) = viewer_of(&session) {
                    let _ = self.rebook(id, from, false);
                }
            }
            Action::Go { session } => {
                if let Some(id) = viewer_of(&session) {
                    self.flows(id);
                }
            }
            Action::Rest { session } => {
                if let Some(viewer) = viewer_of(&session).and_then(|id| self.viewers.get(&id)) {
                    self.desk.rests(self.now, viewer.booking);
                }
            }
            Action::Unclaim { session } => {
                if let Some(viewer) = viewer_of(&session).and_then(|id| self.viewers.get(&id)) {
                    self.desk.waits_again(viewer.booking);
                }
            }
            Action::Stop { session, .. } => {
                if let Some(id) = viewer_of(&session) {
                    drop(self.lane.remove(id));
                    self.release();
                }
            }
            Action::Leave { session, .. } => {
                if let Some(id) = viewer_of(&session) {
                    self.leave(id, "their session has ended");
                }
            }
            Action::Close { conn } => self.hangs_up(conn.0),
            Action::Rtcp { .. } | Action::Receives { .. } | Action::Show { .. } => {}
        }
    }

    /// A job. `None`: it takes a while, and its outcome is told later.
    fn does(&mut self, conn: u64, job: Job<u64, usize>) -> Option<Outcome<usize>> {
        Some(match job {
            Job::Film { titles } => {
                let titles = titles.iter();
                let found = titles.filter_map(|title| title.strip_prefix("film ")?.parse().ok());
                let film = found
                    .filter_map(|number: usize| self.described.get(number).cloned())
                    .next();
                let unknown = || FilmError::Unknown("there is none of this name".to_owned());
                Outcome::Film(film.ok_or_else(unknown))
            }
            Job::Admit(newcomer) => return self.admits(conn, &newcomer),
            Job::Claim { session, .. } => {
                let viewer = viewer_of(&session).and_then(|id| self.viewers.get(&id));
                let booking = viewer.map(|viewer| viewer.booking);
                let is_there = booking.is_some_and(|booking| self.desk.begins(self.now, booking));
                Outcome::Claimed(if is_there {
                    Ok(())
                } else {
                    Err(Refusal {
                        reason: "their place was lost".to_owned(),
                        retry_after: None,
                    })
                })
            }
            Job::Make(order) => {
                self.makes(&order);
                return None;
            }
            Job::Locate { session } => {
                Outcome::Located(viewer_of(&session).map_or(0, |id| self.position(id)))
            }
            Job::Judge { session, from, .. } => {
                let may = viewer_of(&session).is_some_and(|id| self.rebook(id, from, true));
                Outcome::Judged(if may {
                    Ok(())
                } else {
                    Err(Refusal {
                        reason: "there is no room".to_owned(),
                        retry_after: Some(Duration::from_secs(3)),
                    })
                })
            }
            Job::Seek { session, start, .. } => {
                let id = viewer_of(&session).filter(|id| self.lane.place_of(*id).is_some());
                let Some(id) = id else {
                    return Some(Outcome::Moved(Err(ENDED.to_owned())));
                };
                self.counters.seeks += 1;
                self.goes_elsewhere(id, start);
                self.lane.seek(id, start, None, id);
                self.acts();
                return None;
            }
            Job::Resume { session } => {
                let id = viewer_of(&session).filter(|id| self.lane.place_of(*id).is_some());
                let Some(id) = id else {
                    return Some(Outcome::Moved(Err(ENDED.to_owned())));
                };
                if let Some(viewer) = self.viewers.get_mut(&id) {
                    viewer.state = State::Preparing;
                }
                self.lane.resume(id, id, self.now.nanos());
                self.acts();
                return None;
            }
            Job::Pause { session } => {
                let id = viewer_of(&session);
                let at = id.and_then(|id| self.stands(id));
                Outcome::Paused(at.ok_or_else(|| ENDED.to_owned()))
            }
        })
    }

    /// A newcomer is judged; they may have to wait for their place to be free.
    fn admits(&mut self, id: u64, newcomer: &Newcomer<usize>) -> Option<Outcome<usize>> {
        let film = newcomer.film.handle;
        let at = self.clients.get(&id).map_or(0, |client| client.wish);
        let needs = self.needs(film, at);
        let of = &self.films[film];
        let wants = of.wants();
        let arrival = Arrival {
            title: &of.name,
            address: newcomer.peer.ip(),
            connection: newcomer.connection,
            user: None,
            link: None,
            wants: Some(&wants),
            needs: &needs,
        };
        let outcome = self.desk.reserve(self.now, &arrival, Monotonic::MAX);
        self.sent_away(&outcome.ended);
        let reservation = match outcome.answer {
            Ok(reservation) => reservation,
            Err(refusal) => {
                self.counters.refused += 1;
                let why = refusal.reason.clone();
                self.note(&Line::Refused {
                    viewer: id,
                    film,
                    why,
                });
                return Some(Outcome::Admitted(Err(Refusal {
                    reason: refusal.reason,
                    retry_after: refusal.retry_after,
                })));
            }
        };
        let (booking, starts_in) = (reservation.id, reservation.starts_in);
        if !self.desk.confirm(self.now, booking) {
            self.broken(
                Rule::BookingsReturn,
                format!("viewer {id} is not confirmed"),
            );
        }
        self.counters.admitted += 1;
        self.note(&Line::Admitted {
            viewer: id,
            film,
            at_ms: at / 1_000_000,
            starts_in_ms: starts_in.as_millis() as u64,
        });
        self.bookings.insert(booking, id);
        let viewer = Viewer {
            is_over_rtsp: true,
            ..Viewer::new(film, booking, starts_in, at)
        };
        self.viewers.insert(id, viewer);
        if starts_in.is_zero() {
            return Some(Outcome::Admitted(Ok(name_of(id))));
        }
        self.after(starts_in, Event::Welcome(id));
        None
    }

    /// A newcomer's place is free now.
    pub fn welcome(&mut self, id: u64) {
        let outcome = Outcome::Admitted(Ok(name_of(id)));
        let conn = ConnId(id);
        self.happens_over_rtsp(What::Done { conn, outcome });
    }

    /// Makes a stream, which tells how it begins when it is ready.
    fn makes(&mut self, order: &PlayOrder<u64, usize>) {
        let Some(id) = viewer_of(&order.session) else {
            return;
        };
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        viewer.at = order.start;
        viewer.is_new = false;
        for track in &order.tracks {
            let number = track.track.number as usize - 1;
            if let Some(sent) = viewer.sent.get_mut(number) {
                sent.seq = track.seq;
            }
        }
        self.prepare(id);
    }

    /// A client's stream is ready, or cannot be.
    pub fn ready_over_rtsp(&mut self, id: u64, info: Result<PlayInfo, StreamError>) {
        let asked = self.clients.get(&id).and_then(|client| client.asked);
        let info = info.map_err(|error| error.to_string());
        if info.is_err() {
            self.counters.failed += 1;
        }
        let info = info.map(|info| seam::PlayInfo {
            start: info.start,
            tracks: info
                .tracks
                .iter()
                .map(|track| FirstPacket {
                    seq: track.seq,
                    rtp_time: track.rtp_time,
                })
                .collect(),
        });
        let is_first = self
            .viewers
            .get(&id)
            .is_some_and(|viewer| !viewer.has_played);
        let outcome = match (asked, is_first) {
            (Some(Asked::Play(_)), true) => Outcome::Made {
                session: name_of(id),
                info,
            },
            (Some(Asked::Play(_)), false) => Outcome::Moved(info),
            _ => return,
        };
        let conn = ConnId(id);
        self.happens_over_rtsp(What::Done { conn, outcome });
    }

    /// A client's film is over; it leaves.
    pub fn finished_over_rtsp(&mut self, id: u64) {
        if let Some(viewer) = self.viewers.get_mut(&id) {
            viewer.state = State::Paused;
        }
        let (session, at) = (name_of(id), self.now);
        self.happens_over_rtsp(What::Finished { session, at });
        if self.may_ask(id) {
            self.asks_over_rtsp(id, Asked::Teardown);
        }
    }

    /// A stream may flow.
    fn flows(&mut self, id: u64) {
        let Some(viewer) = self.viewers.get_mut(&id) else {
            return;
        };
        (viewer.state, viewer.has_played) = (State::Playing, true);
        let at_ms = viewer.at / 1_000_000;
        self.note(&Line::Plays { viewer: id, at_ms });
        self.lane.go(id, self.now.nanos());
    }

    /// A client is answered.
    fn answers_over_rtsp(&mut self, id: u64, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let status: u16 = text
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0);
        let header = |name: &str| {
            let lines = text.lines();
            let of = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned());
            lines.filter_map(of).next()
        };
        self.note(&Line::Answers { viewer: id, status });
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let is_well = status == 200;
        match client.asked.take() {
            Some(Asked::Setup(track)) if is_well => {
                let session = header("Session");
                let name = session.and_then(|value| Some(value.split(';').next()?.to_owned()));
                client.session = name.or(client.session.take());
                let next = match track {
                    0 => Asked::Setup(1),
                    _ => Asked::Play(Some(client.wish)),
                };
                self.after(Duration::from_millis(5), Event::Asks(id, next));
            }
            Some(Asked::Play(_)) if is_well => {
                let info = header("RTP-Info").unwrap_or_default();
                let seqs = info.split("seq=").skip(1);
                let seqs = seqs.filter_map(|rest| {
                    rest.split(|c: char| !c.is_ascii_digit())
                        .next()?
                        .parse()
                        .ok()
                });
                for (told, seq) in client.told.iter_mut().zip(seqs) {
                    *told = Some(seq);
                }
            }
            Some(Asked::Pause) if is_well => {
                let after = self.random.within(200, 15_000);
                self.after(
                    Duration::from_millis(after),
                    Event::Asks(id, Asked::Play(None)),
                );
            }
            // A viewer who seeks goes on where they were; others give up.
            Some(Asked::Play(Some(_)))
                if self
                    .viewers
                    .get(&id)
                    .is_some_and(|viewer| viewer.has_played) => {}
            Some(Asked::Play(None)) => {
                self.after(Duration::from_secs(3), Event::Asks(id, Asked::Play(None)));
            }
            Some(Asked::Teardown) => self.hangs_up(id),
            Some(_) => self.hangs_up(id),
            None => {}
        }
    }

    /// A client's connection is closed. A session over UDP stays until it has been silent for too long.
    pub fn hangs_up(&mut self, id: u64) {
        if self.clients.remove(&id).is_some() {
            self.happens_over_rtsp(What::Disconnected { conn: ConnId(id) });
        }
    }

    /// A client does something else.
    pub fn changes_over_rtsp(&mut self, id: u64) {
        let what = self.random.within(0, 10);
        let Some(viewer) = self.viewers.get(&id).filter(|_| self.may_ask(id)) else {
            return;
        };
        let (film, state) = (viewer.film, viewer.state);
        match (what, state) {
            (0..5, State::Playing) => {
                let to = self.random.within(0, self.films[film].length() as u64) as Nanos;
                self.asks_over_rtsp(id, Asked::Play(Some(to)));
            }
            (5..8, State::Playing) => {
                self.counters.pauses += 1;
                self.asks_over_rtsp(id, Asked::Pause);
            }
            (8, _) => self.asks_over_rtsp(id, Asked::Teardown),
            (9, _) => {
                self.counters.vanished += 1;
                self.hangs_up(id);
            }
            _ => {}
        }
    }

    /// Once a second: receivers report, and the machine looks who is silent.
    pub fn reports_over_rtsp(&mut self) {
        let there: Vec<u64> = self.clients.keys().copied().collect();
        for id in there {
            let (session, said) = (name_of(id), Said::Alive);
            self.happens_over_rtsp(What::Heard { session, said });
        }
        let heard_until = self.now;
        self.happens_over_rtsp(What::Tick { heard_until });
    }

    /// All leave.
    pub fn ends_over_rtsp(&mut self) {
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            self.hangs_up(id);
        }
        for id in self.viewers.keys().copied().collect::<Vec<_>>() {
            self.ended_over_rtsp(id, None);
        }
    }

    /// Somebody else has ended a viewer's session.
    pub fn ended_over_rtsp(&mut self, id: u64, words: Option<String>) {
        let session = name_of(id);
        self.happens_over_rtsp(What::Ended { session, words });
    }

    /// The first packet since PLAY has the number that RTP-Info said, and nothing comes before PLAY or after PAUSE.
    pub fn check_told(&mut self, id: u64, track: usize, seq: u16) {
        let state = self.viewers.get(&id).map(|viewer| viewer.state);
        if state != Some(State::Playing) {
            let what = format!("viewer {id} is sent packets, and is {state:?}");
            self.broken(Rule::AsTold, what);
        }
        let told = self.clients.get_mut(&id);
        let told = told.and_then(|client| client.told[track].take());
        if let Some(told) = told.filter(|told| *told != seq) {
            let what = format!(
                "viewer {id} is sent packet {seq} of track {track}, and RTP-Info said {told}"
            );
            self.broken(Rule::AsTold, what);
        }
    }
}

/// A viewer's address.
pub(crate) fn address(id: u64) -> IpAddr {
    IpAddr::from([10, 0, 0, (id % 250) as u8])
}

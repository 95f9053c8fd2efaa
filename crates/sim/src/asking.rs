//! The actions of RTSP clients: they send requests, receive responses, and leave.
//!
//! Requests and responses are text, and travel in no time. A client sends no request before the
//! last one was answered, as the machine expects of connections.

use std::net::SocketAddr;
use std::time::Duration;

use reelway_media::{Nanos, SECOND};
use reelway_rtsp::machine::{ConnId, Event as What, Feedback};
use reelway_rtsp::message::Message;
use reelway_rtsp::parser::Parser;

use crate::client::{Asked, Client, SILENCE, address, name_of};
use crate::config::Rule;
use crate::events::Event;
use crate::node::Node;
use crate::trace::Line;
use crate::viewer::State;

/// The valid responses to requests: success, try later, or too late for the session.
const ANSWERS: [u16; 4] = [200, 453, 454, 503];
/// Also valid if the film cannot be read.
const CANNOT: u16 = 500;
/// A request is answered within this time, ns: places are held back for at most ten seconds.
const ANSWERED: Nanos = 20 * SECOND;
/// How long after the session timeout a silent session must have ended, ns.
const ENDS: Nanos = 5 * SECOND;

impl Node {
    /// Connects a viewer, who requests their first track.
    pub fn connects(&mut self, id: u64, film: usize, wish: Nanos, never_plays: bool) {
        let client = Client {
            film,
            wish,
            is_interleaved: self.random.once_in(2),
            never_plays,
            asked: None,
            asked_at: self.now,
            cseq: 0,
            session: None,
            announced: [None; 2],
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

    /// Returns whether a viewer is a client that may send a request now.
    pub fn may_ask(&self, id: u64) -> bool {
        let client = self.clients.get(&id);
        client.is_some_and(|client| client.asked.is_none())
    }

    /// Sends a scheduled request, if the client still may.
    pub fn asks_later(&mut self, id: u64, asked: Asked) {
        if self.may_ask(id) && !self.closing {
            self.asks_over_rtsp(id, asked);
        }
    }

    /// Sends a client's request.
    pub fn asks_over_rtsp(&mut self, id: u64, asked: Asked) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        client.asked = Some(asked);
        client.asked_at = self.now;
        client.cseq += 1;
        let title = self.films[client.film].name.replace(' ', "%20");
        let url = format!("rtsp://10.1.0.1:8554/{title}");
        let (method, url, header) = match asked {
            Asked::Setup(track) => (
                "SETUP",
                format!("{url}/track={}", track + 1),
                match client.is_interleaved {
                    true => format!(
                        "Transport: RTP/AVP/TCP;unicast;interleaved={}-{}\r\n",
                        2 * track,
                        2 * track + 1
                    ),
                    false => format!(
                        "Transport: RTP/AVP;unicast;client_port={}-{}\r\n",
                        5000 + 2 * track,
                        5001 + 2 * track
                    ),
                },
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

    /// Handles a response to a client.
    pub fn answers_over_rtsp(&mut self, id: u64, bytes: &[u8]) {
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
        let asked = client.asked.take();
        let (tracks, cseq) = (self.films[client.film].title.tracks.len(), client.cseq);
        let seqs = text.matches(";seq=").count();
        let is_whole = !is_well || !matches!(asked, Some(Asked::Play(_))) || seqs == tracks;
        let is_own = header("CSeq").is_some_and(|announced| announced == cseq.to_string());
        let is_known =
            ANSWERS.contains(&status) || status == CANNOT && self.unread.contains(&client.film);
        if asked.is_none() || !is_own || !is_whole || !is_known {
            let what =
                format!("viewer {id} gets a wrong response to {asked:?} (CSeq {cseq}): {text}");
            self.broken(Rule::AnsweredOnce, what);
        }
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        match asked {
            Some(Asked::Setup(_)) if client.never_plays => {}
            Some(Asked::Setup(track)) if is_well => {
                let session = header("Session");
                let name = session.and_then(|value| Some(value.split(';').next()?.to_owned()));
                client.session = name.or(client.session.take());
                let next = match track + 1 < self.films[client.film].title.tracks.len() {
                    true => Asked::Setup(track + 1),
                    false => Asked::Play(Some(client.wish)),
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
                for (announced, seq) in client.announced.iter_mut().zip(seqs) {
                    *announced = Some(seq);
                }
            }
            Some(Asked::Pause) if is_well => {
                let after = self.random.within(200, 15_000);
                self.after(
                    Duration::from_millis(after),
                    Event::Asks(id, Asked::Play(None)),
                );
            }
            // A viewer who seeks stays at their position; others give up.
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

    /// Closes a client's connection. A session over UDP stays until it has been silent
    /// for too long.
    pub fn hangs_up(&mut self, id: u64) {
        if self.clients.remove(&id).is_some() {
            self.silent.insert(id, self.now);
            self.happens_over_rtsp(What::Disconnected { conn: ConnId(id) });
        }
    }

    /// Lets a client do something else.
    pub fn changes_over_rtsp(&mut self, id: u64) {
        let what = self.random.within(0, 10);
        let Some(viewer) = self.viewers.get(&id).filter(|_| self.may_ask(id)) else {
            return;
        };
        let (film, state) = (viewer.film, viewer.state);
        if viewer.connection.is_some() && state == State::Playing && self.random.once_in(3) {
            return self.stops_reading(id);
        }
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

    /// Once a second: receivers send reports, and the machine looks for silent sessions.
    pub fn reports_over_rtsp(&mut self) {
        let there = self
            .clients
            .iter()
            .filter(|(_, client)| !client.never_plays);
        for id in there.map(|(id, _)| *id).collect::<Vec<_>>() {
            let (session, feedback) = (name_of(id), Feedback::Alive);
            self.happens_over_rtsp(What::Feedback { session, feedback });
        }
        self.check_sessions();
        let heard_until = self.now;
        self.happens_over_rtsp(What::Tick { heard_until });
    }

    /// Checks that every request is answered in time, and that silent sessions end.
    fn check_sessions(&mut self) {
        let now = self.now;
        let waits =
            |client: &&Client| client.asked.is_some() && client.asked_at.offset(ANSWERED) < now;
        let waits = self.clients.iter().find(|(_, client)| waits(client));
        if let Some((id, client)) = waits {
            let what = format!("viewer {id} gets no response to {:?}", client.asked);
            self.broken(Rule::AnsweredOnce, what);
        }
        let viewers = &self.viewers;
        self.silent.retain(|id, _| viewers.contains_key(id));
        let long = SILENCE.as_nanos() as Nanos + ENDS;
        let stays = self
            .silent
            .iter()
            .find(|(_, since)| since.offset(long) < now);
        if let Some((id, _)) = stays.filter(|_| !self.explains(now)) {
            let what = format!(
                "the session of viewer {id} has not ended after {} s of silence",
                long / SECOND
            );
            self.broken(Rule::BookingsReturn, what);
        }
    }

    /// Disconnects all clients at the end of the run.
    pub fn ends_over_rtsp(&mut self) {
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            self.hangs_up(id);
        }
        for id in self.viewers.keys().copied().collect::<Vec<_>>() {
            self.ended_over_rtsp(id, None);
        }
    }

    /// Handles the end of a client's film; the client leaves.
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
}

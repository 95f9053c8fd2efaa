//! A server without sockets: the state machine with films, viewers and a clock of the test. Bytes
//! for clients are kept; actions are recorded.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reelway_media::{Nanos, SECOND};
use reelway_rtp::sdp::SdpMedia;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::film::{Film, FilmError, FilmTrack, Identity};
use reelway_rtsp::machine::{Action, ConnId, Event, Machine, Settings};
use reelway_rtsp::message::Message;
use reelway_rtsp::parser::Parser;
use reelway_rtsp::seam::{
    EndReason, FirstPacket, Job, Outcome, PlayInfo, PlayOrder, Reception, Refusal, State,
};
use reelway_time::Monotonic;

/// A stream with a sync sample every two seconds.
pub struct TestStream {
    pub order: PlayOrder<u64, ()>,
    position: Nanos,
}

impl TestStream {
    fn place(&mut self, start: Nanos) -> PlayInfo {
        self.position = start;
        let tracks = self.order.tracks.iter().map(|of| FirstPacket {
            // As if 100 packets had been sent per second of the film.
            seq: of.seq.wrapping_add((start / (SECOND / 100)) as u16),
            rtp_time: of.rtp_base.wrapping_add(
                (start as i128 * i128::from(of.track.clock_rate) / i128::from(SECOND)) as u32,
            ),
        });
        PlayInfo {
            start,
            tracks: tracks.collect(),
        }
    }

    fn seek(&mut self, start: Nanos) -> PlayInfo {
        self.place(start / (2 * SECOND) * 2 * SECOND)
    }
}

/// A film with video and audio, or with audio alone.
fn film(title: &str, tracks: &[FilmTrack]) -> Arc<Film<()>> {
    let media = tracks.iter().map(|track| SdpMedia {
        media: if track.number == 1 { "video" } else { "audio" },
        encoding: match track.number {
            1 => "H264/90000".to_owned(),
            _ => "L16/48000/2".to_owned(),
        },
        fmtp: String::new(),
        bandwidth_kbps: 100,
        language: None,
        frame_size: None,
    });
    Arc::new(Film {
        title: title.to_owned(),
        name: title.to_owned(),
        identity: Identity { id: 1, version: 1 },
        form: reelway_rtsp::film::Form::Tracks,
        duration: 10 * SECOND,
        tracks: tracks.to_vec(),
        media: media.collect(),
        handle: (),
    })
}

fn seconds(at: Nanos) -> f64 {
    at as f64 / SECOND as f64
}

/// The server under test.
pub struct Server {
    pub machine: Machine<u64, ()>,
    pub now: Monotonic,
    films: HashMap<String, Result<Arc<Film<()>>, FilmError>>,
    /// The refusal of every request for capacity, if set.
    pub refusal: Option<Refusal>,
    /// Reason why streams can neither be made nor moved.
    pub fault: Option<String>,
    /// URL that viewers who may leave are redirected to.
    pub elsewhere: Option<String>,
    /// Whether jobs wait for [`Server::do_jobs`].
    pub hold_jobs: bool,
    held: Vec<(ConnId, Job<u64, ()>)>,
    pub streams: HashMap<String, TestStream>,
    story: Vec<String>,
    next_conn: u64,
    next_session: u64,
    parsers: HashMap<ConnId, Parser>,
    received: HashMap<ConnId, Vec<u8>>,
    pub closed: Vec<ConnId>,
    /// The state shown for each session.
    pub states: HashMap<String, State>,
    pub receptions: HashMap<String, Vec<Reception>>,
    /// User-Agent and query of the viewer who last requested admission.
    pub newcomer: (Option<String>, Option<String>),
}

pub const PEER: &str = "10.0.0.7:40000";

impl Server {
    pub fn new() -> Server {
        Server::with(RtspConfig::default())
    }

    pub fn with(config: RtspConfig) -> Server {
        let mut random = 1000;
        let settings = Settings {
            config,
            udp_v4: Some((8000, 8001)),
            udp_v6: Some((8000, 8001)),
            random: Box::new(move || {
                random += 1;
                random
            }),
        };
        let track = |number, clock_rate| FilmTrack {
            number,
            payload_type: 95 + number as u8,
            rtx_type: 111 + number as u8,
            clock_rate,
        };
        let film = |title: &str, tracks: &[FilmTrack]| (title.to_owned(), Ok(film(title, tracks)));
        let both = [track(1, 90_000), track(2, 48_000)];
        let films = HashMap::from([
            film("nature/bunny", &both),
            film("sound", &both[1..]),
            film("a, \"b\" 🎬", &both),
            film("track=9", &both),
            (
                "copying".to_owned(),
                Err(FilmError::NotReady(
                    "film 'copying' is not ready: still growing".to_owned(),
                )),
            ),
            (
                "flac".to_owned(),
                Err(FilmError::Unplayable(
                    "FLAC cannot be sent over RTP".to_owned(),
                )),
            ),
        ]);
        Server {
            machine: Machine::new(settings),
            now: Monotonic::from_nanos(1_000_000_000_000),
            films,
            refusal: None,
            elsewhere: None,
            hold_jobs: false,
            fault: None,
            held: Vec::new(),
            streams: HashMap::new(),
            story: Vec::new(),
            next_conn: 0,
            next_session: 0,
            parsers: HashMap::new(),
            received: HashMap::new(),
            closed: Vec::new(),
            states: HashMap::new(),
            receptions: HashMap::new(),
            newcomer: (None, None),
        }
    }

    /// Connects from the usual address.
    pub fn connect(&mut self) -> ConnId {
        self.connect_from(PEER)
    }

    pub fn connect_from(&mut self, peer: &str) -> ConnId {
        let peer: SocketAddr = peer.parse().unwrap();
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        let local = if peer.is_ipv4() {
            "10.0.0.1:8554"
        } else {
            "[fd00::1]:8554"
        };
        self.parsers.insert(conn, Parser::default());
        self.received.insert(conn, Vec::new());
        self.happen(Event::Connected {
            conn,
            peer,
            local: local.parse().unwrap(),
            writer: conn.0,
        });
        conn
    }

    /// Receives bytes; returns what the server writes to this connection meanwhile.
    pub fn send(&mut self, conn: ConnId, bytes: &[u8]) -> String {
        self.received.insert(conn, Vec::new());
        let mut parser = self.parsers.remove(&conn).unwrap_or_default();
        parser.push(bytes);
        loop {
            match parser.next() {
                Ok(None) => break,
                Ok(Some(Message::Request(request))) => {
                    self.happen(Event::Request { conn, request })
                }
                Ok(Some(Message::Frame { channel, data })) => self.happen(Event::Frame {
                    conn,
                    channel,
                    data,
                }),
                Err(bad) => self.happen(Event::Malformed { conn, bad }),
            }
        }
        self.parsers.insert(conn, parser);
        self.received(conn)
    }

    /// Returns what the server has written to this connection since the last [`Server::send`].
    pub fn received(&self, conn: ConnId) -> String {
        String::from_utf8(self.received[&conn].clone()).unwrap()
    }

    /// Sends a request with this first line and these headers, plus CSeq; returns the response.
    pub fn ask(&mut self, conn: ConnId, request: &str) -> Answer {
        let (first, headers) = request.split_once('\n').unwrap_or((request, ""));
        let headers: String = headers
            .lines()
            .map(|line| format!("{}\r\n", line.trim()))
            .collect();
        let text = self.send(
            conn,
            format!("{first} RTSP/1.0\r\nCSeq: 77\r\n{headers}\r\n").as_bytes(),
        );
        Answer::parse(&text)
    }

    /// Sends a request that must succeed; returns the response.
    pub fn must(&mut self, conn: ConnId, request: &str) -> Answer {
        let answer = self.ask(conn, request);
        assert_eq!(answer.code, 200, "{request}: {answer:?}");
        answer
    }

    /// Sets up both tracks of the bunny over UDP; returns the session's name.
    pub fn set_up_udp(&mut self, conn: ConnId) -> String {
        let first =
            "SETUP rtsp://h/nature/bunny/track=1\nTransport: RTP/AVP;unicast;client_port=5000-5001";
        let session = self.must(conn, first).session();
        let second = format!(
            "SETUP rtsp://h/nature/bunny/track=2\nTransport: RTP/AVP;unicast;client_port=5002-5003\nSession: {session}"
        );
        self.must(conn, &second);
        session
    }

    /// Sets up both tracks of the bunny over TCP; returns the session's name.
    pub fn set_up_tcp(&mut self, conn: ConnId) -> String {
        let first =
            "SETUP rtsp://h/nature/bunny/track=1\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1";
        let session = self.must(conn, first).session();
        let second = format!(
            "SETUP rtsp://h/nature/bunny/track=2\nTransport: RTP/AVP/TCP;unicast;interleaved=2-3\nSession: {session}"
        );
        self.must(conn, &second);
        session
    }

    /// Plays the bunny; `range` may be empty.
    pub fn play(&mut self, conn: ConnId, session: &str, range: &str) -> Answer {
        let range = if range.is_empty() {
            String::new()
        } else {
            format!("\nRange: {range}")
        };
        self.ask(
            conn,
            &format!("PLAY rtsp://h/nature/bunny/\nSession: {session}{range}"),
        )
    }

    /// Sets the position of a stream.
    pub fn stream_is_at(&mut self, session: &str, position: Nanos) {
        self.streams.get_mut(session).unwrap().position = position;
    }

    /// Lets time pass, second by second.
    pub fn wait(&mut self, time: Duration) {
        for _ in 0..time.as_secs() {
            self.now += Duration::from_secs(1);
            let heard_until = self.now;
            self.happen(Event::Tick { heard_until });
        }
    }

    pub fn happen(&mut self, event: Event<u64, ()>) {
        let actions = self.machine.handle(self.now, event);
        self.act(actions);
    }

    /// Runs the jobs held back.
    pub fn do_jobs(&mut self) {
        self.hold_jobs = false;
        for (conn, job) in std::mem::take(&mut self.held) {
            self.do_job(conn, job);
        }
    }

    /// Runs the jobs held back; jobs that follow are held back again.
    pub fn do_jobs_held_once(&mut self) {
        for (conn, job) in std::mem::take(&mut self.held) {
            self.do_job(conn, job);
        }
    }

    /// Returns the recorded actions since the last call, in order.
    pub fn story(&mut self) -> Vec<String> {
        std::mem::take(&mut self.story)
    }

    fn tell(&mut self, what: impl Into<String>) {
        self.story.push(what.into());
    }

    fn act(&mut self, actions: Vec<Action<u64, ()>>) {
        for action in actions {
            match action {
                Action::Send { writer, bytes } => {
                    self.tell(format!("answer {}", String::from_utf8_lossy(&bytes[9..12])));
                    self.received
                        .get_mut(&ConnId(writer))
                        .unwrap()
                        .extend(bytes);
                }
                Action::Do { conn, job } if self.hold_jobs => self.held.push((conn, job)),
                Action::Do { conn, job } => self.do_job(conn, job),
                Action::Book { from, to, .. } => {
                    self.tell(format!("book {} to {}", seconds(from), seconds(to)));
                }
                Action::Go { .. } => self.tell("go"),
                Action::Rest { .. } => self.tell("rest"),
                Action::Rtcp { data, .. } => self.tell(format!("{} bytes of RTCP", data.len())),
                Action::Stop { why, .. } => match why {
                    Some(why) => self.tell(format!("stop: {why}")),
                    None => self.tell("stop"),
                },
                Action::Unclaim { .. } => self.tell("unclaim"),
                Action::Show { session, state } => {
                    self.states.insert(session, state);
                }
                Action::Receives { session, reception } => {
                    self.receptions.entry(session).or_default().push(reception);
                }
                Action::Leave { session, reason } => {
                    let words = match reason {
                        EndReason::Left => "left".to_owned(),
                        EndReason::Disconnected => "connection closed".to_owned(),
                        EndReason::Expired => "no sign of life".to_owned(),
                        EndReason::Failed(words) => format!("failed: {words}"),
                        EndReason::Ended(words) => words.unwrap_or_default(),
                    };
                    self.tell(format!("{session} ends: {words}"));
                }
                Action::Close { conn } => {
                    self.closed.push(conn);
                    self.tell(format!("close {}", conn.0));
                    self.happen(Event::Disconnected { conn });
                }
            }
        }
    }

    fn do_job(&mut self, conn: ConnId, job: Job<u64, ()>) {
        let outcome = match job {
            Job::Film {
                titles, may_leave, ..
            } => {
                let found = titles.iter().find_map(|title| self.films.get(title));
                if let Some(url) = self.elsewhere.clone().filter(|_| may_leave) {
                    let outcome = Outcome::Film(Err(FilmError::Elsewhere(url)));
                    return self.happen(Event::Done { conn, outcome });
                }
                Outcome::Film(match found {
                    Some(film) => film.clone(),
                    None => Err(FilmError::Unknown(format!(
                        "there is no film '{}'",
                        titles[0]
                    ))),
                })
            }
            Job::Admit(newcomer) => {
                self.tell(format!(
                    "{:?} from {} wants {}",
                    newcomer.carriage, newcomer.peer, newcomer.film.title
                ));
                self.newcomer = (newcomer.user_agent, newcomer.query);
                Outcome::Admitted(self.room().map(|()| {
                    self.next_session += 1;
                    format!("session{}", self.next_session)
                }))
            }
            Job::Claim { tracks, .. } => {
                self.tell(format!("claim {} tracks", tracks.len()));
                Outcome::Claimed(self.room())
            }
            Job::Make(order) => {
                let (session, start) = (order.session.clone(), order.start);
                self.tell(format!("make {} to {}", seconds(start), seconds(order.end)));
                let mut stream = TestStream {
                    order: *order,
                    position: 0,
                };
                let info = self.moved(|| stream.seek(start));
                self.streams.insert(session.clone(), stream);
                Outcome::Made { session, info }
            }
            Job::Locate { session } => Outcome::Located(self.streams[&session].position),
            Job::Judge { from, to, .. } => {
                self.tell(format!("judge {} to {}", seconds(from), seconds(to)));
                Outcome::Judged(self.room())
            }
            Job::Seek {
                session,
                start,
                end,
            } => {
                self.tell(format!("seek {} to {}", seconds(start), seconds(end)));
                let mut stream = self.streams.remove(&session).unwrap();
                let info = self.moved(|| stream.seek(start));
                self.streams.insert(session, stream);
                Outcome::Moved(info)
            }
            Job::Resume { session } => {
                self.tell("resume");
                let mut stream = self.streams.remove(&session).unwrap();
                let info = self.moved(|| stream.place(stream.position));
                self.streams.insert(session, stream);
                Outcome::Moved(info)
            }
            Job::Pause { session } => {
                self.tell("pause");
                Outcome::Paused(Ok(self.streams[&session].position))
            }
        };
        self.happen(Event::Done { conn, outcome });
    }

    fn room(&self) -> Result<(), Refusal> {
        self.refusal.clone().map_or(Ok(()), Err)
    }

    fn moved(&self, place: impl FnOnce() -> PlayInfo) -> Result<PlayInfo, String> {
        match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(place()),
        }
    }
}

/// A parsed response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: u16,
    /// The status line.
    pub line: String,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn parse(text: &str) -> Answer {
        let all = Answer::parse_all(text);
        assert_eq!(all.len(), 1, "one answer expected: {text:?}");
        all.into_iter().next().unwrap()
    }

    pub fn parse_all(mut text: &str) -> Vec<Answer> {
        let mut out = Vec::new();
        while !text.is_empty() {
            let (head, rest) = text
                .split_once("\r\n\r\n")
                .expect("a head ends with an empty line");
            let mut lines = head.split("\r\n");
            let line = lines.next().unwrap().to_owned();
            assert!(line.starts_with("RTSP/1.0 "), "{line}");
            let headers: Vec<(String, String)> = lines
                .map(|line| {
                    line.split_once(": ")
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .expect(line)
                })
                .collect();
            let length = headers
                .iter()
                .find(|(name, _)| name == "Content-Length")
                .map_or(0, |(_, value)| value.parse().unwrap());
            let (body, rest) = rest.split_at(length);
            out.push(Answer {
                code: line[9..12].parse().unwrap(),
                line,
                headers,
                body: body.to_owned(),
            });
            text = rest;
        }
        out
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the session's name from the Session header.
    pub fn session(&self) -> String {
        self.get("Session")
            .expect("a Session header")
            .split(';')
            .next()
            .unwrap()
            .to_owned()
    }
}

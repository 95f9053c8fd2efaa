//! A server without sockets: the state machine with a library, an audience and a clock of the
//! test's own. What clients would read is kept; what the world is asked to do is written down.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::future::ready;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use reelway_clock::Monotonic;
use reelway_media::{Nanos, SECOND};
use reelway_rtp::sdp::Profile;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::machine::{Action, ConnId, Event, Machine, Settings};
use reelway_rtsp::message::Message;
use reelway_rtsp::parser::Parser;
use reelway_rtsp::seam::{
    Admission, Film, FilmError, FilmTrack, FirstPacket, Job, Outcome, PlayInfo, PlayOrder,
    Playback, Sent, Soon,
};
use reelway_rtsp::watch::Watch;
use reelway_session::Refusal;

/// A film with a sync sample every two seconds.
#[derive(Debug)]
pub struct TestFilm {
    title: String,
    tracks: Vec<FilmTrack>,
    duration: Nanos,
}

impl Film for TestFilm {
    fn title(&self) -> &str {
        &self.title
    }

    fn duration(&self) -> Nanos {
        self.duration
    }

    fn tracks(&self) -> &[FilmTrack] {
        &self.tracks
    }

    fn sdp(&self, server: IpAddr, profile: Profile) -> String {
        let mut sdp = format!("v=0\r\no=- 1 1 IN IP4 {server}\r\ns={}\r\n", self.title);
        if profile == Profile::Avpf {
            sdp += "m=video 0 RTP/AVPF 96 112\r\n";
        }
        sdp
    }
}

/// What a stream is made to do is written here.
type Story = Arc<Mutex<Vec<String>>>;

pub struct TestPlayback {
    story: Story,
    pub order: PlayOrder<u64>,
    position: Mutex<Nanos>,
}

impl TestPlayback {
    fn place(&self, start: Nanos) -> PlayInfo {
        *self.position.lock().unwrap() = start;
        let tracks = self.order.tracks.iter().map(|of| FirstPacket {
            // As if a hundred packets had gone out in each second of the film.
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

    fn tell(&self, what: impl Into<String>) {
        self.story.lock().unwrap().push(what.into());
    }
}

impl Playback for TestPlayback {
    fn go(&self) {
        self.tell("go");
    }

    fn send_by(&self, _: Option<Arc<reelway_timetable::Schedule>>) {}

    fn seek(&self, start: Nanos, end: Nanos) -> Soon<PlayInfo> {
        self.tell(format!("seek {} to {}", seconds(start), seconds(end)));
        let info = self.place(start / (2 * SECOND) * 2 * SECOND);
        Box::pin(ready(Ok(info)))
    }

    fn pause(&self) -> Soon<Nanos> {
        self.tell("pause");
        Box::pin(ready(Ok(*self.position.lock().unwrap())))
    }

    fn resume(&self) -> Soon<PlayInfo> {
        self.tell("resume");
        let position = *self.position.lock().unwrap();
        Box::pin(ready(Ok(self.place(position))))
    }

    fn rtcp(&self, data: &[u8]) {
        self.tell(format!("{} bytes of RTCP", data.len()));
    }

    fn stop(&self, why: Option<&str>) {
        match why {
            Some(why) => self.tell(format!("stop: {why}")),
            None => self.tell("stop"),
        }
    }

    fn is_finished(&self) -> bool {
        *self.position.lock().unwrap() == self.order.film.duration()
    }

    fn progress(&self) -> Sent {
        Sent {
            position: *self.position.lock().unwrap(),
            ..Sent::default()
        }
    }
}

/// What a test's stream promises is there already.
fn at_once<T>(mut soon: Soon<T>) -> Result<T, String> {
    match soon.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a test's stream does not wait"),
    }
}

fn seconds(at: Nanos) -> f64 {
    at as f64 / SECOND as f64
}

/// The server under test.
pub struct Server {
    pub machine: Machine<u64>,
    pub now: Monotonic,
    films: HashMap<String, Result<Arc<TestFilm>, FilmError>>,
    /// Newcomers are refused with this.
    pub refusal: Option<Refusal>,
    /// Jobs are not done until [`Server::do_jobs`].
    pub hold_jobs: bool,
    held: Vec<(ConnId, Job<u64>)>,
    pub playbacks: HashMap<String, Arc<TestPlayback>>,
    story: Story,
    next_conn: u64,
    next_session: u64,
    parsers: HashMap<ConnId, Parser>,
    received: HashMap<ConnId, Vec<u8>>,
    pub closed: Vec<ConnId>,
    pub watches: HashMap<String, Arc<Watch>>,
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
            clock_rate,
        };
        let film = |title: &str, tracks: &[FilmTrack]| {
            let film = TestFilm {
                title: title.to_owned(),
                tracks: tracks.to_vec(),
                duration: 10 * SECOND,
            };
            (title.to_owned(), Ok(Arc::new(film)))
        };
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
                "av1".to_owned(),
                Err(FilmError::Unplayable(
                    "AV1 cannot be sent over RTP yet".to_owned(),
                )),
            ),
        ]);
        Server {
            machine: Machine::new(settings),
            now: Monotonic::from_nanos(1_000_000_000_000),
            films,
            refusal: None,
            hold_jobs: false,
            held: Vec::new(),
            playbacks: HashMap::new(),
            story: Story::default(),
            next_conn: 0,
            next_session: 0,
            parsers: HashMap::new(),
            received: HashMap::new(),
            closed: Vec::new(),
            watches: HashMap::new(),
        }
    }

    /// Somebody connects from the usual address.
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

    /// Bytes arrive; what the server writes to this connection meanwhile is returned.
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

    /// What the server has written to this connection since the last [`Server::send`].
    pub fn received(&self, conn: ConnId) -> String {
        String::from_utf8(self.received[&conn].clone()).unwrap()
    }

    /// A request with this first line and these headers, CSeq added; returns the answer.
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

    /// Asks and takes the answer for granted.
    pub fn must(&mut self, conn: ConnId, request: &str) -> Answer {
        let answer = self.ask(conn, request);
        assert_eq!(answer.code, 200, "{request}: {answer:?}");
        answer
    }

    /// Both tracks of the bunny over UDP; the session's number.
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

    /// Both tracks of the bunny into the connection; the session's number.
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

    /// PLAY of the bunny; `range` may be empty.
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

    /// The stream has come this far.
    pub fn stream_is_at(&mut self, session: &str, position: Nanos) {
        *self.playbacks[session].position.lock().unwrap() = position;
    }

    /// Time passes, second by second.
    pub fn wait(&mut self, time: Duration) {
        for _ in 0..time.as_secs() {
            self.now += Duration::from_secs(1);
            let heard_until = self.now;
            self.happen(Event::Tick { heard_until });
        }
    }

    pub fn happen(&mut self, event: Event<u64>) {
        let actions = self.machine.handle(self.now, event);
        self.act(actions);
    }

    /// Does what was held back.
    pub fn do_jobs(&mut self) {
        self.hold_jobs = false;
        for (conn, job) in std::mem::take(&mut self.held) {
            self.do_job(conn, job);
        }
    }

    /// Does what was held back; what follows from it is held back again.
    pub fn do_jobs_held_once(&mut self) {
        for (conn, job) in std::mem::take(&mut self.held) {
            self.do_job(conn, job);
        }
    }

    /// What was done since the last call, in order.
    pub fn story(&mut self) -> Vec<String> {
        std::mem::take(&mut self.story.lock().unwrap())
    }

    fn tell(&self, what: impl Into<String>) {
        self.story.lock().unwrap().push(what.into());
    }

    fn act(&mut self, actions: Vec<Action<u64>>) {
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
                Action::Go(playback) => playback.go(),
                Action::Stop(playback, why) => playback.stop(why.as_deref()),
                Action::Leave { session, reason } => self.tell(format!("{session} ends: {reason}")),
                Action::Close { conn } => {
                    self.closed.push(conn);
                    self.tell(format!("close {}", conn.0));
                    self.happen(Event::Disconnected { conn });
                }
            }
        }
    }

    fn do_job(&mut self, conn: ConnId, job: Job<u64>) {
        let outcome = match job {
            Job::Film { titles } => {
                let found = titles.iter().find_map(|title| self.films.get(title));
                Outcome::Film(match found {
                    Some(Ok(film)) => Ok(film.clone()),
                    Some(Err(why)) => Err(why.clone()),
                    None => Err(FilmError::Unknown(format!(
                        "there is no film '{}'",
                        titles[0]
                    ))),
                })
            }
            Job::Admit(viewer) => {
                self.tell(format!(
                    "{} from {} wants {}",
                    viewer.protocol, viewer.peer, viewer.title
                ));
                Outcome::Admitted(match &self.refusal {
                    Some(refusal) => Err(refusal.clone()),
                    None => {
                        self.next_session += 1;
                        let session = format!("session{}", self.next_session);
                        let watch = Arc::new(Watch::default());
                        self.watches.insert(session.clone(), watch.clone());
                        Ok(Admission { session, watch })
                    }
                })
            }
            Job::Play(order) => {
                self.tell(format!("make {} tracks", order.tracks.len()));
                let (session, start, end) = (order.session.clone(), order.start, order.end);
                let playback = TestPlayback {
                    story: self.story.clone(),
                    order: *order,
                    position: Mutex::new(0),
                };
                let playback = Arc::new(playback);
                self.playbacks.insert(session, playback.clone());
                let info = at_once(playback.seek(start, end)).unwrap();
                Outcome::Made(Ok((playback, info)))
            }
            Job::Seek {
                playback,
                start,
                end,
                ..
            } => Outcome::Moved(at_once(playback.seek(start, end))),
            Job::Resume { playback, .. } => Outcome::Moved(at_once(playback.resume())),
            Job::Pause { playback, .. } => Outcome::Paused(at_once(playback.pause())),
        };
        self.happen(Event::Done { conn, outcome });
    }
}

/// An answer taken apart.
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

    /// The session's number in the Session header.
    pub fn session(&self) -> String {
        self.get("Session")
            .expect("a Session header")
            .split(';')
            .next()
            .unwrap()
            .to_owned()
    }
}

//! Any bytes on RTSP connections: parsed alike in any cut, answered by the state machine one answer
//! a request, sessions and connections gone when their time is over; no panic, memory bounded.
//!
//! The input is cut into pieces by the byte 0xf5, which no text holds; a piece goes to the connection
//! that its first byte names, or is an event where there is none.
#![no_main]

use std::future::ready;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use reelway_clock::Monotonic;
use reelway_rtp::sdp::Profile;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::header::range::NptRange;
use reelway_rtsp::header::transport::offers;
use reelway_rtsp::machine::{Action, ConnId, Event, Machine, Settings};
use reelway_rtsp::message::Message;
use reelway_rtsp::parser::{Bounds, Parser};
use reelway_rtsp::seam::{
    Admission, Film, FilmError, FilmTrack, FirstPacket, Job, Outcome, PlayInfo, Playback, Sent, Soon,
};
use reelway_rtsp::target::{Target, base};
use reelway_rtsp::watch::Watch;
use reelway_timetable::Schedule;

#[derive(Debug)]
struct Any(Vec<FilmTrack>);

impl Film for Any {
    fn title(&self) -> &str {
        "a/b"
    }
    fn duration(&self) -> i64 {
        10_000_000_000
    }
    fn tracks(&self) -> &[FilmTrack] {
        &self.0
    }
    fn sdp(&self, _: IpAddr, _: Profile) -> String {
        "v=0\r\n".to_owned()
    }
}

struct Stream;

impl Playback for Stream {
    fn go(&self) {}
    fn send_by(&self, _: Option<Arc<Schedule>>) {}
    fn seek(&self, start: i64, end: i64) -> Soon<PlayInfo> {
        assert!(0 <= start && start < end && end <= 10_000_000_000);
        Box::pin(ready(Ok(info(start))))
    }
    fn pause(&self) -> Soon<i64> {
        Box::pin(ready(Ok(5_000_000_000)))
    }
    fn resume(&self) -> Soon<PlayInfo> {
        Box::pin(ready(Ok(info(5_000_000_000))))
    }
    fn rtcp(&self, _: &[u8]) {}
    fn stop(&self, _: Option<&str>) {}
    fn is_finished(&self) -> bool {
        true
    }
    fn progress(&self) -> Sent {
        Sent { position: 5_000_000_000, ..Sent::default() }
    }
}

fn info(start: i64) -> PlayInfo {
    let first = FirstPacket { seq: 1, rtp_time: 2 };
    PlayInfo { start, tracks: vec![first; 2] }
}

struct World {
    machine: Machine<u64>,
    now: Monotonic,
    admitted: u32,
    answers: usize,
}

impl World {
    /// Time passes, second by second: more at once is a standstill of the server, in which nobody is given up.
    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            let heard_until = self.now;
            self.happen(Event::Tick { heard_until });
        }
    }

    fn happen(&mut self, event: Event<u64>) {
        for action in self.machine.handle(self.now, event) {
            match action {
                Action::Send { bytes, .. } => {
                    self.answers += 1;
                    check_answer(&bytes);
                }
                Action::Do { conn, job } => {
                    let outcome = self.outcome(job);
                    self.happen(Event::Done { conn, outcome });
                }
                Action::Close { conn } => self.happen(Event::Disconnected { conn }),
                Action::Go(_) | Action::Stop(..) | Action::Leave { .. } => {}
            }
        }
    }

    fn outcome(&mut self, job: Job<u64>) -> Outcome {
        fn now<T>(mut soon: Soon<T>) -> Result<T, String> {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            match soon.as_mut().poll(&mut context) {
                std::task::Poll::Ready(result) => result,
                std::task::Poll::Pending => unreachable!(),
            }
        }
        match job {
            Job::Film { titles } if titles.iter().any(|title| title == "a/b") => {
                let track = |number| FilmTrack { number, payload_type: 95 + number as u8, clock_rate: 90_000 };
                Outcome::Film(Ok(Arc::new(Any(vec![track(1), track(2)]))))
            }
            Job::Film { .. } => Outcome::Film(Err(FilmError::Unknown("none".to_owned()))),
            Job::Admit(_) => {
                self.admitted += 1;
                let session = format!("s{}", self.admitted);
                Outcome::Admitted(Ok(Admission { session, watch: Arc::new(Watch::default()) }))
            }
            Job::Play(order) => {
                assert!(0 <= order.start && order.start < order.end && !order.tracks.is_empty());
                Outcome::Made(Ok((Arc::new(Stream), info(order.start))))
            }
            Job::Seek { playback, start, end, .. } => Outcome::Moved(now(playback.seek(start, end))),
            Job::Resume { playback, .. } => Outcome::Moved(now(playback.resume())),
            Job::Pause { playback, .. } => Outcome::Paused(now(playback.pause())),
        }
    }
}

/// One status line, headers that are lines, and a body as long as it says.
fn check_answer(bytes: &[u8]) {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = std::str::from_utf8(&bytes[..end]).expect("text");
    assert!(head.starts_with("RTSP/1.0 "));
    let mut length = 0;
    for line in head.split("\r\n").skip(1) {
        let (name, value) = line.split_once(": ").expect("a header");
        assert!(!value.contains(['\r', '\n']) && !name.contains(' '));
        if name == "Content-Length" {
            length = value.parse().unwrap();
        }
    }
    assert_eq!(bytes.len(), end + 4 + length);
}

fn messages(bytes: &[u8], cut: usize) -> Vec<String> {
    let mut parser = Parser::new(Bounds::default());
    let mut out = Vec::new();
    for piece in bytes.chunks(cut) {
        parser.push(piece);
        loop {
            match parser.next() {
                Ok(None) => break,
                other => out.push(format!("{other:?}")),
            }
        }
    }
    out
}

fuzz_target!(|input: &[u8]| {
    if let Some((&cut, bytes)) = input.split_first() {
        let whole = messages(bytes, bytes.len().max(1));
        assert_eq!(whole, messages(bytes, usize::from(cut) + 1));
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = NptRange::parse(text);
        let _ = offers(text, IpAddr::from([10, 0, 0, 7]));
        let title = Target::parse(text).whole_title();
        if !title.is_empty() {
            // A title's address leads to the title.
            assert_eq!(Target::parse(&base("rtsp://h", &title)).whole_title(), title);
        }
    }

    let mut random = 0;
    let settings = Settings {
        config: RtspConfig::default(),
        udp_v4: Some((8000, 8001)),
        udp_v6: None,
        random: Box::new(move || {
            random += 1;
            random
        }),
    };
    let mut world =
        World { machine: Machine::new(settings), now: Monotonic::from_nanos(1 << 50), admitted: 0, answers: 0 };
    let mut parsers: Vec<Parser> = Vec::new();
    for n in 0..3u64 {
        let peer = if n == 2 { "10.0.0.8:1" } else { "10.0.0.7:1" };
        let (peer, local) = (peer.parse().unwrap(), "10.0.0.1:8554".parse().unwrap());
        world.happen(Event::Connected { conn: ConnId(n), peer, local, writer: n });
        parsers.push(Parser::new(Bounds::default()));
    }
    for piece in input.split(|byte| *byte == 0xf5) {
        let Some((&first, bytes)) = piece.split_first() else { continue };
        let name = || String::from_utf8_lossy(bytes).into_owned();
        match first {
            b't' => {
                world.wait(30);
            }
            b'f' => world.happen(Event::Finished { session: name() }),
            b'x' => world.happen(Event::Failed { session: name(), reason: "so".to_owned() }),
            b'd' => world.happen(Event::Disconnected { conn: ConnId(u64::from(bytes.len() as u8 % 3)) }),
            _ => {
                let conn = ConnId(u64::from(first % 3));
                let parser = &mut parsers[usize::from(first % 3)];
                parser.push(bytes);
                loop {
                    let (before, wants) = (world.answers, !matches!(first, b'\0'));
                    let event = match parser.next() {
                        Ok(None) => break,
                        Ok(Some(Message::Request(request))) => Event::Request { conn, request },
                        Ok(Some(Message::Frame { channel, data })) => Event::Frame { conn, channel, data },
                        Err(bad) => Event::Malformed { conn, bad },
                    };
                    world.happen(event);
                    assert!(!wants || world.answers <= before + 1, "one answer at most");
                }
            }
        }
    }
    for n in 0..3 {
        world.happen(Event::Disconnected { conn: ConnId(n) });
    }
    world.wait(1000);
    assert_eq!((world.machine.sessions(), world.machine.connections()), (0, 0));
});

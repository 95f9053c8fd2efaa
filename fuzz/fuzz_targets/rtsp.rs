//! Sends arbitrary bytes on RTSP connections. They must be parsed in the same way however they are
//! cut, the state machine must send at most one answer per request, and sessions and connections
//! must end after their timeouts; no panic, bounded memory.
//!
//! The input is split at the byte 0xf5, which no UTF-8 text contains. The first byte of a piece
//! selects an event, or the connection that receives the rest.
#![no_main]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use reelway_rtp::sdp::SdpMedia;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::film::{Film, FilmError, FilmTrack, Form, Identity};
use reelway_rtsp::header::range::NptRange;
use reelway_rtsp::header::transport::offers;
use reelway_rtsp::machine::{Action, ConnId, Event, Machine, Settings};
use reelway_rtsp::message::Message;
use reelway_rtsp::parser::{Bounds, Parser};
use reelway_rtsp::seam::{FirstPacket, Job, Outcome, PlayInfo};
use reelway_rtsp::target::{Target, base};
use reelway_time::Monotonic;

/// The film's duration, ns.
const DURATION: i64 = 10_000_000_000;

fn film() -> Film<()> {
    let track = |number| FilmTrack {
        number,
        payload_type: 95 + number as u8,
        rtx_type: 127,
        clock_rate: 90_000,
    };
    let media = SdpMedia {
        media: "video",
        encoding: "H264/90000".to_owned(),
        fmtp: String::new(),
        bandwidth_kbps: 100,
        language: None,
        frame_size: None,
    };
    Film {
        title: "a/b".to_owned(),
        name: "b".to_owned(),
        identity: Identity { id: 1, version: 1 },
        form: Form::Tracks,
        duration: DURATION,
        tracks: vec![track(1), track(2)],
        media: vec![media; 2],
        handle: (),
    }
}

fn info(start: i64) -> PlayInfo {
    let first = FirstPacket {
        seq: 1,
        rtp_time: 2,
    };
    PlayInfo {
        start,
        tracks: vec![first; 2],
    }
}

struct World {
    machine: Machine<u64, ()>,
    now: Monotonic,
    admitted: u32,
    answers: usize,
}

impl World {
    /// Lets time pass, second by second: a longer step would be a standstill of the server, during
    /// which no session times out.
    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            let heard_until = self.now;
            self.happen(Event::Tick { heard_until });
        }
    }

    fn happen(&mut self, event: Event<u64, ()>) {
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
                Action::Book { from, to, .. } => assert!(0 <= from && from < to && to <= DURATION),
                Action::Go { .. }
                | Action::Rest { .. }
                | Action::Rtcp { .. }
                | Action::Stop { .. }
                | Action::Unclaim { .. }
                | Action::Show { .. }
                | Action::Receives { .. }
                | Action::Leave { .. } => {}
            }
        }
    }

    fn outcome(&mut self, job: Job<u64, ()>) -> Outcome<()> {
        match job {
            Job::Film { titles, .. } if titles.iter().any(|title| title == "a/b") => {
                Outcome::Film(Ok(Arc::new(film())))
            }
            Job::Film { .. } => Outcome::Film(Err(FilmError::Unknown("none".to_owned()))),
            Job::Admit(_) => {
                self.admitted += 1;
                Outcome::Admitted(Ok(format!("s{}", self.admitted)))
            }
            Job::Claim { tracks, .. } => {
                assert!(!tracks.is_empty());
                Outcome::Claimed(Ok(()))
            }
            Job::Make(order) => {
                assert!(0 <= order.start && order.start < order.end && !order.tracks.is_empty());
                Outcome::Made {
                    session: order.session,
                    info: Ok(info(order.start)),
                }
            }
            Job::Locate { .. } => Outcome::Located(DURATION / 2),
            Job::Judge { from, to, .. } => {
                assert!(0 <= from && from < to && to <= DURATION);
                Outcome::Judged(Ok(()))
            }
            Job::Seek { start, end, .. } => {
                assert!(0 <= start && start < end && end <= DURATION);
                Outcome::Moved(Ok(info(start)))
            }
            Job::Resume { .. } => Outcome::Moved(Ok(info(DURATION / 2))),
            Job::Pause { .. } => Outcome::Paused(Ok(DURATION / 2)),
        }
    }
}

/// Checks for one status line, well-formed header lines, and a body of the length stated.
fn check_answer(bytes: &[u8]) {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head");
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
            // The address made of a title must lead to the title.
            assert_eq!(
                Target::parse(&base("rtsp://h", &title)).whole_title(),
                title
            );
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
    let mut world = World {
        machine: Machine::new(settings),
        now: Monotonic::from_nanos(1 << 50),
        admitted: 0,
        answers: 0,
    };
    let mut parsers: Vec<Parser> = Vec::new();
    for n in 0..3u64 {
        let peer = if n == 2 { "10.0.0.8:1" } else { "10.0.0.7:1" };
        let (peer, local) = (peer.parse().unwrap(), "10.0.0.1:8554".parse().unwrap());
        world.happen(Event::Connected {
            conn: ConnId(n),
            peer,
            local,
            writer: n,
        });
        parsers.push(Parser::new(Bounds::default()));
    }
    for piece in input.split(|byte| *byte == 0xf5) {
        let Some((&first, bytes)) = piece.split_first() else {
            continue;
        };
        let name = || String::from_utf8_lossy(bytes).into_owned();
        match first {
            b't' => {
                world.wait(30);
            }
            b'f' => world.happen(Event::Finished {
                session: name(),
                at: world.now,
            }),
            b'x' => world.happen(Event::Failed {
                session: name(),
                reason: "so".to_owned(),
            }),
            b'd' => world.happen(Event::Disconnected {
                conn: ConnId(u64::from(bytes.len() as u8 % 3)),
            }),
            _ => {
                let conn = ConnId(u64::from(first % 3));
                let parser = &mut parsers[usize::from(first % 3)];
                parser.push(bytes);
                loop {
                    let (before, wants) = (world.answers, !matches!(first, b'\0'));
                    let event = match parser.next() {
                        Ok(None) => break,
                        Ok(Some(Message::Request(request))) => Event::Request { conn, request },
                        Ok(Some(Message::Frame { channel, data })) => Event::Frame {
                            conn,
                            channel,
                            data,
                        },
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
    assert_eq!(
        (world.machine.sessions(), world.machine.connections()),
        (0, 0)
    );
});

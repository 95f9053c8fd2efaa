//! Films interleaved in an RTSP connection: whole frames, slow readers, one writer.

mod common;

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::*;
use reelway_sender::{FrameWriter, Out, StreamEvent, WriterError};
use reelway_sys::tcp;

/// A connection with the smallest possible send buffer on the server's side.
fn connection() -> (Arc<FrameWriter>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    tcp::set_send_buffer(server.as_fd(), 1).unwrap();
    let writer = Arc::new(FrameWriter::new(Arc::new(server)));
    client
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    (writer, client)
}

/// Reads interleaved frames and lines of responses.
struct Frames {
    client: TcpStream,
    rtp: Vec<Got>,
    sound: Vec<Got>,
    rtcp: Vec<Report>,
    answers: Vec<String>,
}

impl Frames {
    fn new(client: TcpStream) -> Frames {
        Frames {
            client,
            rtp: Vec::new(),
            sound: Vec::new(),
            rtcp: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// Reads one frame or response line.
    fn read_one(&mut self) {
        let mut head = [0; 4];
        self.client.read_exact(&mut head).unwrap();
        if head[0] != b'$' {
            let mut line = head.to_vec();
            while line.last() != Some(&b'\n') {
                let mut byte = [0];
                self.client.read_exact(&mut byte).unwrap();
                line.push(byte[0]);
            }
            self.answers.push(String::from_utf8(line).unwrap());
            return;
        }
        let mut frame = vec![0; usize::from(head[2]) << 8 | usize::from(head[3])];
        self.client.read_exact(&mut frame).unwrap();
        match head[1] {
            10 => self.rtp.push(Got::read(&frame, 0)),
            20 => self.sound.push(Got::read(&frame, 0)),
            11 | 21 => self.rtcp.push(Report::read(0, &frame)),
            other => panic!("channel {other} was not set up"),
        }
    }

    fn read_to_byes(&mut self) {
        while self.rtcp.iter().filter(|report| report.bye).count() < 2 {
            self.read_one();
        }
    }
}

fn outs(writer: &Arc<FrameWriter>) -> (Out, Out) {
    let out = |rtp| Out::Tcp {
        conn: Arc::clone(writer),
        rtp,
        rtcp: rtp + 1,
    };
    (out(10), out(20))
}

fn assert_pictures(film: &TestFilm, packets: &[Got]) {
    assert_whole(packets, VIDEO_SEQ);
    let nals = nals(packets);
    assert_eq!(nals.len(), film.pictures.len() + 2);
    for ((_, nal), picture) in nals[2..].iter().zip(&film.pictures) {
        assert!(nal == picture);
    }
}

#[test]
fn frames_stay_whole_through_the_smallest_buffer_with_answers_in_between() {
    let film = TestFilm::make(3, 4000);
    let store = store();
    let sender = sender(&store, |_| {});
    let (writer, client) = connection();
    let events = Arc::default();
    let (video, audio) = outs(&writer);
    let handle = sender.play(stream(&film, &store, 0, None, video, audio, &events));
    block(handle.ready()).unwrap();
    writer.write(b"RTSP/1.0 200 OK\n").unwrap();
    handle.go();
    let mut frames = Frames::new(client);
    for number in 0..100 {
        for _ in 0..5 {
            frames.read_one();
        }
        let answer = format!("RTSP/1.0 200 {number}\n");
        writer.write(answer.as_bytes()).unwrap();
    }
    frames.read_to_byes();
    assert_eq!(frames.answers[0], "RTSP/1.0 200 OK\n");
    let numbers: Vec<_> = frames.answers[1..]
        .iter()
        .map(|line| line["RTSP/1.0 200 ".len()..].trim().parse::<u32>().unwrap())
        .collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    assert_pictures(&film, &frames.rtp);
    assert_whole(&frames.sound, 7);
    assert_eq!(units(&frames.sound).len(), film.sounds.len());
    assert_eq!(handle.progress().refused, 0);
}

#[test]
fn a_slow_reader_falls_behind_alone_catches_up_and_misses_nothing() {
    let film = TestFilm::make(5, 4000);
    let store = store();
    let sender = sender(&store, |_| {});
    let (writer, client) = connection();
    let (slow, other) = (Arc::default(), Viewer::default());
    let (video, audio) = outs(&writer);
    let handle = sender.play(stream(&film, &store, 0, None, video, audio, &slow));
    let beside = sender.play(other.stream(&film, &store, 0, None));
    block(handle.ready()).unwrap();
    block(beside.ready()).unwrap();
    handle.go();
    beside.go();
    let mut frames = Frames::new(client);
    for _ in 0..50 {
        frames.read_one();
    }
    wait_until("it to fall behind", || {
        handle.progress().behind > Duration::from_secs(1)
    });
    let (slow_one, other_one) = (handle.progress(), beside.progress());
    assert!(
        other_one.behind < slow_one.behind / 2,
        "{other_one:?} beside {slow_one:?}"
    );
    frames.read_to_byes();
    assert_pictures(&film, &frames.rtp);
    assert_eq!(units(&frames.sound).len(), film.sounds.len());
    wait_until("the other's end", || {
        other.has(|event| *event == StreamEvent::Ended)
    });
    assert_whole(&other.video.packets(), VIDEO_SEQ);
}

#[test]
fn a_reader_that_stops_is_given_up_and_its_backlog_is_bounded() {
    let film = TestFilm::make(6, 8000);
    let store = store();
    let sender = sender(&store, |config| config.lag_limit = Duration::from_secs(1));
    let (writer, client) = connection();
    let events: Arc<Mutex<Vec<StreamEvent>>> = Arc::default();
    let (video, audio) = outs(&writer);
    let handle = sender.play(stream(&film, &store, 0, None, video, audio, &events));
    block(handle.ready()).unwrap();
    handle.go();
    wait_until("the failure", || {
        let failed = |event: &StreamEvent| matches!(event, StreamEvent::Failed(why) if why.contains("behind"));
        events.lock().unwrap().iter().any(failed)
    });
    assert!(
        store.stats().in_use == 0,
        "what was given up holds no memory"
    );
    let mut refused = None;
    for _ in 0..1000 {
        refused = writer.write(&[b'x'; 1000]).err();
        if refused.is_some() {
            break;
        }
    }
    assert_eq!(
        refused,
        Some(WriterError::Backlog),
        "answers that nobody reads are bounded too"
    );
    drop(client);
}

#[test]
fn a_connection_that_breaks_ends_its_stream() {
    let film = TestFilm::make(4, 4000);
    let store = store();
    let sender = sender(&store, |_| {});
    let (writer, client) = connection();
    let events: Arc<Mutex<Vec<StreamEvent>>> = Arc::default();
    let (video, audio) = outs(&writer);
    let handle = sender.play(stream(&film, &store, 0, None, video, audio, &events));
    block(handle.ready()).unwrap();
    handle.go();
    let mut frames = Frames::new(client);
    frames.read_one();
    drop(frames);
    wait_until("the failure", || {
        let failed = |event: &StreamEvent| matches!(event, StreamEvent::Failed(why) if why.contains("connection lost"));
        events.lock().unwrap().iter().any(failed)
    });
}

#[test]
fn after_a_seek_the_old_place_is_cut_at_a_whole_packet() {
    let film = TestFilm::make(5, 4000);
    let store = store();
    let sender = sender(&store, |_| {});
    let (writer, client) = connection();
    let events = Arc::default();
    let (video, audio) = outs(&writer);
    let handle = sender.play(stream(&film, &store, 0, None, video, audio, &events));
    block(handle.ready()).unwrap();
    handle.go();
    let mut frames = Frames::new(client);
    for _ in 0..100 {
        frames.read_one();
    }
    // Meanwhile the buffers fill, and a packet may be partly written.
    wait_until("it to fall behind", || {
        handle.progress().behind > Duration::from_millis(300)
    });
    let info = block(handle.seek(4_000_000_000, None)).unwrap();
    writer.write(b"RTSP/1.0 200 sought\n").unwrap();
    handle.go();
    while frames.answers.is_empty() {
        frames.read_one();
    }
    let before = frames.rtp.len();
    frames.read_to_byes();
    assert_whole(&frames.rtp, VIDEO_SEQ);
    let first = &frames.rtp[before];
    assert_eq!(
        (first.seq, first.timestamp),
        (info.tracks[0].seq, info.tracks[0].rtp_time)
    );
    assert_eq!(nals(&frames.rtp[before..]).len(), 25 + 2);
}

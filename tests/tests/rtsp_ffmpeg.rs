//! What ffmpeg receives over RTSP equals the film, of every film that can go over RTP: NAL units,
//! access units of the sound, decoded pictures, presentation times.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use reelway_tests::films::{Film, FilmKind, library, playable};
use reelway_tests::probe::{
    Edits, Hashes, Received, Stream, Wanted, receive, streams, without_declared_sei,
};
use reelway_tests::server::{Options, Server};

/// Films received at once; each takes its real time and hardly a processor.
const AT_ONCE: usize = 6;

struct Case {
    film: Film,
    url: String,
    streams: Vec<Stream>,
}

impl Case {
    fn of(film: Film, server: &Server) -> Case {
        let url = server.rtsp_url(film.name);
        let streams = streams(&film.path, Edits::Apply);
        Case { film, url, streams }
    }

    fn stream(&self, kind: &str) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.kind == kind)
    }

    fn receive(&self, before: &[&str], input: &str) -> Received {
        receive(&Wanted {
            before,
            input,
            picture: self.stream("video").map(|stream| stream.codec.as_str()),
            sound: self.stream("audio").is_some(),
            decode: self.stream("video").is_some(),
            limit: Duration::from_secs(100),
        })
    }

    fn check(&self, transport: &str) {
        let name = self.film.name;
        let mut file = self.receive(&["-ignore_editlist", "1"], path_text(&self.film.path));
        let mut wire = self.receive(&["-rtsp_transport", transport], &self.url);
        if self
            .stream("video")
            .is_some_and(|stream| stream.codec == "hevc")
        {
            file.nals = without_declared_sei(file.nals, &self.film.path);
            wire.nals = without_declared_sei(wire.nals, &self.film.path);
        }
        equal(name, "NAL unit", &wire.nals, &file.nals);
        equal(
            name,
            "access unit of the sound",
            &wire.sound.hashes(),
            &file.sound.hashes(),
        );
        equal(
            name,
            "decoded picture",
            &wire.frames.hashes(),
            &file.frames.hashes(),
        );
        if let Some(stream) = self.stream("video") {
            times_agree(name, stream, &wire.pictures);
        }
        if let Some(stream) = self.stream("audio") {
            times_agree(name, stream, &wire.sound);
        }
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[track_caller]
fn equal<T: PartialEq>(name: &str, what: &str, wire: &[T], file: &[T]) {
    let differs = wire.iter().zip(file).position(|(wire, file)| wire != file);
    assert!(
        differs.is_none() && wire.len() == file.len(),
        "{name}: {} of {} came, the first {what} that differs is {differs:?}",
        wire.len(),
        file.len()
    );
}

/// Presentation times within one tick of what ffprobe says of the file.
fn times_agree(name: &str, file: &Stream, wire: &Hashes) {
    let tick = (1.0 / f64::from(file.timescale)).max(1.0 / wire.timescale);
    assert_eq!(
        wire.frames.len(),
        file.packets.len(),
        "{name}: {}",
        file.kind
    );
    // ffmpeg 5.1 has no time for the very first picture it receives over RTSP, from any server.
    let untimed = usize::from(
        wire.frames
            .first()
            .is_some_and(|frame| frame.pts == i64::MIN),
    );
    for (nth, (packet, at)) in file
        .packets
        .iter()
        .zip(wire.seconds())
        .enumerate()
        .skip(untimed)
    {
        let exact = packet.pts as f64 / f64::from(file.timescale);
        assert!(
            (at - exact).abs() <= tick * 1.001,
            "{name}: {} {nth} is at {at} s, ffprobe says {exact} s",
            file.kind
        );
    }
}

fn every_film(transport: &str) {
    let films: Vec<Film> = playable()
        .into_iter()
        .filter(|film| film.kind == FilmKind::Plain)
        .collect();
    let names: Vec<&str> = films.iter().map(|film| film.name).collect();
    let library = library(&names);
    let server = Options::new(library.path()).start();
    server.wait_indexed();
    // The longest first, so that none is left over at the end.
    let mut cases: Vec<Case> = films
        .into_iter()
        .map(|film| Case::of(film, &server))
        .collect();
    cases.sort_by_key(|case| {
        std::cmp::Reverse(case.streams.iter().map(|stream| stream.packets.len()).max())
    });
    let cases = Mutex::new(VecDeque::from(cases));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = { cases.lock().unwrap().pop_front() } {
                    if catch_unwind(AssertUnwindSafe(|| case.check(transport))).is_err() {
                        failed.lock().unwrap().push(case.film.name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(
        failed.is_empty(),
        "not as in the file over {transport}: {failed:?}"
    );
}

#[test]
fn every_film_arrives_over_udp_as_it_is() {
    every_film("udp");
}

#[test]
fn every_film_arrives_over_tcp_as_it_is() {
    every_film("tcp");
}

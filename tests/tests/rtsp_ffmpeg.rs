//! ffmpeg receives every film that can be sent over RTP as it is in its file: NAL units, access
//! units of the audio, decoded pictures, presentation times.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use reelway_tests::boxes::Movie;
use reelway_tests::films::{Film, FilmKind, library, playable};
use reelway_tests::probe::{
    Edits, Hashes, Packet, Received, Stream, Wanted, receive, streams, without_declared_sei,
};
use reelway_tests::server::{Options, Server};

/// The number of films received at the same time: each takes its real time, and hardly a processor
/// over UDP, but a decoder's over TCP.
fn at_once(transport: &str) -> usize {
    match transport {
        "udp" => 12,
        _ => 8,
    }
}

/// Transports are tested one after the other: decoders must not keep the processor from players
/// that receive datagrams.
static TURN: Mutex<()> = Mutex::new(());

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

    /// Everything that ffmpeg receives from an input.
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

    /// Everything that ffmpeg reads from its file; read only once.
    fn file(&self) -> Arc<Received> {
        static KNOWN: LazyLock<Mutex<HashMap<&str, Arc<Received>>>> = LazyLock::new(Mutex::default);
        let known = KNOWN.lock().unwrap().get(self.film.name).cloned();
        known.unwrap_or_else(|| {
            let path = path_text(&self.film.path);
            let mut file = self.receive(self.film.read_whole(), path);
            if self.is_hevc() {
                file.nals = without_declared_sei(file.nals, &self.film.path);
            }
            let file = Arc::new(file);
            KNOWN
                .lock()
                .unwrap()
                .insert(self.film.name, Arc::clone(&file));
            file
        })
    }

    fn is_hevc(&self) -> bool {
        self.stream("video")
            .is_some_and(|stream| stream.codec == "hevc")
    }

    fn check(&self, transport: &str) {
        let name = self.film.name;
        let file = self.file();
        let over = ["-rtsp_transport", transport, "-buffer_size", "4000000"];
        let mut wire = self.receive(&over, &self.url);
        if self.is_hevc() {
            wire.nals = without_declared_sei(wire.nals, &self.film.path);
        }
        equal(name, "NAL unit", &wire.nals, &file.nals);
        equal(
            name,
            "decoded picture",
            &wire.frames.hashes(),
            &file.frames.hashes(),
        );
        self.check_sound_and_times(&file, &wire);
    }

    /// Compares the audio, except for what precedes the film's beginning, and all presentation
    /// times, counted from the same zero.
    fn check_sound_and_times(&self, file: &Received, wire: &Received) {
        let name = self.film.name;
        let (video, audio) = (timeline(&self.film, "video"), timeline(&self.film, "audio"));
        let first = match &video {
            Some((_, times)) => times[1] - wire.pictures.seconds()[1],
            None => audio
                .as_ref()
                .map_or(0.0, |(_, times)| times[4] - wire.sound.seconds()[4]),
        };
        // The film begins with its first picture, or with the audio if that comes first.
        let begins = [video.as_ref().map_or(0.0, |(_, times)| times[0]), 0.0];
        let zero = begins
            .into_iter()
            .min_by(|a, b| (a - first).abs().total_cmp(&(b - first).abs()))
            .unwrap();
        assert!(
            (zero - first).abs() < 0.001,
            "{name}: the film begins at {first} s of ffprobe's time"
        );
        if let Some((tick, times)) = &video {
            assert_eq!(times.len(), wire.pictures.frames.len());
            times_agree(name, "video", *tick, times, &wire.pictures, zero);
        }
        if let Some((tick, times)) = &audio {
            let left_out = file
                .sound
                .frames
                .len()
                .saturating_sub(wire.sound.frames.len());
            equal(
                name,
                "access unit of the sound",
                &wire.sound.hashes(),
                &file.sound.hashes()[left_out..],
            );
            assert!(
                left_out == 0 || times[left_out] <= zero,
                "{name}: {left_out} units of sound are missing"
            );
            times_agree(name, "audio", *tick, &times[left_out..], &wire.sound, zero);
        }
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[track_caller]
fn equal<T: PartialEq>(name: &str, what: &str, wire: &[T], file: &[T]) {
    let differ: Vec<usize> = (wire.iter().zip(file).enumerate())
        .filter_map(|(nth, (wire, file))| (wire != file).then_some(nth))
        .collect();
    // Shows whether units were lost, duplicated or reordered.
    let place = |nth: &usize| (*nth, file.iter().position(|file| *file == wire[*nth]));
    assert!(
        differ.is_empty() && wire.len() == file.len(),
        "{name}: {} of {} came; {} differ, the first {what} of them, and which of the file came there: {:?}",
        wire.len(),
        file.len(),
        differ.len(),
        differ.iter().take(4).map(place).collect::<Vec<_>>()
    );
}

/// The duration of a track's tick and its samples' presentation times according to ffprobe, in
/// seconds. Samples that the edit list hides from ffprobe get the times that their neighbours
/// imply.
fn timeline(film: &Film, kind: &str) -> Option<(f64, Vec<f64>)> {
    let of_kind = |edits| {
        streams(&film.path, edits)
            .into_iter()
            .find(|stream| stream.kind == kind)
    };
    let (all, shown) = (of_kind(Edits::Ignore)?, of_kind(Edits::Apply)?);
    let of_media = |packet: &Packet| all.packets.iter().find(|other| other.pos == packet.pos);
    let shown_first = shown
        .packets
        .iter()
        .find(|packet| !packet.discard)
        .or(shown.packets.first());
    let scale = f64::from(all.timescale);
    let shift = edits_by_hand(film, kind).unwrap_or_else(|| {
        let shift = shown_first.and_then(|packet| Some(packet.pts - of_media(packet)?.pts));
        shift.unwrap_or(0) as f64 / scale
    });
    let times = all
        .packets
        .iter()
        .map(|packet| packet.pts as f64 / scale + shift);
    Some((1.0 / scale, times.collect()))
}

/// Seconds from media to movie time, for films whose edit lists ffmpeg 5.1 does not interpret as
/// the standard says (ISO/IEC 14496-12 8.6.6).
fn edits_by_hand(film: &Film, kind: &str) -> Option<f64> {
    match film.name {
        // ffmpeg delays pictures of fragments with negative offsets by the most negative one.
        "fragmented_signed" => Some(if kind == "video" {
            -0.08
        } else {
            -1024.0 / 48_000.0
        }),
        // It moves the start of an edit to the next picture, ignores the time for which a picture
        // dwells, and shows nothing of an edit of length 0, which means: to the end.
        "start_offset" | "edit_dwell" | "edit_zero_length" => {
            let movie = Movie::read(&film.path).expect("a film");
            let handler = if kind == "video" { b"vide" } else { b"soun" };
            let track = movie
                .tracks
                .iter()
                .find(|track| track.handler == *handler)?;
            let (last, before) = track.edits.as_ref()?.split_last()?;
            let delay: u64 = before.iter().map(|edit| edit.duration).sum();
            let media = last.media_time as f64 / f64::from(track.timescale);
            Some(delay as f64 / f64::from(movie.timescale()) - media)
        }
        _ => None,
    }
}

/// Checks that presentation times agree with ffprobe's to a tick, once both count from the same
/// zero: `zero` is Reelway's zero on ffprobe's timeline, the same for video and audio.
fn times_agree(name: &str, kind: &str, tick: f64, file: &[f64], wire: &Hashes, zero: f64) {
    // ffmpeg 5.1 has no time for the first picture that it receives over RTSP, from any server, and
    // wrong times for the first audio units if there is no video.
    let unsure = if kind == "video" { 1 } else { 4 };
    let tick = tick.max(1.0 / wire.timescale);
    for (nth, (file, at)) in file.iter().zip(wire.seconds()).enumerate().skip(unsure) {
        let exact = file - zero;
        assert!(
            (at - exact).abs() <= tick * 1.001,
            "{name}: {kind} {nth} is at {at} s, ffprobe says {exact} s"
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
    // A panic in one test does not affect the other.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Options::new(library.path()).patient().start();
    server.wait_indexed();
    // The longest first, so that none runs alone at the end.
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
        for _ in 0..at_once(transport) {
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

//! Films whose samples do not lie in their files as they are played arrive as they are, over every protocol: decoded pictures and
//! sound, and the times of both.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use reelway_tests::films::{self, Film};
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::server::{Options, Server};

/// Decoded pictures and samples of sound of each stream: hashes with times in seconds.
type Decoded = BTreeMap<u32, Vec<(f64, String)>>;

/// Decodes picture and the first sound.
fn decode(before: &[&str], input: &str, map: &[&str], copied: bool) -> Decoded {
    let mut arguments = before.to_vec();
    arguments.extend(["-i", input]);
    arguments.extend(map);
    arguments.extend(["-c:a", if copied { "copy" } else { "pcm_s16le" }]);
    arguments.extend([
        "-fps_mode",
        "passthrough",
        "-copyts",
        "-f",
        "framehash",
        "-hash",
        "md5",
        "-",
    ]);
    let ran = run(ffmpeg(arguments), Duration::from_secs(100)).expect(input);
    let (mut bases, mut decoded) = (BTreeMap::new(), Decoded::new());
    for line in String::from_utf8_lossy(&ran.out).lines() {
        if let Some(base) = line.strip_prefix("#tb ") {
            let (stream, base) = base.split_once(": ").expect("a time base");
            let (above, below) = base.split_once('/').expect("a fraction");
            let base = above.parse::<f64>().unwrap() / below.parse::<f64>().unwrap();
            bases.insert(stream.parse::<u32>().unwrap(), base);
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if let [stream, _, pts, _, _, hash, ..] = fields[..]
            && !line.starts_with('#')
        {
            let stream = stream.parse().unwrap();
            let at = pts.parse::<f64>().unwrap() * bases[&stream];
            decoded
                .entry(stream)
                .or_default()
                .push((at, hash.to_owned()));
        }
    }
    decoded
}

/// Whether frames of a film's sound are compared as they came. What decodes layers II and III of MPEG differs by container; what a
/// decoder of Opus makes of a packet depends on all that came before, and over RTP it is not told what to leave out at the beginning.
fn has_frames_compared(film: &Film) -> bool {
    let films = [
        "transport_mpeg2",
        "transport_mp3",
        "transport_opus",
        "program",
        "program_mpeg4",
        "system",
    ];
    films.contains(&film.name)
}

/// What a film's file gives.
fn file(film: &Film) -> Decoded {
    // The programme that is played is the second one.
    let map: &[&str] = match film.name {
        "transport_programmes" => &["-map", "0:v:0", "-map", "0:a:1"],
        _ => &["-map", "0:v:0", "-map", "0:a:0"],
    };
    decode(
        &[],
        film.path.to_str().expect("UTF-8"),
        map,
        has_frames_compared(film),
    )
}

/// Fails unless the same was received; ffmpeg leaves out or mistimes what it must not decode at both ends.
fn same(film: &Film, received: &Decoded, edge: usize) {
    let mut apart = Vec::new();
    for (stream, theirs) in file(film) {
        let mine = &received[&stream];
        let hashes = |frames: &[(f64, String)]| -> Vec<String> {
            frames.iter().map(|(_, hash)| hash.clone()).collect()
        };
        let (all, have) = (hashes(&theirs), hashes(mine));
        let from = edge.min(have.len() / 4);
        let to = have.len() - from;
        let start = all
            .windows(to - from)
            .position(|window| window == &have[from..to]);
        let start = start.unwrap_or_else(|| panic!("{}: stream {stream} differs", film.name));
        assert!(
            start <= 2 * edge && all.len() - (to - from) <= 4 * edge,
            "{}: of {} frames of stream {stream} {} came",
            film.name,
            all.len(),
            have.len(),
        );
        let times = theirs[start..].iter().zip(&mine[from..to]);
        apart.extend(times.map(|(theirs, mine)| theirs.0 - mine.0));
    }
    // Where the first pictures cannot be decoded, times begin again, or pictures have none, ffmpeg's decoders count otherwise
    // than its demultiplexer; of Matroska it does not subtract the delay of AC-3, or guesses when MPEG-4 Visual is shown.
    // `media/transport.rs` and `media/matroska.rs` compare times of packets.
    let guessed = [
        "matroska_stripped",
        "matroska_stripped_picture",
        "transport_cut",
        "transport_wrapped",
        "program",
        "program_mpeg4",
        "program_dvd",
        "system",
    ];
    if guessed.contains(&film.name) {
        return;
    }
    let first = apart[0];
    let most = apart
        .iter()
        .map(|apart| (apart - first).abs())
        .fold(0.0, f64::max);
    assert!(most < 0.002, "{}: times are off by {most} s", film.name);
}

fn every_film(
    films: Vec<Film>,
    at_once: usize,
    edge: usize,
    before: &[&str],
    url: impl Fn(&Server, &Film) -> String + Sync,
) {
    let names: Vec<&str> = films.iter().map(|film| film.name).collect();
    let library = films::library(&names);
    let server = Options::new(library.path())
        .patient()
        .set("http.ahead", 3600)
        .start();
    server.wait_indexed();
    let (left, failed) = (Mutex::new(films), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(film) = { left.lock().unwrap().pop() } {
                    let checked = catch_unwind(AssertUnwindSafe(|| {
                        let map = ["-map", "0:v:0", "-map", "0:a:0"];
                        let received = decode(
                            before,
                            &url(&server, &film),
                            &map,
                            has_frames_compared(&film),
                        );
                        same(&film, &received, edge);
                    }));
                    if checked.is_err() {
                        failed.lock().unwrap().push(film.name);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "not as in the file: {failed:?}");
}

#[test]
fn viewed_films_arrive_over_hls() {
    every_film(films::viewed(), 2, 2, &[], |server, film| {
        server.http_url(&format!("{}/hls/main.m3u8", film.name))
    });
}

#[test]
fn viewed_films_arrive_over_dash() {
    every_film(films::viewed(), 2, 2, &[], |server, film| {
        server.http_url(&format!("{}/dash/main.mpd", film.name))
    });
}

#[test]
fn viewed_films_arrive_over_rtsp() {
    every_film(
        films::viewed(),
        8,
        4,
        &["-rtsp_transport", "tcp"],
        |server, film| server.rtsp_url(film.name),
    );
}

#[test]
fn the_file_of_a_viewed_film_is_served_as_it_is() {
    let film = films::film("transport_timed");
    let library = films::library(&[film.name]);
    let server = Options::new(library.path()).patient().start();
    server.wait_indexed();
    let answer = server.get(&format!("/{}/file", film.name));
    assert_eq!(answer.headers["content-type"], "video/mp2t");
    assert_eq!(answer.body, std::fs::read(&film.path).expect("the film"));
}

#[test]
fn viewed_films_arrive_from_an_edge() {
    let names = ["matroska_stripped", "matroska_stripped_picture"];
    let library = films::library(&names);
    let origin = Options::new(library.path())
        .patient()
        .set("http.ahead", 3600)
        .start();
    origin.wait_indexed();
    let edge = Options::edge(&origin.http_url(""))
        .set("http.ahead", 3600)
        .start();
    edge.wait_indexed();
    for name in names {
        let film = films::film(name);
        let map = ["-map", "0:v:0", "-map", "0:a:0"];
        let url = edge.http_url(&format!("{name}/hls/main.m3u8"));
        same(&film, &decode(&[], &url, &map, false), 2);
    }
}

/// A film, the stream of picture in it as a file by itself, and the name of that.
const BY_THEMSELVES: [(&str, &str, &str); 4] = [
    ("progressive", "h264", "stream.264"),
    ("transport_hevc", "hevc", "stream.265"),
    ("transport_mpeg2", "mpeg2video", "stream.m2v"),
    ("system", "mpeg1video", "stream.m1v"),
];

#[test]
fn streams_of_picture_by_themselves_arrive_as_in_the_films_they_come_from() {
    let library = films::library(&[]);
    for (film, format, name) in BY_THEMSELVES {
        let folder = library.path().join(film);
        std::fs::create_dir(&folder).expect("a folder");
        let (from, to) = (films::film(film).path, folder.join(name));
        let (from, to) = (from.to_str().expect("UTF-8"), to.to_str().expect("UTF-8"));
        let arguments = ["-i", from, "-map", "0:v:0", "-c", "copy", "-f", format, to];
        run(ffmpeg(arguments), Duration::from_secs(60)).expect(film);
    }
    let server = Options::new(library.path())
        .patient()
        .set("http.ahead", 3600)
        .start();
    server.wait_indexed();
    std::thread::scope(|scope| {
        for (film, ..) in BY_THEMSELVES {
            let server = &server;
            scope.spawn(move || arrives_by_itself(server, film));
        }
    });
}

/// The stream of this film's picture arrives as in the film.
fn arrives_by_itself(server: &Server, film: &str) {
    let picture = ["-map", "0:v:0"];
    let path = films::film(film).path;
    let theirs = decode(&[], path.to_str().expect("UTF-8"), &picture, false);
    let hls = server.http_url(&format!("{film}/stream/hls/main.m3u8"));
    let dash = server.http_url(&format!("{film}/stream/dash/main.mpd"));
    let rtsp = server.rtsp_url(&format!("{film}/stream"));
    for (before, url) in [
        (&[][..], hls),
        (&[][..], dash),
        (&["-rtsp_transport", "tcp"][..], rtsp),
    ] {
        let mine = decode(before, &url, &picture, false);
        // ffmpeg leaves out or mistimes what it must not decode at both ends.
        let (mine, theirs, edge) = (&mine[&0], &theirs[&0], 4);
        let start = theirs.iter().position(|frame| frame.1 == mine[edge].1);
        let start = start.unwrap_or_else(|| panic!("{url}: other pictures"));
        let count = mine.len() - 2 * edge;
        assert!(
            theirs.len() - count <= 4 * edge,
            "{url}: {count} pictures came"
        );
        let apart = |nth: usize| theirs[start + nth].0 - mine[edge + nth].0;
        for nth in 0..count {
            assert_eq!(
                theirs[start + nth].1,
                mine[edge + nth].1,
                "{url}: picture {nth}"
            );
            let off = apart(nth) - apart(0);
            // Of packets of MPEG-1, ffmpeg's decoder counts times otherwise than its demultiplexer.
            assert!(
                film == "system" || off.abs() < 0.002,
                "{url}: off by {off} s"
            );
        }
    }
}

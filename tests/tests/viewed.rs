//! Films that are played from views arrive as they are, over every protocol: decoded pictures and
//! audio, and the times of both.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use reelway_tests::films::{self, Film};
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::server::{Options, Server};

/// Decoded pictures and audio samples of each stream: times in seconds, and hashes.
type Decoded = BTreeMap<u32, Vec<(f64, String)>>;

/// Decodes the video and the first audio track.
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

/// Whether a film's audio frames are compared without decoding. The decoder of MPEG layers II and
/// III differs by container; a decoder's output for an Opus packet depends on all earlier packets,
/// and over RTP it does not learn what to leave out at the beginning.
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

/// Decodes a film's file.
fn file(film: &Film) -> Decoded {
    // The second programme is the one that is played.
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

/// Fails unless the same was received; ffmpeg leaves out or mistimes frames at both ends, which it
/// need not decode.
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
    // If the first pictures cannot be decoded, times start over, or pictures have none, ffmpeg's
    // decoders count times differently than its demultiplexer; for Matroska it does not subtract
    // the delay of AC-3, and guesses the times of MPEG-4 Visual. `media/transport.rs` and
    // `media/matroska.rs` compare packet times.
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

/// Films, the formats of their elementary video streams, and the names of files with these.
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

/// Checks that the elementary stream of this film's video arrives as in the film.
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
        // ffmpeg leaves out or mistimes frames at both ends, which it need not decode.
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
            // For MPEG-1 packets, ffmpeg's decoder counts times differently than its demultiplexer.
            assert!(
                film == "system" || off.abs() < 0.002,
                "{url}: off by {off} s"
            );
        }
    }
}

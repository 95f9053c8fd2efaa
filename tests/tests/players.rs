//! VLC and GStreamer over HLS, DASH and file, from the start and after seeks: every picture of the
//! film in order, no stall, no gap.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::players::{run, vlc_records};
use reelway_tests::probe::{Wanted, receive};
use reelway_tests::server::{Options, Server};
use serde::Deserialize;

/// Addresses below a film's that players open.
const ADDRESSES: [&str; 3] = ["hls/main.m3u8", "dash/main.mpd", "file"];
/// Pictures per second of the film.
const RATE: usize = 25;
/// Times of its sync samples in seconds: it has GOPs of uneven length.
const SYNC: [f64; 13] = [
    0.0, 0.4, 2.0, 3.0, 7.2, 9.0, 14.0, 14.6, 20.0, 26.5, 30.0, 35.0, 40.0,
];

fn server() -> (Server, tempfile::TempDir) {
    let library = films::library(&["seeks"]);
    let server = Options::new(library.path()).patient().start();
    (server, library)
}

/// Hashes of the pictures of a file.
fn pictures(path: &Path) -> Vec<String> {
    let wanted = Wanted {
        before: &[],
        input: path.to_str().expect("UTF-8"),
        picture: None,
        sound: false,
        decode: true,
        limit: Duration::from_secs(60),
    };
    receive(&wanted)
        .frames
        .hashes()
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// Start times of the film's segments in seconds, from its playlist.
fn segments(server: &Server) -> Vec<f64> {
    let named = |text: &str| text.lines().last().expect("an address").to_owned();
    let main = server.get("/seeks/hls/main.m3u8").text();
    let playlist = server.get(&format!("/seeks/hls/{}", named(&main))).text();
    let lengths = playlist.lines().filter_map(|line| {
        let length = line.strip_prefix("#EXTINF:")?.split(',').next()?;
        Some(length.parse::<f64>().expect("a length"))
    });
    let begins = lengths.scan(0.0, |end, length| {
        let begin = *end;
        *end += length;
        Some(begin)
    });
    let begins: Vec<f64> = begins.collect();
    assert!(begins.len() > 4, "{playlist}");
    begins
}

/// The last of these positions at or before `start`.
fn begin_of(start: f64, places: &[f64]) -> f64 {
    let before = places.iter().copied().filter(|place| *place <= start);
    before.fold(0.0, f64::max)
}

/// Lets VLC seek to `start` seconds and record, and compares the recording with the film from
/// `begin` seconds on.
fn vlc_gets(url: &str, start: f64, begin: f64, film: &[String]) {
    let (path, _dir) = vlc_records(url, start);
    let came = pictures(&path);
    assert!(!came.is_empty(), "{url} from {start} s: VLC got no picture");
    let first = (begin * RATE as f64).round() as usize;
    let place = || film.iter().position(|picture| *picture == came[0]);
    assert!(
        came[0] == film[first],
        "{url} from {start} s: VLC is to begin at {begin} s, picture {first}, and begins with picture {:?}",
        place()
    );
    let same = came
        .iter()
        .zip(&film[first..])
        .take_while(|(came, film)| came == film)
        .count();
    // At the end, VLC leaves out the last few pictures, of local files too.
    assert!(
        same + 12 >= film.len() - first,
        "{url} from {start} s: {same} of {} pictures are the film's",
        film.len() - first
    );
}

#[test]
fn vlc_begins_with_the_gop_or_segment_it_seeks_to_and_gets_every_picture_from_there() {
    let (server, _library) = server();
    let segments = segments(&server);
    let film = pictures(&films::film("seeks").path);
    assert_eq!(film.len(), 40 * RATE);
    std::thread::scope(|scope| {
        for address in ADDRESSES {
            let (server, film) = (&server, &film);
            // Playback begins at a sync sample in a file, and at a segment over HLS and DASH.
            let places = match address {
                "file" => &SYNC[..],
                _ => &segments,
            };
            scope.spawn(move || {
                let url = server.http_url(&format!("seeks/{address}"));
                for start in [0.0, 36.2, 20.7, 33.0] {
                    vlc_gets(&url, start, begin_of(start, places), film);
                }
            });
        }
    });
}

#[test]
fn vlc_plays_films_of_mpeg_2_and_mpeg_4() {
    let names = ["transport_mpeg2", "program", "transport_mpeg4"];
    let library = films::library(&names);
    let server = Options::new(library.path()).patient().start();
    server.wait_indexed();
    std::thread::scope(|scope| {
        for address in ADDRESSES {
            let server = &server;
            scope.spawn(move || {
                for name in names {
                    let film = pictures(&films::film(name).path);
                    vlc_gets(
                        &server.http_url(&format!("{name}/{address}")),
                        0.0,
                        0.0,
                        &film,
                    );
                }
            });
        }
    });
}

/// A line that `players/playbin.py` prints.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    kind: String,
    run: usize,
    at: f64,
    wall: f64,
    error: Option<String>,
    end: bool,
}

fn playbin(url: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("players/playbin.py");
    let starts = [0.0, 20.7, 4.2, 36.2];
    let steps = [
        "play:2",
        "seek:20.7",
        "play:2",
        "seek:4.2",
        "play:2",
        "seek:36.2",
        "end:15",
    ];
    // Only Debian's Python has GStreamer's bindings.
    let mut command = Command::new("/usr/bin/python3");
    command.arg(script).arg(url).args(steps);
    let ran = run(command, Duration::from_secs(60)).expect("playbin");
    let text = String::from_utf8_lossy(&ran.out).into_owned();
    let lines: Vec<Line> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect(line))
        .collect();
    assert!(
        lines.last().is_some_and(|line| line.end),
        "{url}: {:?}\n{}",
        lines.last(),
        ran.tail()
    );
    assert!(
        lines.iter().all(|line| line.error.is_none()),
        "{url}: {}",
        ran.tail()
    );
    for kind in ["video", "audio"] {
        for (run, start) in starts.iter().enumerate() {
            let of_run = lines
                .iter()
                .filter(|line| line.kind == kind && line.run == run);
            // Frames that were about to be shown at the time of the seek are from the old position.
            let old = |line: &&Line| run > 0 && (line.at - starts[run - 1] - 2.0).abs() < 1.0;
            let shown: Vec<&Line> = of_run.skip_while(old).collect();
            let place = format!("{url}: {kind} from {start} s");
            let [first, .., last] = shown[..] else {
                panic!(
                    "{place}: {} frames
{}",
                    shown.len(),
                    ran.tail()
                )
            };
            assert!(
                (first.at - start).abs() < 0.05,
                "{place} begins at {} s",
                first.at
            );
            let length = if run == 3 { 3.7 } else { 1.5 };
            assert!(last.at - first.at > length, "{place} ends at {} s", last.at);
            for pair in shown.windows(2) {
                let step = pair[1].at - pair[0].at;
                assert!(
                    (0.0..0.05).contains(&step),
                    "{place}: {step} s between two frames at {} s",
                    pair[1].at
                );
            }
            // A stall is a frame that is shown late, later than a busy machine explains.
            let late = |line: &&Line| (line.wall - first.wall) - (line.at - first.at);
            let worst = shown.iter().map(late).fold(0.0, f64::max);
            assert!(worst < 1.0, "{place} stalls for {worst} s");
        }
    }
}

#[test]
fn gstreamer_plays_without_stall_or_hole_from_the_start_and_after_seeks() {
    let (server, _library) = server();
    std::thread::scope(|scope| {
        for address in ADDRESSES {
            let url = server.http_url(&format!("seeks/{address}"));
            scope.spawn(move || playbin(&url));
        }
    });
}

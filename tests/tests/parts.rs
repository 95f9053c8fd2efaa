//! Films in several consecutive files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use reelway_tests::http::{self, Response};
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::probe::decoded;
use reelway_tests::server::{Options, Server};
use reelway_tests::{films, wait};

const LIMIT: Duration = Duration::from_secs(60);

/// Makes a film of this many seconds, with a few MB per ten seconds; `arguments` set codecs and
/// format.
fn make(path: &Path, seconds: u32, arguments: &[&str]) {
    let picture = format!("testsrc2=s=640x360:r=25:d={seconds}");
    let sound = format!("sine=f=440:r=48000:d={seconds}");
    let path = path.display().to_string();
    let inputs = ["-v", "error", "-f", "lavfi", "-i", &picture];
    let sound = ["-f", "lavfi", "-i", &sound];
    let all = [&inputs[..], &sound, arguments, &[&path]].concat();
    run(ffmpeg(all), LIMIT).expect("ffmpeg");
}

const H264: [&str; 12] = [
    "-c:v",
    "libx264",
    "-preset",
    "ultrafast",
    "-b:v",
    "4M",
    "-g",
    "25",
    "-pix_fmt",
    "yuv420p",
    "-c:a",
    "aac",
];
const MPEG2: [&str; 10] = [
    "-c:v",
    "mpeg2video",
    "-b:v",
    "5M",
    "-g",
    "12",
    "-c:a",
    "mp2",
    "-f",
    "vob",
];

/// Splits a file's bytes into several files at these offsets.
fn cut(bytes: &[u8], places: &[usize], name: impl Fn(usize) -> std::path::PathBuf) {
    let starts = [&[0], places].concat();
    let ends = [places, &[bytes.len()]].concat();
    for (number, (start, end)) in starts.into_iter().zip(ends).enumerate() {
        fs::write(name(number + 1), &bytes[start..end]).expect("a part");
    }
}

/// The hashes of a video's decoded frames.
fn frames(input: &str) -> Vec<String> {
    decoded(input, "0:v")
}

/// The bytes of all segments of a film, in the order of its tracks and their playlists.
fn segments(server: &Server, film: &str) -> Vec<Vec<u8>> {
    let detail = server.get(&format!("/api/films/{film}")).json();
    let tracks = detail["tracks"].as_array().expect("a list of tracks");
    let mut all = Vec::new();
    for track in tracks {
        let playlist = server
            .get(&format!("/{film}/hls/{}.m3u8", track["id"]))
            .text();
        let addresses = playlist.lines().filter(|line| line.contains(".m4s"));
        for address in addresses {
            let segment = address.strip_prefix("../").expect("a relative address");
            let answer = server.get(&format!("/{film}/{segment}"));
            assert_eq!(answer.status, 200, "{segment}: {}", answer.text());
            all.push(answer.body);
        }
    }
    assert!(all.len() >= 4, "{detail}");
    all
}

fn as_owner(server: &Server, method: &str, title: &str) -> Response {
    let bearer = format!("Bearer {}", server.token());
    let headers = [("Authorization", bearer.as_str())];
    let path = format!("/{title}/file");
    http::send(server.http, method, &path, &headers, b"").expect("an answer")
}

#[test]
fn parts_are_played_and_sent_as_the_file_that_they_are_cut_from() {
    let dir = films::temp_dir("library-");
    let whole = dir.path().join("whole.ts");
    make(&whole, 7, &H264);
    let bytes = fs::read(&whole).expect("the film");
    assert!(bytes.len() > 3 << 20, "{} bytes", bytes.len());
    let folder = dir.path().join("film.parts");
    fs::create_dir(&folder).expect("a folder");
    // At a packet, within a packet, at an offset where direct reads may begin, and one part within
    // a block.
    let places = [188 * 5_000, 1_200_001, 2 << 20, (2 << 20) + 10_000];
    cut(&bytes, &places, |number| {
        folder.join(format!("part {number}.ts"))
    });
    let vob = dir.path().join("dvd.vob");
    make(&vob, 7, &MPEG2);
    let of_vob = fs::read(&vob).expect("the film");
    let title = |number| dir.path().join(format!("VTS_01_{number}.VOB"));
    cut(&of_vob, &[2048 * 700, 2048 * 1_301], title);
    fs::write(title(0), &of_vob[..2048 * 20]).expect("a menu");

    let options = Options::new(dir.path()).patient().set("http.uploads", true);
    let server = options.start();
    server.wait_indexed();
    for (film, whole, bytes) in [("film", "whole", bytes), ("VTS_01", "dvd", of_vob)] {
        assert_eq!(server.get(&format!("/{film}/file")).body, bytes, "{film}");
        let range = [("Range", "bytes=1199990-1200009")];
        let path = format!("/{film}/file");
        let part = http::request(server.http, "GET", &path, &range).expect("an answer");
        assert_eq!(part.body, bytes[1_199_990..1_200_010], "{film}");
        assert!(
            segments(&server, film) == segments(&server, whole),
            "{film}"
        );
    }
    let rtsp = frames(&server.rtsp_url("film"));
    assert_eq!(rtsp, frames(&whole.display().to_string()));
    let list = server.get("/api/films").json();
    let files = list["films"].as_array().expect("a list").iter();
    let files: Vec<_> = files
        .map(|film| film["file"].as_str().expect("a path"))
        .collect();
    let expected = [
        "dvd.vob",
        "film.parts",
        "VTS_01.VOB",
        "VTS_01_0.VOB",
        "whole.ts",
    ];
    assert_eq!(files, expected);

    // An edge gets it as one film.
    let edge = Options::edge(&server.http_url("")).patient().start();
    edge.wait_indexed();
    assert!(segments(&edge, "film") == segments(&server, "film"));
    let log = edge.log();
    assert!(!log.contains("read instead of its index"), "{log}");

    for (method, title) in [("DELETE", "film"), ("DELETE", "VTS_01")] {
        let answer = as_owner(&server, method, title);
        assert_eq!(answer.status, 409, "{}", answer.text());
        assert!(answer.text().contains("several files"), "{}", answer.text());
    }

    // A change of a part makes it a different film.
    let main = server.get("/film/hls/main.m3u8").text();
    let own = main.lines().find(|line| !line.starts_with('#'));
    let own = format!("/film/hls/{}", own.expect("a playlist"));
    assert_eq!(server.get(&own).status, 200);
    fs::remove_file(folder.join("part 5.ts")).expect("a part that goes");
    let is_gone = || (server.get(&own).status == 410).then_some(());
    wait::until(LIMIT, is_gone).expect("the film is another");
}

#[test]
fn parts_that_each_have_a_clock_of_their_own_follow_each_other() {
    let dir = films::temp_dir("library-");
    let folder = dir.path().join("camera.parts");
    fs::create_dir(&folder).expect("a folder");
    let mut expected = Vec::new();
    for number in [9, 10, 11] {
        let part = folder.join(format!("clip{number}.mts"));
        make(
            &part,
            4,
            &[&H264[..], &["-mpegts_m2ts_mode", "1", "-f", "mpegts"]].concat(),
        );
        expected.extend(frames(&part.display().to_string()));
    }
    let server = Options::new(dir.path()).patient().start();
    server.wait_indexed();
    let film = server.get("/api/films/camera").json();
    let duration = film["duration"].as_f64().expect("a duration");
    assert!((11.9..12.3).contains(&duration), "{duration}");
    assert_eq!(frames(&server.http_url("camera/hls/main.m3u8")), expected);
    assert_eq!(frames(&server.http_url("camera/dash/main.mpd")), expected);
}

#[test]
fn streams_go_on_where_a_part_has_them_in_other_packets() {
    let dir = films::temp_dir("library-");
    let folder = dir.path().join("joined.parts");
    fs::create_dir(&folder).expect("a folder");
    // The PIDs change from part to part, and that of the second part's video is that of the third
    // part's audio.
    let numbers = [
        ("0x100", "0x1000"),
        ("0x200", "0x1000"),
        ("0x1ff", "0x1100"),
        ("0x100", "0x1000"),
    ];
    let mut expected = Vec::new();
    for (place, (streams, map)) in numbers.into_iter().enumerate() {
        let part = folder.join(format!("{place}.ts"));
        let said = ["-mpegts_start_pid", streams, "-mpegts_pmt_start_pid", map];
        make(&part, 4, &[&H264[..], &said].concat());
        expected.extend(frames(&part.display().to_string()));
    }
    let server = Options::new(dir.path()).patient().start();
    server.wait_indexed();
    let film = server.get("/api/films/joined").json();
    assert_eq!(film["tracks"].as_array().map(Vec::len), Some(2), "{film}");
    assert_eq!(film["tracks"][0]["id"], 0x100, "that of the first part");
    let notes = film["notes"].to_string();
    assert!(
        !notes.contains("programme") && !notes.contains("not played"),
        "{notes}"
    );
    let duration = film["duration"].as_f64().expect("a duration");
    assert!((15.9..16.4).contains(&duration), "{duration}");
    let sound = film["tracks"][1]["duration"].as_f64().expect("a duration");
    assert!((15.8..16.4).contains(&sound), "{sound}");
    assert_eq!(frames(&server.http_url("joined/hls/main.m3u8")), expected);
    let edge = Options::edge(&server.http_url("")).patient().start();
    edge.wait_indexed();
    assert_eq!(frames(&edge.http_url("joined/dash/main.mpd")), expected);
    assert_eq!(segments(&edge, "joined"), segments(&server, "joined"));
}

#[test]
fn files_that_cannot_follow_each_other_say_so() {
    let dir = films::temp_dir("library-");
    for folder in ["mp4.parts", "empty.parts"] {
        fs::create_dir(dir.path().join(folder)).expect("a folder");
    }
    for number in [1, 2] {
        let part = dir.path().join(format!("mp4.parts/{number}.mp4"));
        make(&part, 1, &[&H264[..], &["-movflags", "faststart"]].concat());
    }
    make(&dir.path().join("alone.mp4"), 1, &H264);
    let server = Options::new(dir.path()).patient().start();
    server.wait_indexed();
    let film = server.get("/api/films/mp4").json();
    assert_ne!(film["state"], "ready");
    let reason = film["reason"].as_str().expect("a reason");
    assert!(
        reason.starts_with("its parts have tables of their own"),
        "{reason}"
    );
    assert_eq!(server.get("/api/films/empty").status, 404);
    assert!(
        server.log().contains("empty.parts: it has no files"),
        "{}",
        server.log()
    );
    assert_eq!(server.get("/api/films/alone").json()["state"], "ready");
}

//! Subtitles inside films, as players receive them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reelway_tests::films::{self, film};
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::server::{Options, Server};

const ENGLISH: &str = "1\n00:00:01,000 --> 00:00:02,500\nA <i>line</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nTwo\nlines & more\n";
const GERMAN: &str = "1\n00:00:00,500 --> 00:00:01,000\nfür alle, die mögen\n";

/// The server's WebVTT for [`ENGLISH`].
const SHOWN: [&str; 2] = [
    "00:00:01.000 --> 00:00:02.500\nA <i>line</i>\n",
    "00:00:03.000 --> 00:00:04.000\nTwo\nlines &amp; more\n",
];

/// Writes the two subtitle files to a directory.
fn sources(dir: &Path) -> (String, String) {
    let put = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("a file of subtitles");
        path.display().to_string()
    };
    (put("one.srt", ENGLISH), put("two.srt", GERMAN))
}

/// Makes a film with this name that contains both subtitles, with ffmpeg and these output options.
fn made(dir: &Path, name: &str, from: &str, arguments: &[&str]) {
    let work = films::temp_dir("subtitles-");
    let (english, german) = sources(work.path());
    let source = film(from).path.display().to_string();
    let inputs = ["-v", "error", "-i", &source, "-i", &english, "-i", &german];
    let maps = [
        "-map", "0:v", "-map", "0:a", "-map", "1", "-map", "2", "-c", "copy",
    ];
    let said = [
        "-metadata:s:s:0",
        "language=eng",
        "-metadata:s:s:1",
        "language=ger",
        "-disposition:s:0",
        "0",
        "-disposition:s:1",
        "forced",
    ];
    let out = dir.join(name).display().to_string();
    let all = [&inputs[..], &maps, &said, arguments, &[&out]].concat();
    run(ffmpeg(all), Duration::from_secs(60)).expect("ffmpeg");
}

/// The text of a film's subtitles with this number.
fn text(server: &Server, film: &str, number: u32) -> String {
    let answer = server.get(&format!("/{film}/subtitles/{number}.vtt"));
    assert_eq!(answer.status, 200, "{film}: {}", answer.text());
    answer.text()
}

#[test]
fn text_of_every_container_is_shown() {
    let dir = films::temp_dir("library-");
    let of_mp4 = ["-c:s", "mov_text"];
    made(dir.path(), "mp4.mp4", "faststart", &of_mp4);
    let fragmented = ["-c:s", "mov_text", "-movflags", "frag_keyframe+empty_moov"];
    made(dir.path(), "fragmented.mp4", "faststart", &fragmented);
    for (name, codec) in [
        ("srt.mkv", "srt"),
        ("ass.mkv", "ass"),
        ("vtt.mkv", "webvtt"),
    ] {
        made(dir.path(), name, "faststart", &["-c:s", codec]);
    }
    made(
        dir.path(),
        "webm.webm",
        "matroska_vp9_opus",
        &["-c:s", "webvtt"],
    );
    let server = Server::start(dir.path());
    server.wait_indexed();
    for film in ["mp4", "fragmented", "srt", "ass", "vtt", "webm"] {
        let english = text(&server, film, 1);
        // In fragments, ffmpeg leaves out the empty sample that ends the first cue.
        let longer = SHOWN[0].replace("00:00:02.500", "00:00:03.000");
        let first = if film == "fragmented" {
            &longer
        } else {
            SHOWN[0]
        };
        for shown in [first, SHOWN[1]] {
            // ffmpeg copies the text of WebVTT unchanged; the video in its WebM is 14 ms late.
            let (mut shown, english) = (shown.replace("&amp;", "&"), english.replace("&amp;", "&"));
            if film == "webm" {
                shown = shown
                    .replace("01.000", "00.986")
                    .replace("02.500", "02.486");
                shown = shown
                    .replace("03.000", "02.986")
                    .replace("04.000", "03.986");
            }
            assert!(english.contains(&shown), "{film}: {english}");
        }
        let german = text(&server, film, 2);
        let time = if film == "webm" { "00.486" } else { "00.500" };
        let shown = format!("00:00:{time} --> ");
        let is_shown = german.contains(&shown) && german.contains("\nfür alle, die mögen\n");
        assert!(is_shown, "{film}: {german}");
        let api = server.get(&format!("/api/films/{film}")).json();
        let said = api["subtitles"].as_array().expect("a list");
        let of = |key: &str| said.iter().map(|one| one[key].clone()).collect::<Vec<_>>();
        assert_eq!(of("language"), ["en", "de"], "{film}");
        assert_eq!(
            of("file"),
            [serde_json::Value::Null, serde_json::Value::Null]
        );
        // MP4 has this flag only for a whole track.
        let is_forced = !["mp4", "fragmented"].contains(&film);
        assert_eq!(of("forced"), [false, is_forced], "{film}: {api}");
        let main = server.get(&format!("/{film}/hls/main.m3u8")).text();
        assert_eq!(main.matches("TYPE=SUBTITLES").count(), 2, "{film}: {main}");
    }

    // One of them as a player receives it.
    let url = server.http_url("srt/dash/main.mpd");
    let arguments = ["-copyts", "-i", &url, "-map", "0:s:0", "-f", "srt", "-"];
    let ran = run(ffmpeg(arguments), Duration::from_secs(60)).expect("ffmpeg");
    let told = String::from_utf8_lossy(&ran.out).replace('\r', "");
    assert!(
        told.contains("00:00:01,000 --> 00:00:02,500\nA <i>line</i>"),
        "{told}"
    );
}

#[test]
fn edges_show_them_and_a_restarted_server_reads_them_from_its_index() {
    let dir = films::temp_dir("library-");
    made(dir.path(), "film.mkv", "faststart", &["-c:s", "srt"]);
    let state = films::temp_dir("state-");
    let start = || Options::new(dir.path()).state(state.path()).start();
    let origin = start();
    origin.wait_indexed();
    let edge = Options::edge(&origin.http_url("")).start();
    edge.wait_indexed();
    assert_eq!(text(&edge, "film", 1), text(&origin, "film", 1));
    assert!(text(&edge, "film", 2).contains("für alle"));
    let before = text(&origin, "film", 1);
    drop((edge, origin));
    let again = start();
    again.wait_indexed();
    assert_eq!(text(&again, "film", 1), before);
}

#[test]
fn text_that_mkvmerge_has_compressed_is_shown() {
    let dir = films::temp_dir("library-");
    let work = films::temp_dir("subtitles-");
    let (english, german) = sources(work.path());
    let mut mkvmerge = Command::new("mkvmerge");
    let source = film("faststart").path;
    mkvmerge
        .arg("-q")
        .arg("-o")
        .arg(dir.path().join("film.mkv"));
    mkvmerge.arg("-A").arg(source).args([
        "--compression",
        "0:zlib",
        "--language",
        "0:eng",
        &english,
    ]);
    mkvmerge.args([
        "--track-name",
        "0:SDH",
        "--default-track-flag",
        "0:1",
        &german,
    ]);
    run(mkvmerge, Duration::from_secs(60)).expect("mkvmerge");
    let server = Server::start(dir.path());
    server.wait_indexed();
    let compressed = text(&server, "film", 1);
    for shown in SHOWN {
        assert!(compressed.contains(shown), "{compressed}");
    }
    let api = server.get("/api/films/film").json();
    assert_eq!(api["subtitles"][0]["label"], "en");
    assert_eq!(api["subtitles"][1]["sdh"], true, "{api}");
    assert!(text(&server, "film", 2).contains("für alle"));
}

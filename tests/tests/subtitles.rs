//! Subtitles beside films, as players get them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::server::Server;
use reelway_tests::wait;

const ENGLISH: &str = "1\n00:00:01,000 --> 00:00:02,500\nA <i>line</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nTwo\nlines & more\n";

/// A film with these files beside it.
fn film(beside: &[(&str, &[u8])]) -> (tempfile::TempDir, Server) {
    let dir = films::library(&["faststart"]);
    for (name, bytes) in beside {
        put(dir.path(), name, bytes);
    }
    let server = Server::start(dir.path());
    server.wait_indexed();
    (dir, server)
}

fn put(dir: &Path, name: &str, bytes: &[u8]) {
    fs::write(dir.join(name), bytes).expect("a file of subtitles");
}

#[test]
fn players_of_hls_and_dash_get_the_subtitles_beside_a_film() {
    let latin = b"1\n00:00:00,000 --> 00:00:01,000\nf\xfcr alle, die m\xf6gen\n";
    let (_dir, server) = film(&[
        ("faststart.en.srt", ENGLISH.as_bytes()),
        ("faststart.ger.forced.srt", latin),
    ]);
    let main = server.get("/faststart/hls/main.m3u8").text();
    let lines: Vec<&str> = main
        .lines()
        .filter(|line| line.contains("TYPE=SUBTITLES"))
        .collect();
    assert_eq!(lines.len(), 2, "{main}");
    assert!(
        lines[0].contains("NAME=\"en\",LANGUAGE=\"en\",DEFAULT=NO,AUTOSELECT=YES,FORCED=NO"),
        "{main}"
    );
    assert!(
        lines[1].contains("LANGUAGE=\"de\"") && lines[1].contains("FORCED=YES"),
        "{main}"
    );
    assert!(main.contains(",SUBTITLES=\"subtitles\""), "{main}");
    let address = lines[0].split("URI=\"").nth(1).expect("an address");
    let playlist = server
        .get(&format!("/faststart/hls/{}", address.trim_end_matches('"')))
        .text();
    let segment = playlist
        .lines()
        .find(|line| line.contains(".vtt"))
        .expect("a segment");
    let segment = segment.strip_prefix("..").expect("a folder beside");
    let text = server.get(&format!("/faststart{segment}"));
    assert_eq!(text.headers["content-type"], "text/vtt");
    let text = text.text();
    assert!(text.starts_with("WEBVTT\nX-TIMESTAMP-MAP="), "{text}");
    assert!(
        text.contains("00:00:01.000 --> 00:00:02.500\nA <i>line</i>\n"),
        "{text}"
    );
    assert!(text.contains("Two\nlines &amp; more"), "{text}");
    let german = server.get("/faststart/subtitles/2.vtt").text();
    assert!(german.contains("für alle, die mögen"), "{german}");
    let mpd = server.get("/faststart/dash/main.mpd").text();
    assert!(mpd.contains("mimeType=\"text/vtt\" lang=\"en\""), "{mpd}");
    assert!(mpd.contains("value=\"forced-subtitle\""), "{mpd}");

    // ffmpeg takes no subtitles of HLS; the browser's players do.
    let url = server.http_url("faststart/dash/main.mpd");
    let arguments = ["-copyts", "-i", &url, "-map", "0:s:0", "-f", "srt", "-"];
    let ran = run(ffmpeg(arguments), Duration::from_secs(60)).expect("ffmpeg");
    let told = String::from_utf8_lossy(&ran.out).replace('\r', "");
    assert!(
        told.contains("00:00:01,000 --> 00:00:02,500\nA <i>line</i>"),
        "{told}"
    );
    assert!(
        told.contains("00:00:03,000 --> 00:00:04,000\nTwo\nlines & more"),
        "{told}"
    );
}

#[test]
fn subtitles_that_come_change_and_go_are_noticed_while_their_film_stays() {
    let (dir, server) = film(&[]);
    let listed = || server.get("/api/films/faststart").json()["subtitles"].clone();
    assert_eq!(listed().as_array().map(Vec::len), Some(0));
    assert!(
        !server
            .get("/faststart/hls/main.m3u8")
            .text()
            .contains("SUBTITLES")
    );
    assert_eq!(server.get("/faststart/subtitles/1.vtt").status, 404);
    put(dir.path(), "faststart.en.sdh.srt", ENGLISH.as_bytes());
    let seconds = Duration::from_secs(20);
    let came = wait::until(seconds, || (listed()[0]["sdh"] == true).then_some(()));
    assert!(came.is_some(), "{}", listed());
    assert_eq!(listed()[0]["label"], "en SDH");
    assert!(
        server
            .get("/faststart/subtitles/1.vtt")
            .text()
            .contains("Two")
    );
    put(
        dir.path(),
        "faststart.en.sdh.srt",
        b"00:00:01,000 --> 00:00:02,000\nOther words\n",
    );
    assert!(
        server
            .get("/faststart/subtitles/1.vtt")
            .text()
            .contains("Other words")
    );
    fs::remove_file(dir.path().join("faststart.en.sdh.srt")).expect("the file");
    let gone = wait::until(seconds, || listed().as_array()?.is_empty().then_some(()));
    assert!(gone.is_some(), "{}", listed());
}

#[test]
fn a_file_without_subtitles_is_named_in_the_log_and_harms_nothing_else() {
    let (_dir, server) = film(&[
        ("faststart.en.srt", ENGLISH.as_bytes()),
        ("faststart.fr.srt", b"\x00\x01\x02 no subtitles at all"),
    ]);
    assert_eq!(server.get("/faststart/subtitles/2.vtt").status, 404);
    server.wait_for_log(&["subtitles: ", "faststart.fr.srt"], Duration::from_secs(5));
    assert!(
        server
            .get("/faststart/subtitles/1.vtt")
            .text()
            .contains("Two")
    );
}

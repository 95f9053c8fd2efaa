//! Sets: films in several renditions, for adaptive bit rates, as players receive them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::probe::decoded;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

const LIMIT: Duration = Duration::from_secs(60);

/// Makes a film of 20 s with a key frame every `gop` pictures.
fn make(path: &Path, size: &str, rate: &str, gop: &str) {
    let picture = format!("testsrc2=s={size}:r=25:d=20");
    let path = path.display().to_string();
    let inputs = ["-v", "error", "-f", "lavfi", "-i", &picture];
    let sound = ["-f", "lavfi", "-i", "sine=f=440:r=48000:d=20"];
    let codec = ["-c:v", "libx264", "-preset", "ultrafast", "-b:v", rate];
    let groups = ["-g", gop, "-keyint_min", gop, "-sc_threshold", "0"];
    let rest = ["-pix_fmt", "yuv420p", "-c:a", "aac", &path];
    let all = [&inputs[..], &sound, &codec, &groups, &rest].concat();
    run(ffmpeg(all), LIMIT).expect("ffmpeg");
}

/// Makes a library with the film `film` in three renditions, one of which does not align with the
/// best.
fn library() -> tempfile::TempDir {
    let dir = films::temp_dir("library-");
    let set = dir.path().join("film.set");
    fs::create_dir(&set).expect("a folder");
    make(&set.join("high.mp4"), "320x180", "400k", "50");
    make(&set.join("low.mkv"), "160x90", "60k", "50");
    make(&set.join("odd.mp4"), "240x136", "200k", "70");
    dir
}

/// The titles of a film's renditions, each with the reason why players are not offered it, if there
/// is one.
fn renditions(server: &Server, title: &str) -> Vec<(String, Option<String>)> {
    let film = server.get(&format!("/api/films/{title}")).json();
    let all = film["renditions"].as_array().expect("a list").iter();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    all.map(|one| (text(&one["title"]).expect("a title"), text(&one["reason"])))
        .collect()
}

/// The path of a rendition's playlist, from a film's multivariant playlist.
fn playlist_of(main: &str, rendition: &str) -> String {
    let line = main.lines().find(|line| line.contains(rendition));
    let line = line.unwrap_or_else(|| panic!("{rendition} is not offered:\n{main}"));
    format!(
        "/{}",
        line.strip_prefix("../../").expect("a relative address")
    )
}

/// The path of the first segment of the media playlist at `playlist`.
fn first_segment(server: &Server, playlist: &str) -> String {
    let text = server.get(playlist).text();
    let line = text.lines().find(|line| line.contains("/1.m4s"));
    let (film, _) = playlist.split_once("/hls/").expect("a playlist of a film");
    let segment = line.and_then(|line| line.strip_prefix("../"));
    format!("{film}/{}", segment.expect("a segment"))
}

#[test]
fn players_get_each_rendition_that_aligns_and_are_told_why_another_does_not() {
    let dir = library();
    let server = Server::start(dir.path());
    server.wait_indexed();
    let odd = "its segment 2 begins at 5.600 s, that of the best rendition at 6.000 s: both need key frames at the same times";
    assert_eq!(
        renditions(&server, "film"),
        [
            ("film.set/odd".to_owned(), Some(odd.to_owned())),
            ("film.set/low".to_owned(), None),
        ]
    );
    let list = |query: &str| {
        let films = server.get(&format!("/api/films{query}")).json();
        let films = films["films"].as_array().expect("a list").clone();
        let said = |film: &serde_json::Value| (film["title"].clone(), film["rendition_of"].clone());
        films.iter().map(said).collect::<Vec<_>>()
    };
    let none = serde_json::Value::Null;
    let best = ("film".into(), none);
    assert_eq!(list("?renditions=no"), std::slice::from_ref(&best));
    let others = ["film.set/low", "film.set/odd"].map(|title| (title.into(), "film".into()));
    assert_eq!(list(""), [&[best][..], &others].concat());
    let node = server.get("/api/node").json();
    assert_eq!(
        (&node["films"]["ready"], &node["renditions"]),
        (&3.into(), &2.into())
    );

    // As players see it: for ffmpeg, each rendition is a programme over HLS, and a stream over
    // DASH.
    let set = dir.path().join("film.set");
    let source = |name: &str| decoded(&set.join(name).display().to_string(), "0:v");
    let (high, low) = (source("high.mp4"), source("low.mkv"));
    assert_eq!((high.len(), low.len()), (500, 500));
    let hls = server.http_url("film/hls/main.m3u8");
    assert_eq!(decoded(&hls, "0:p:0:v"), high);
    assert_eq!(decoded(&hls, "0:p:1:v"), low);
    let dash = server.http_url("film/dash/main.mpd");
    assert_eq!(decoded(&dash, "0:v:0"), high);
    assert_eq!(decoded(&dash, "0:v:1"), low);
    // A rendition alone, and the one that is not offered.
    assert_eq!(
        decoded(&server.http_url("film.set/low/hls/main.m3u8"), "0:v"),
        low
    );
    let odd = decoded(&server.http_url("film.set/odd/dash/main.mpd"), "0:v");
    assert_eq!(odd, source("odd.mp4"));
}

#[test]
fn one_who_changes_between_renditions_is_one_viewer() {
    let dir = library();
    let server = Server::start(dir.path());
    server.wait_indexed();
    let main = server.get("/film/hls/main.m3u8").text();
    let low = playlist_of(&main, "film.set/low");
    let own = main.lines().find(|line| line.starts_with("1.m3u8"));
    let own = format!("/film/hls/{}", own.expect("the best rendition"));
    for playlist in [&low, &own, &low] {
        let segment = first_segment(&server, playlist);
        assert_eq!(server.get(&segment).status, 200, "{segment}");
    }
    let sessions = server.get("/api/sessions").json();
    let sessions = sessions["sessions"].as_array().expect("a list");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(sessions[0]["title"], "film");
    assert_eq!(sessions[0]["state"], "playing");

    // A session that was ended has ended for all renditions.
    let segment = first_segment(&server, &low);
    server.end_session(&sessions[0]);
    assert_eq!(server.get(&segment).status, 410);
    assert_eq!(server.get(&own).status, 410);

    // Another viewer may watch a rendition alone, but not with the token for another film.
    let alone = server.get("/film.set/low/hls/main.m3u8").text();
    let alone = alone.lines().find(|line| line.starts_with("1.m3u8"));
    let alone = format!("/film.set/low/hls/{}", alone.expect("its picture"));
    assert_eq!(server.get(&first_segment(&server, &alone)).status, 200);
    let sessions = server.get("/api/sessions").json();
    assert_eq!(
        sessions["sessions"][0]["title"], "film.set/low",
        "{sessions}"
    );
    let token = alone.rsplit("s=").next().expect("a token");
    assert_eq!(
        server.get(&format!("/film/hls/1.m3u8?s={token}")).status,
        403
    );
    let odd = format!("/film.set/odd/hls/1.m3u8?s={token}");
    assert_eq!(server.get(&odd).status, 403);
}

#[test]
fn edges_offer_them_and_a_set_that_changes_is_another() {
    let dir = library();
    let set = dir.path().join("film.set");
    let origin = Server::start(dir.path());
    origin.wait_indexed();
    let edge = Options::edge(&origin.http_url("")).start();
    edge.wait_indexed();
    assert_eq!(renditions(&edge, "film"), renditions(&origin, "film"));
    let low = decoded(&set.join("low.mkv").display().to_string(), "0:v");
    assert_eq!(
        decoded(&edge.http_url("film/hls/main.m3u8"), "0:p:1:v"),
        low
    );

    fs::remove_file(set.join("odd.mp4")).expect("a file that goes");
    let left = [("film.set/low".to_owned(), None)];
    let is_gone = wait::until(LIMIT, || {
        (renditions(&origin, "film") == left).then_some(())
    });
    is_gone.expect("the film without the rendition that went");
    // The best rendition is removed: the remaining one is the film.
    let main = origin.get("/film/hls/main.m3u8").text();
    let own = main.lines().find(|line| line.starts_with("1.m3u8"));
    let own = format!("/film/hls/{}", own.expect("the best rendition"));
    fs::remove_file(set.join("high.mp4")).expect("a file that goes");
    let is_other = wait::until(LIMIT, || {
        let film = origin.get("/api/films/film").json();
        let is_low = film["file"] == "film.set/low.mkv" && film["state"] == "ready";
        is_low.then_some(())
    });
    is_other.expect("the rendition that is left as the film");
    assert_eq!(origin.get(&own).status, 410);
    assert_eq!(decoded(&origin.http_url("film/hls/main.m3u8"), "0:v"), low);
}

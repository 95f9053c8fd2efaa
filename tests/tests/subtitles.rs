//! Subtitle files of films, as players receive them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reelway_tests::elsewhere::{Spoil, Spoiler, nginx_that};
use reelway_tests::films;
use reelway_tests::players::{ffmpeg, run};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;
use serde_json::{Value, json};

const ENGLISH: &str = "1\n00:00:01,000 --> 00:00:02,500\nA <i>line</i>\n\n2\n00:00:03,000 --> 00:00:04,000\nTwo\nlines & more\n";

/// Starts a server of a film with these files beside it.
fn film(beside: &[(&str, &[u8])]) -> (tempfile::TempDir, Server) {
    let dir = films::library(&["faststart"]);
    for (name, bytes) in beside {
        put(dir.path(), name, bytes);
    }
    let server = Server::start(dir.path());
    server.wait_indexed();
    (dir, server)
}

/// Renames the complete file, so that no server sees a part of it.
fn put(dir: &Path, name: &str, bytes: &[u8]) {
    let new = dir.join(name).with_extension("new");
    fs::write(&new, bytes).expect("a file of subtitles");
    fs::rename(new, dir.join(name)).expect("its name");
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

    // ffmpeg ignores subtitles in HLS; the browser's players do not.
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

const SECONDS: Duration = Duration::from_secs(20);

/// Starts an edge that looks for new films every `refresh` seconds.
fn edge(origin: impl std::fmt::Display, refresh: u32) -> Server {
    edge_of(&format!("url = 'http://{origin}/', refresh = {refresh}"))
}

/// Starts a server whose only films are those of this source, in the syntax of `[[source]]`.
fn edge_of(source: &str) -> Server {
    let edge = Options::nothing().set("source", format!("[{{ {source} }}]"));
    let edge = edge.start();
    edge.wait_indexed();
    edge
}

/// The subtitles of the film `faststart`, as listed by the API.
fn listed(server: &Server) -> Vec<Value> {
    let film = server.get("/api/films/faststart").json();
    film["subtitles"].as_array().cloned().unwrap_or_default()
}

fn text(server: &Server, number: usize) -> String {
    let answer = server.get(&format!("/faststart/subtitles/{number}.vtt"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

/// The subtitles in a server's playlists and manifests, without the viewers' tokens, and their
/// texts.
fn offered(server: &Server) -> (Vec<Value>, Vec<String>, String, Vec<String>) {
    let main = server.get("/faststart/hls/main.m3u8").text();
    let lines = main.lines().filter(|line| line.contains("TYPE=SUBTITLES"));
    let lines = lines.map(|line| line.split("?s=").next().unwrap_or_default().to_owned());
    let mpd = server.get("/faststart/dash/main.mpd").text();
    let (_, of_mpd) = mpd.split_once("mimeType=\"text/vtt\"").expect("subtitles");
    let listed = listed(server);
    let texts = (1..=listed.len()).map(|number| text(server, number));
    (
        listed.clone(),
        lines.collect(),
        of_mpd.to_owned(),
        texts.collect(),
    )
}

#[test]
fn an_edge_and_an_edge_of_it_offer_the_subtitles_beside_and_inside_a_film_as_the_origin_does() {
    let dir = films::temp_dir("library");
    let work = films::temp_dir("subtitles");
    put(work.path(), "inside.srt", ENGLISH.as_bytes());
    let source = films::film("faststart").path.display().to_string();
    let inside = work.path().join("inside.srt").display().to_string();
    let out = dir.path().join("faststart.mkv").display().to_string();
    let inputs = ["-v", "error", "-i", &source, "-i", &inside];
    let output = ["-map", "0", "-map", "1", "-c", "copy", "-c:s", "srt", &out];
    let arguments = inputs.into_iter().chain(output);
    run(ffmpeg(arguments), Duration::from_secs(60)).expect("ffmpeg");
    let ass = "[Events]\nFormat: Start, End, Text\nDialogue: 0:00:01.00,0:00:02.00,{\\i1}Regie\n";
    let vtt = "WEBVTT\n\n00:01.000 --> 00:02.000 line:0 align:start\n<b>Schild</b>\n";
    for (name, bytes) in [
        ("faststart.en.sdh.srt", ENGLISH.as_bytes()),
        ("faststart.en.srt", ENGLISH.as_bytes()),
        ("faststart.eng.default.srt", ENGLISH.as_bytes()),
        ("faststart.de.forced.vtt", vtt.as_bytes()),
        ("faststart.de.Kommentar \"Regie\".ass", ass.as_bytes()),
    ] {
        put(dir.path(), name, bytes);
    }
    let origin = Server::start(dir.path());
    origin.wait_indexed();
    let near = Options::edge(&origin.http_url("")).start();
    near.wait_indexed();
    let far = edge(near.http, 60);
    let expected = offered(&origin);
    assert_eq!(expected.0.len(), 6);
    assert_eq!(expected.1.len(), 6);
    assert_eq!(offered(&far), expected);
    assert_eq!(offered(&near), expected);
}

#[test]
fn what_changes_beside_a_film_at_the_origin_changes_at_the_edge() {
    let (dir, origin) = film(&[]);
    let edge = edge(origin.http, 1);
    assert!(listed(&edge).is_empty());
    let become_same = |count: usize| {
        let same = || {
            let (here, there) = (listed(&edge), listed(&origin));
            (here == there && here.len() == count).then_some(())
        };
        let same = wait::until(SECONDS, same);
        assert!(same.is_some(), "{:?} {:?}", listed(&edge), listed(&origin));
    };
    put(dir.path(), "faststart.fr.srt", ENGLISH.as_bytes());
    become_same(1);
    assert!(text(&edge, 1).contains("Two"));
    let other = b"00:00:01,000 --> 00:00:02,000\nOther words\n";
    put(dir.path(), "faststart.fr.srt", other);
    let changed = || text(&edge, 1).contains("Other words").then_some(());
    assert!(wait::until(SECONDS, changed).is_some());
    // The number of the first file now belongs to another.
    put(dir.path(), "faststart.en.srt", ENGLISH.as_bytes());
    become_same(2);
    assert!(text(&edge, 1).contains("Two"));
    assert!(text(&edge, 2).contains("Other words"));
    fs::remove_file(dir.path().join("faststart.en.srt")).expect("the file");
    fs::remove_file(dir.path().join("faststart.fr.srt")).expect("the file");
    become_same(0);
    assert_eq!(edge.get("/faststart/subtitles/1.vtt").status, 404);
}

#[test]
fn an_edge_never_shows_a_file_for_another_one_and_looks_again_when_it_was_replaced() {
    let (dir, origin) = film(&[("faststart.fr.srt", ENGLISH.as_bytes())]);
    let edge = edge(origin.http, 3600);
    put(
        dir.path(),
        "faststart.en.srt",
        b"00:00:01,000 --> 00:00:02,000\nOther words\n",
    );
    let came = || (listed(&origin).len() == 2).then_some(());
    assert!(wait::until(SECONDS, came).is_some());
    assert_eq!(listed(&edge).len(), 1);
    let answer = edge.get("/faststart/subtitles/1.vtt");
    assert_eq!(answer.status, 502, "{}", answer.text());
    edge.wait_for_log(&["faststart.fr.srt", "status 410"], SECONDS);
    let came = || (listed(&edge).len() == 2).then_some(());
    assert!(wait::until(SECONDS, came).is_some());
    // The version that was just refused is served like any other.
    let shown = || {
        let answer = edge.get("/faststart/subtitles/2.vtt");
        (answer.status == 200).then(|| answer.text())
    };
    let shown = wait::until(SECONDS, shown).expect("the text");
    assert!(shown.contains("Two"), "{shown}");
}

#[test]
fn an_edge_asks_once_for_a_text_and_serves_it_while_its_origin_is_away() {
    let (_dir, origin) = film(&[
        ("faststart.de.srt", ENGLISH.as_bytes()),
        ("faststart.en.srt", ENGLISH.as_bytes()),
    ]);
    let spoiler = Spoiler::of(origin.http);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    spoiler.spoil(move |path, _| {
        counted.fetch_add(path.contains("/subtitles/").into(), Ordering::SeqCst);
        Spoil::Not
    });
    let edge = edge(spoiler.at, 3600);
    let expected = text(&origin, 1);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(text(&edge, 1), expected));
        }
    });
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    drop((spoiler, origin));
    assert_eq!(text(&edge, 1), expected);
    assert_eq!(listed(&edge).len(), 2);
    let answer = edge.get("/faststart/subtitles/2.vtt");
    assert_eq!(answer.status, 502);
    let words = answer.text();
    assert!(
        words.contains("faststart.en.srt cannot be fetched"),
        "{words}"
    );
    edge.wait_for_log(&["faststart", "faststart.en.srt"], SECONDS);
}

#[test]
fn a_text_comes_from_a_mirror_that_has_the_same_file() {
    let (dir, origin) = film(&[("faststart.en.srt", ENGLISH.as_bytes())]);
    let mirror = Server::start(dir.path());
    mirror.wait_indexed();
    let (first, second) = (origin.http, mirror.http);
    let edge = edge_of(&format!(
        "url = 'http://{first}/', mirrors = ['http://{second}/'], refresh = 3600"
    ));
    let expected = text(&mirror, 1);
    let _ports = origin.into_ports();
    assert_eq!(text(&edge, 1), expected);
}

#[test]
fn an_origin_that_stalls_keeps_nobody_from_what_is_there_and_each_film_has_its_own_subtitles() {
    let dir = films::library(&["faststart"]);
    let folder = dir.path().join("a folder");
    fs::create_dir(&folder).expect("a folder");
    let film = films::film("faststart").path;
    fs::copy(film, folder.join("Füße & mehr.mp4")).expect("a film");
    put(dir.path(), "faststart.en.srt", ENGLISH.as_bytes());
    let words = b"00:00:01,000 --> 00:00:02,000\nOther words\n";
    put(&folder, "Füße & mehr.en.srt", words);
    let origin = Server::start(dir.path());
    origin.wait_indexed();
    let spoiler = Spoiler::of(origin.http);
    let edge = edge_of(&format!(
        "url = 'http://{}/', at = 'far', stall = 1, refresh = 3600",
        spoiler.at
    ));
    let below = "/far/a%20folder/F%C3%BC%C3%9Fe%20&%20mehr";
    let other = edge.get(&format!("{below}/subtitles/1.vtt"));
    assert!(other.text().contains("Other words"), "{}", other.text());
    spoiler.spoil(|path, _| match path.contains("/subtitles/") {
        true => Spoil::Stall(10),
        false => Spoil::Not,
    });
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let stalled = edge.get("/far/faststart/subtitles/1.vtt");
                assert_eq!(stalled.status, 502, "{}", stalled.text());
            });
        }
        let main = edge.get("/far/faststart/hls/main.m3u8");
        assert_eq!(main.status, 200);
        assert!(main.text().contains("TYPE=SUBTITLES"));
        let other = edge.get(&format!("{below}/subtitles/1.vtt"));
        assert!(other.text().contains("Other words"));
    });
    // Viewers that wait, and those that come in the next seconds, cause no requests to the origin.
    let asked = edge.log().matches("faststart.en.srt: nothing came").count();
    assert!((1..20).contains(&asked), "{asked}");
    spoiler.spoil(|_, _| Spoil::Not);
    let again = || {
        let answer = edge.get("/far/faststart/subtitles/1.vtt");
        (answer.status == 200).then(|| answer.text())
    };
    let again = wait::until(SECONDS, again).expect("the text");
    assert!(again.contains("Two"), "{again}");
}

#[test]
fn after_a_restart_without_its_origin_an_edge_lists_the_same_subtitles() {
    let (_dir, origin) = film(&[("faststart.en.sdh.srt", ENGLISH.as_bytes())]);
    let state = films::temp_dir("state");
    let source = format!("[{{ url = 'http://{}/', refresh = 3600 }}]", origin.http);
    let start = || {
        let edge = Options::nothing().state(state.path());
        let edge = edge.set("source", &source).start();
        edge.wait_indexed();
        edge
    };
    let before = listed(&start());
    assert_eq!(before, listed(&origin));
    assert_eq!(before.len(), 1);
    let _ports = origin.into_ports();
    let edge = start();
    assert_eq!(listed(&edge), before);
    assert_eq!(edge.get("/faststart/subtitles/1.vtt").status, 502);
}

#[test]
fn whatever_a_server_gives_as_subtitles_harms_nothing_else() {
    let dir = films::temp_dir("hostile");
    let film = films::film("faststart");
    let below = |path: &str| dir.path().join(path);
    fs::create_dir_all(below("faststart/subtitles")).expect("a folder");
    fs::create_dir(below("api")).expect("a folder");
    fs::copy(&film.path, below("faststart/file")).expect("a film");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("our directory");
    let size = fs::metadata(&film.path).expect("a film").len();
    let file = |name: &str, version: &str| json!({ "file": name, "version": version });
    let list = json!({ "node": "x", "version": "0.1", "total": 2, "films": [
        { "title": "faststart", "file": "faststart.mp4", "size": size, "modified": "x", "state": "ready",
          "subtitle_files": [
            file("faststart.1.srt", "1"), file("../2.srt", "2"), file("faststart.3.srt", "3"), 4,
            file("faststart.5.srt", "5"), file("faststart.6.srt", "6"),
          ] },
        { "title": "none", "file": "none.mp4", "size": 7, "modified": "x", "state": "ready", "subtitle_files": {} },
    ] });
    fs::write(below("api/films"), list.to_string()).expect("a list");
    let vtt = |number: u32| format!("faststart/subtitles/{number}.vtt");
    let good = "WEBVTT\n\n00:01.000 --> 00:02.000\nGood\n";
    fs::write(below(&vtt(1)), good).expect("a text");
    fs::write(below(&vtt(3)), good.repeat(300_000)).expect("a text");
    fs::write(below(&vtt(5)), b"\xff\xfe\0no text").expect("a text");
    let rules = format!(
        "root {}; location /api/ {{ default_type application/json; }} \
         location ~ \\.vtt$ {{ types {{ }} default_type text/vtt; }} \
         location = /faststart/subtitles/6.vtt {{ return 302 http://127.0.0.2/; }}",
        dir.path().display()
    );
    let origin = nginx_that(&rules);
    let edge = edge(origin.at, 3600);
    let names = listed(&edge).into_iter().map(|one| one["file"].clone());
    let expected = [1, 3, 5, 6].map(|number| format!("faststart.{number}.srt"));
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert!(text(&edge, 1).contains("Good"));
    for number in 2..=4 {
        let answer = edge.get(&format!("/faststart/subtitles/{number}.vtt"));
        assert_eq!(answer.status, 502, "{number}: {}", answer.text());
    }
    assert!(edge.get("/faststart/file").body == fs::read(&film.path).expect("a film"));
}

//! Viewers over HLS, DASH and files are sessions: created, admitted or refused, recognised, paced,
//! ended.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use reelway_clock::now;
use reelway_tests::http::{self, Response};
use reelway_tests::server::{Options, Server};
use reelway_tests::{films, wait};
use serde_json::Value;

fn server(options: impl FnOnce(Options) -> Options) -> (Server, tempfile::TempDir) {
    let library = films::library(&["seeks", "faststart"]);
    let server = options(Options::new(library.path())).start();
    server.wait_indexed();
    (server, library)
}

fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    http::request(server.http, "GET", path, headers)
        .unwrap_or_else(|error| panic!("GET {path}: {error:#}"))
}

fn sessions(server: &Server) -> Vec<Value> {
    server.get("/api/sessions").json()["sessions"]
        .as_array()
        .expect("a list")
        .clone()
}

/// Begins to watch: returns the token and the addresses of the video's segments.
fn watch(server: &Server, title: &str) -> (String, Vec<String>) {
    let main = server.get(&format!("/{title}/hls/main.m3u8"));
    assert_eq!(main.status, 200, "{}", main.text());
    let playlist = main.text().lines().last().expect("an address").to_owned();
    let token = playlist.split("s=").nth(1).expect("a token").to_owned();
    let media = server.get(&format!("/{title}/hls/{playlist}")).text();
    let segments = media
        .split(['"', '\n'])
        .filter_map(|word| word.strip_prefix("../"))
        .map(|address| format!("/{title}/{address}"))
        .collect();
    (token, segments)
}

#[test]
fn a_session_begins_with_the_playlist_and_shows_where_its_viewer_is() {
    let (server, _library) = server(|options| options);
    let (token, segments) = watch(&server, "seeks");
    assert_eq!(sessions(&server)[0]["state"], "ready");
    assert!(
        segments.iter().all(|address| address.contains(&token)),
        "{segments:?}"
    );
    let headers = [("User-Agent", "Player/1.0")];
    let sent: usize = segments[..3]
        .iter()
        .map(|path| get(&server, path, &headers).body.len())
        .sum();
    let all = sessions(&server);
    assert_eq!(all.len(), 1, "one viewer, however many requests: {all:?}");
    let session = &all[0];
    assert_eq!(session["protocol"], "hls");
    assert_eq!(session["title"], "seeks");
    assert_eq!(session["state"], "playing");
    assert!(
        session["bytes"].as_u64() > Some(sent as u64 / 2),
        "{session}"
    );
    assert!(
        session["position"].as_f64() < Some(3.0),
        "the viewer has just begun: {session}"
    );
    assert!(session["lost"].is_null(), "HTTP cannot know");
    // The viewer seeks.
    get(&server, segments.last().expect("a segment"), &headers);
    let position = sessions(&server)[0]["position"].as_f64();
    assert!(position > Some(25.0), "{position:?}");
}

#[test]
fn a_dash_viewer_and_a_downloader_are_viewers_as_well() {
    let (server, _library) = server(|options| options);
    let mpd = server.get("/seeks/dash/main.mpd").text();
    let template = mpd
        .split('"')
        .find(|word| word.contains("$Number$"))
        .expect("a template");
    let path = template
        .replace("..", "/seeks")
        .replace("$Number$", "2")
        .replace("&amp;", "&");
    assert_eq!(server.get(&path).status, 200);
    get(&server, "/seeks/file", &[("Range", "bytes=100000-200000")]);
    let mut shown: Vec<String> = sessions(&server)
        .iter()
        .map(|session| format!("{} {}", session["protocol"], session["state"]))
        .collect();
    shown.sort();
    assert_eq!(shown, ["\"dash\" \"playing\"", "\"file\" \"playing\""]);
    let viewers = server.get("/api/films/seeks").json()["viewers"].as_u64();
    assert_eq!(viewers, Some(2));
}

#[test]
fn a_viewer_who_was_ended_gets_nothing_more() {
    let (server, _library) = server(|options| options);
    let (_, segments) = watch(&server, "seeks");
    assert_eq!(server.get(&segments[1]).status, 200);
    server.end_session(&sessions(&server)[0]);
    for path in &segments[..3] {
        let answer = server.get(path);
        assert_eq!(answer.status, 410, "{path}: {}", answer.text());
    }
    assert!(sessions(&server).is_empty(), "and is no newcomer");
    // Other viewers are not affected.
    let (_, segments) = watch(&server, "seeks");
    assert_eq!(server.get(&segments[1]).status, 200);
}

#[test]
fn a_token_is_a_viewers_name() {
    let (server, _library) = server(|options| options);
    let (token, segments) = watch(&server, "seeks");
    let other = |token: &str| segments[1].replace(&segments[1][segments[1].len() - 24..], token);
    for wrong in [
        "short",
        "UPPERCASEUPPERCASEUPPERC",
        "%2e%2e%2fabcdefghijkmnopq",
    ] {
        assert_eq!(server.get(&other(wrong)).status, 403, "{wrong}");
    }
    let of_another_film = server.get(&format!("/faststart/seg/1/1.m4s?s={token}"));
    assert_eq!(of_another_film.status, 403, "{}", of_another_film.text());
    assert_eq!(sessions(&server).len(), 1);
    // Well-formed but unknown: the viewer's session expired during a pause, or the server was
    // restarted.
    assert_eq!(server.get(&other("abcdefghijkmnpqrstuvwxyz")).status, 200);
    assert_eq!(sessions(&server).len(), 2, "a newcomer under that name");
}

#[test]
fn over_the_limit_the_newcomer_is_refused_and_nobody_else() {
    let (server, _library) = server(|options| options.set("sessions.max", 1));
    let (_, segments) = watch(&server, "seeks");
    for path in [
        "/seeks/hls/main.m3u8",
        "/seeks/dash/main.mpd",
        "/seeks/file",
        "/faststart/seg/1/1.m4s",
    ] {
        let refused = server.get(path);
        assert_eq!(refused.status, 503, "{path}");
        assert!(
            refused.headers["retry-after"]
                .parse::<u32>()
                .is_ok_and(|after| after > 0)
        );
        assert!(
            refused.text().contains("`sessions.max` is 1"),
            "{}",
            refused.text()
        );
    }
    for path in &segments {
        assert_eq!(server.get(path).status, 200, "never in mid-film");
    }
}

#[test]
fn one_who_asks_for_nothing_is_given_up_and_may_come_again() {
    let (server, _library) = server(|options| options.set("http.timeout", 5));
    let (_, segments) = watch(&server, "seeks");
    let gone = wait::until(Duration::from_secs(10), || {
        sessions(&server).is_empty().then_some(())
    });
    assert!(gone.is_some(), "{:?}", sessions(&server));
    assert_eq!(
        server.get(&segments[1]).status,
        200,
        "the viewer only paused"
    );
    let back = sessions(&server);
    assert_eq!((back.len(), &back[0]["protocol"]), (1, &Value::from("hls")));
}

#[test]
fn where_caches_stand_downstream_segments_have_no_tokens() {
    let (server, _library) = server(|options| options.set("http.tokens_in_segments", false));
    let (_, segments) = watch(&server, "seeks");
    assert!(
        segments.iter().all(|address| !address.contains("s=")),
        "{segments:?}"
    );
    let answer = server.get(&segments[1]);
    assert_eq!(answer.status, 200);
    assert!(
        answer.headers["cache-control"].starts_with("public"),
        "{:?}",
        answer.headers
    );
    let other_viewer = watch(&server, "seeks").1;
    assert_eq!(segments, other_viewer, "all viewers ask for the same");
}

#[test]
fn a_film_goes_freely_for_some_seconds_and_then_at_twice_its_rate() {
    let (server, library) = server(|options| {
        options
            .set("http.ahead", 4)
            .set("http.downloads", "\"paced\"")
    });
    let len = std::fs::metadata(library.path().join("seeks.mp4"))
        .expect("the film")
        .len();
    let start = now();
    // 14 of 40 s: 4 at once, then 10 at two seconds per second.
    let range = format!("bytes=0-{}", len * 14 / 40);
    let part = get(&server, "/seeks/file", &[("Range", &range)]);
    let took = now().since(start).as_secs_f64();
    assert_eq!(part.status, 206);
    assert!((3.0..7.0).contains(&took), "{took} s");
    // A viewer who begins elsewhere has an allowance of their own.
    let start = now();
    let (_, segments) = watch(&server, "seeks");
    // Three of the first segment's seven seconds.
    let part = get(&server, &segments[1], &[("Range", "bytes=0-99999")]);
    assert_eq!(part.status, 206);
    server.get(segments.last().expect("a segment"));
    let took = now().since(start).as_secs_f64();
    // The last segment lasts five seconds: with the one that is left of four, it would take two.
    assert!(took < 1.5, "{took} s");
}

#[test]
fn a_seek_into_what_was_expected_next_is_not_held_to_the_pace() {
    let (server, _library) = server(|options| options.set("http.ahead", 8));
    let (_, segments) = watch(&server, "seeks");
    // The first segment is sent at once, and the second one's part beyond the eight seconds is
    // delayed …
    server.get(&segments[1]);
    server.get(&segments[2]);
    // … but a player that closes the connection and requests what follows on another need not wait.
    let mut left = TcpStream::connect(server.http).expect("a connection");
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n",
        segments[3], server.http
    );
    left.write_all(request.as_bytes()).expect("a request");
    let timeout = Some(Duration::from_millis(300));
    left.set_read_timeout(timeout).expect("a timeout");
    // On a busy machine, some bytes may have arrived; all of them take seconds more.
    let _ = left.read(&mut [0; 1]);
    drop(left);
    let start = now();
    server.get(&segments[4]);
    let took = now().since(start).as_secs_f64();
    // It lasts six seconds at least: at the pace, it would take three.
    assert!(took < 2.0, "{took} s");
}

#[test]
fn a_download_ends_with_its_session() {
    let (server, _library) = server(|options| {
        options
            .set("http.ahead", 1)
            .set("http.downloads", "\"paced\"")
    });
    let address = server.http;
    let download = std::thread::spawn(move || http::get(address, "/seeks/file"));
    let session = wait::until(Duration::from_secs(5), || {
        sessions(&server).into_iter().next()
    });
    server.end_session(&session.expect("the downloader"));
    let result = download.join().expect("the downloader");
    assert!(result.is_err(), "it was cut off");
}

#[test]
fn a_poster_is_no_viewer() {
    let (server, _library) = server(|options| options);
    for path in ["/seeks/seg/1/init.mp4?poster", "/seeks/seg/1/1.m4s?poster"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert!(sessions(&server).is_empty());
}

#[test]
fn a_film_that_was_replaced_is_gone_for_those_who_watch_it() {
    let library = films::library(&["seeks"]);
    let path = library.path().join("seeks.mp4");
    let server = Options::new(library.path()).start();
    server.wait_indexed();
    let (_, segments) = watch(&server, "seeks");
    assert_eq!(server.get(&segments[1]).status, 200);
    let before = server.get("/api/films/seeks").json()["modified"].clone();
    let modified = std::fs::metadata(&path).and_then(|film| film.modified());
    let modified = modified.expect("a time of change");
    let other = std::fs::read(&films::film("faststart").path).expect("a film");
    std::fs::remove_file(&path).expect("removing");
    let new = library.path().join("new");
    std::fs::write(&new, other).expect("another film");
    // The API gives whole seconds, and both files may be from the same one.
    let file = std::fs::File::options().write(true).open(&new);
    let set = file.and_then(|file| file.set_modified(modified - Duration::from_secs(10)));
    set.expect("a time of change");
    std::fs::rename(&new, &path).expect("renaming");
    let noticed = wait::until(Duration::from_secs(15), || {
        let film = server.get("/api/films/seeks").json();
        (film["state"] == "ready" && film["duration"].as_f64() < Some(10.0)).then_some(film)
    });
    assert_ne!(noticed.expect("the other film")["modified"], before);
    for path in &segments[..3] {
        let answer = server.get(path);
        assert_eq!(
            answer.status,
            410,
            "never the other film's bytes: {}",
            answer.text()
        );
    }
    assert_eq!(server.get("/seeks/hls/main.m3u8").status, 200);
}

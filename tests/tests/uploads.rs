//! Films that are uploaded and deleted over HTTP: whole and in parts, refused where they must be,
//! and the effects on viewers who watch meanwhile.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reelway_tests::films::{self, temp_dir};
use reelway_tests::http::{self, Response};
use reelway_tests::rtsp::{Client, rtcp_packets};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

/// Starts a server that accepts uploads, with these films in its directory.
fn server(names: &[&str]) -> (Server, tempfile::TempDir) {
    let library = films::library(names);
    let server = Options::new(library.path())
        .set("http.uploads", true)
        .set("http.ahead", 3600)
        .start();
    (server, library)
}

fn film(name: &str) -> Vec<u8> {
    fs::read(films::film(name).path).expect("a film")
}

/// Sends a request with the token.
fn ask(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Response {
    let token = format!("Bearer {}", server.token());
    let mut all = vec![("Authorization", token.as_str())];
    all.extend_from_slice(headers);
    http::send(server.http, method, path, &all, body)
        .unwrap_or_else(|error| panic!("{method} {path}: {error:#}"))
}

fn put(server: &Server, path: &str, body: &[u8]) -> Response {
    ask(server, "PUT", path, &[], body)
}

/// Begins an upload of `length` bytes.
fn begin(server: &Server, path: &str, headers: &[(&str, &str)], length: u64) -> TcpStream {
    let token = format!("Bearer {}", server.token());
    let mut all = vec![("Authorization", token.as_str())];
    all.extend_from_slice(headers);
    http::begin(server.http, "PUT", path, &all, length).expect("a connection")
}

fn answer(stream: TcpStream) -> Response {
    http::read(&mut BufReader::new(stream), false).expect("an answer")
}

/// The names of all files in a directory, including hidden ones.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// A film with so much padding that it takes several blocks of a draft.
fn long_film() -> Vec<u8> {
    let mut bytes = film("faststart");
    let padding = 5_000_000u32;
    bytes.extend(padding.to_be_bytes());
    bytes.extend(b"free");
    bytes.extend((8..padding).map(|at| (at * 31 + at / 255) as u8));
    bytes
}

#[test]
fn a_film_that_is_put_plays_at_once_and_another_takes_its_place() {
    let (server, library) = server(&["tiny_sound"]);
    let first = long_film();
    let made = put(&server, "/new/a%20film/file", &first);
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.headers["location"], "/new/a%20film/file");
    // A film is available as soon as its upload is confirmed.
    let got = server.get("/new/a%20film/file");
    assert!(got.status == 200 && got.body == first);
    assert_eq!(got.headers["etag"], made.headers["etag"]);
    assert_eq!(server.get("/new/a%20film/hls/main.m3u8").status, 200);

    let second = film("video_only");
    let replaced = put(&server, "/new/a%20film/file", &second);
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    assert_eq!(replaced.json()["replaced"], true);
    assert!(server.get("/new/a%20film/file").body == second);
    assert_eq!(names(&library.path().join("new")), ["a film.mp4"]);
    assert_eq!(
        fs::read(library.path().join("new/a film.mp4")).unwrap(),
        second
    );
}

#[test]
fn nothing_can_be_put_unless_it_is_configured_and_the_token_is_brought() {
    let library = films::library(&["tiny_sound"]);
    let plain = Server::start(library.path());
    let body = film("video_only");
    for method in ["PUT", "DELETE"] {
        let refused = ask(&plain, method, "/tiny_sound/file", &[], &body);
        assert_eq!(refused.status, 405, "{method}");
        assert!(
            refused.text().contains("http.uploads"),
            "{}",
            refused.text()
        );
    }
    drop(plain);
    let (server, library) = server(&["tiny_sound"]);
    for method in ["PUT", "DELETE"] {
        let path = "/tiny_sound/file";
        let without = http::send(server.http, method, path, &[], &body).expect("an answer");
        assert_eq!(without.status, 401);
        let origin = [("Origin", "https://evil.example")];
        assert_eq!(ask(&server, method, path, &origin, &body).status, 403);
        let other = [("If-Match", "\"0123456789abcdef\"")];
        assert_eq!(ask(&server, method, path, &other, &body).status, 412);
    }
    let none = [("If-None-Match", "*")];
    assert_eq!(
        ask(&server, "PUT", "/tiny_sound/file", &none, &body).status,
        412
    );
    assert_eq!(
        fs::read(library.path().join("tiny_sound.mp4")).unwrap(),
        film("tiny_sound")
    );
}

#[test]
fn an_upload_that_broke_off_is_resumed_where_it_stood() {
    let (server, library) = server(&["tiny_sound"]);
    let film = long_film();
    let len = film.len();
    let path = "/resumed/file";
    // Breaks off in the middle of a block.
    let mut first = begin(&server, path, &[], len as u64);
    first.write_all(&film[..2_345_678]).expect("a part");
    let question = format!("bytes */{len}");
    let question = [("Content-Range", question.as_str())];
    // The first upload has begun on the server; another connection does not wait for it.
    let busy = wait::until(Duration::from_secs(10), || {
        (ask(&server, "PUT", path, &question, &[]).status == 409).then_some(())
    });
    assert!(busy.is_some(), "while the first still sends");
    drop(first);
    let received = wait::until(Duration::from_secs(10), || {
        let answer = ask(&server, "PUT", path, &question, &[]);
        (answer.status == 202).then(|| answer.json()["received"].as_u64().unwrap() as usize)
    });
    let received = received.expect("what has come is kept");
    assert!((1..=2_345_678).contains(&received), "{received}");

    // A wrong offset or another length: the response says how much the server has.
    for (from, whole) in [(received + 1, len), (received, len + 1)] {
        let range = format!("bytes {from}-{}/{whole}", from + 9);
        let wrong = ask(
            &server,
            "PUT",
            path,
            &[("Content-Range", &range)],
            &film[..10],
        );
        assert_eq!(wrong.status, 409);
        assert_eq!(wrong.headers["range"], format!("bytes=0-{}", received - 1));
    }
    let middle = received + 1_111_111;
    let range = format!("bytes {received}-{}/{len}", middle - 1);
    let part = ask(
        &server,
        "PUT",
        path,
        &[("Content-Range", &range)],
        &film[received..middle],
    );
    assert_eq!(part.status, 202, "{}", part.text());
    assert_eq!(part.json()["received"], middle);
    assert_eq!(server.get(path).status, 404, "not there before it is whole");
    let range = format!("bytes {middle}-{}/{len}", len - 1);
    let last = ask(
        &server,
        "PUT",
        path,
        &[("Content-Range", &range)],
        &film[middle..],
    );
    assert_eq!(last.status, 201, "{}", last.text());
    assert!(server.get(path).body == film);
    assert_eq!(names(library.path()), ["resumed.mp4", "tiny_sound.mp4"]);
}

#[test]
fn curl_puts_and_resumes_a_film() {
    let (server, library) = server(&["tiny_sound"]);
    let dir = temp_dir("curl");
    let film = long_film();
    fs::write(dir.path().join("film.mp4"), &film).unwrap();
    let token = format!("Authorization: Bearer {}", server.token());
    let curl = |arguments: &[&str]| {
        let output = Command::new("curl")
            .args([
                "-sS",
                "--max-time",
                "20",
                "-H",
                &token,
                "-w",
                "%{http_code}",
                "-o",
                "/dev/null",
            ])
            .args(arguments)
            .arg(server.http_url("by%20curl/file"))
            .current_dir(dir.path())
            .output()
            .expect("curl");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The first three million bytes, then the rest.
    fs::write(dir.path().join("part"), &film[..3_000_000]).unwrap();
    let range = format!("Content-Range: bytes 0-2999999/{}", film.len());
    assert_eq!(curl(&["-T", "part", "-H", &range]), "202");
    assert_eq!(curl(&["-T", "film.mp4", "-C", "3000000"]), "201");
    assert!(fs::read(library.path().join("by curl.mp4")).unwrap() == film);
    assert_eq!(curl(&["-T", "film.mp4"]), "200");
    assert_eq!(curl(&["-X", "DELETE"]), "200");
    assert_eq!(names(library.path()), ["tiny_sound.mp4"]);
}

#[test]
fn what_is_no_film_is_refused_and_leaves_nothing() {
    let (server, library) = server(&["tiny_sound"]);
    let text = b"It was a dark and stormy night. ".repeat(40_000);
    let refused = put(&server, "/tiny_sound/file", &text);
    assert_eq!(refused.status, 422, "{}", refused.text());
    // That the end of a film is missing shows only at its end.
    let film = film("progressive");
    let refused = put(&server, "/cut/file", &film[..film.len() - 3000]);
    assert_eq!(refused.status, 422, "{}", refused.text());

    // The response comes while the rest is still announced. No more is announced than fits on a
    // small machine's disk, which is checked before the first byte.
    let mut sending = begin(&server, "/large/file", &[], 256 << 20);
    sending.write_all(&text).ok();
    let refused = answer(sending);
    assert_eq!(refused.status, 422, "{}", refused.text());

    assert_eq!(names(library.path()), ["tiny_sound.mp4"]);
    assert_eq!(
        server.get("/tiny_sound/file").body,
        self::film("tiny_sound")
    );
}

#[test]
fn odd_requests_are_refused_in_words() {
    let library = films::library(&["tiny_sound"]);
    fs::write(library.path().join("other.avi"), b"RIFF").unwrap();
    let server = Options::new(library.path())
        .set("http.uploads", true)
        .set("http.max_upload", "\"1MiB\"")
        .start();
    server.wait_indexed();
    let film = film("tiny_sound");
    for (path, status) in [
        ("/../../etc/film/file", 400),
        ("/a/%2e%2e/film/file", 400),
        ("/.hidden/file", 400),
        ("/a%00b/file", 400),
        ("/other/file", 409),
        ("/tiny_sound.mp4/x/file", 409),
    ] {
        let refused = put(&server, path, &film);
        assert_eq!(refused.status, status, "{path}: {}", refused.text());
        assert!(refused.text().len() > 10, "{path}: {}", refused.text());
    }
    let large = begin(&server, "/large/file", &[], 2 << 20);
    assert_eq!(answer(large).status, 413);
    let range = [("Content-Range", "bytes 5-1/3")];
    assert_eq!(ask(&server, "PUT", "/x/file", &range, &film).status, 400);
    let gone = ask(&server, "DELETE", "/nothing/file", &[], &[]);
    assert_eq!(gone.status, 404);
    assert_eq!(ask(&server, "DELETE", "/other/file", &[], &[]).status, 200);
    assert_eq!(names(library.path()), ["tiny_sound.mp4"]);
}

#[test]
fn of_two_who_put_the_same_film_at_once_one_is_told_so() {
    let (server, library) = server(&["tiny_sound"]);
    let film = long_film();
    let mut first = begin(&server, "/same/file", &[], film.len() as u64);
    first.write_all(&film[..100_000]).expect("a part");
    // The first upload has begun once there is a draft of it.
    let begun = wait::until(Duration::from_secs(10), || {
        let drafts = |name: &String| name.starts_with(".reelway-draft-");
        names(library.path()).iter().any(drafts).then_some(())
    });
    begun.expect("a draft");
    let conflict = put(&server, "/same/file", &self::film("video_only"));
    assert_eq!(conflict.status, 409, "{}", conflict.text());
    assert!(conflict.text().contains("already"), "{}", conflict.text());
    // Another title is not affected.
    assert_eq!(
        put(&server, "/another/file", &self::film("video_only")).status,
        201
    );
    first.write_all(&film[100_000..]).expect("the rest");
    let done = answer(first);
    assert_eq!(done.status, 201, "{}", done.text());
    assert!(server.get("/same/file").body == film);
}

#[test]
fn a_full_disk_is_told_and_harms_nothing() {
    let disk = SmallDisk::mount(6 << 20);
    fs::copy(
        films::film("tiny_sound").path,
        disk.0.path().join("old.mp4"),
    )
    .unwrap();
    let server = Options::new(disk.0.path())
        .set("http.uploads", true)
        .start();
    server.wait_indexed();
    let film = long_film();
    assert_eq!(put(&server, "/fits/file", &film).status, 201);
    let refused = put(&server, "/too/much/file", &film);
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert!(refused.text().contains("space"), "{}", refused.text());
    // The same in place of a film, whose removal would make room only afterwards.
    assert_eq!(put(&server, "/fits/file", &film).status, 507);
    assert!(server.get("/fits/file").body == film);
    assert_eq!(ask(&server, "DELETE", "/fits/file", &[], &[]).status, 200);
    assert_eq!(put(&server, "/too/much/file", &film).status, 201);
    assert_eq!(names(disk.0.path()), ["old.mp4", "too"]);
}

/// A file system of a few megabytes in memory.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> SmallDisk {
        let dir = temp_dir("small");
        let size = format!("size={bytes}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "reelway-small"])
            .arg(dir.path())
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "mount (needs root)"
        );
        SmallDisk(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount")
            .arg("-l")
            .arg(self.0.path())
            .status()
            .ok();
    }
}

/// Starts a viewer over TCP who plays `title`.
fn viewer(server: &Server, title: &str) -> Client {
    let mut client = Client::connect(server.rtsp).expect("a connection");
    client.setup_tcp(&server.rtsp_url(title)).expect("SETUP");
    let answer = client
        .request("PLAY", &server.rtsp_url(title), &[])
        .expect("PLAY");
    assert_eq!(answer.status, 200, "{answer:?}");
    client
}

/// Counts media packets until there was a BYE on both tracks, or until `limit` is over.
fn watch(client: &mut Client, limit: Duration) -> (usize, bool) {
    let deadline = wait::Deadline::after(limit);
    let (mut packets, mut left) = (0, vec![1, 3]);
    while !left.is_empty() && !deadline.over() {
        let Ok(Some(frame)) = client.frame(deadline.left()) else {
            break;
        };
        if frame.channel % 2 == 0 {
            packets += 1;
        } else if rtcp_packets(&frame.data)
            .expect("RTCP")
            .iter()
            .any(|(kind, _)| *kind == 203)
        {
            left.retain(|channel| *channel != frame.channel);
        }
    }
    (packets, left.is_empty())
}

#[test]
fn who_watches_a_film_that_is_deleted_sees_what_was_begun_to_its_end() {
    let (server, library) = server(&["progressive"]);
    let film = film("progressive");
    let mut over_rtsp = viewer(&server, "progressive");
    let mut over_http = TcpStream::connect(server.http).expect("a connection");
    write!(
        over_http,
        "GET /progressive/file HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        server.http
    )
    .unwrap();
    let mut byte = [0];
    over_http.read_exact(&mut byte).expect("the answer begins");
    let main = server.get("/progressive/hls/main.m3u8").text();
    let playlist = main
        .lines()
        .find(|line| !line.starts_with('#'))
        .expect("a playlist")
        .to_owned();
    let segments = server.get(&format!("/progressive/hls/{playlist}")).text();
    let segments: Vec<String> = segments
        .lines()
        .filter_map(|line| Some(format!("/progressive/{}", line.strip_prefix("../")?)))
        .collect();
    assert_eq!(server.get(&segments[0]).status, 200);

    let gone = ask(&server, "DELETE", "/progressive/file", &[], &[]);
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(gone.json()["viewers"], 3);
    assert!(names(library.path()).is_empty());
    assert_eq!(
        server.get("/progressive/hls/main.m3u8").status,
        404,
        "nobody new"
    );
    assert_eq!(
        ask(&server, "DELETE", "/progressive/file", &[], &[]).status,
        404
    );

    assert_eq!(server.get(&segments[0]).status, 404, "segments end clearly");
    let mut rest = byte.to_vec();
    over_http.read_to_end(&mut rest).expect("the rest");
    assert!(rest.ends_with(&film), "the file that was begun comes whole");
    let (packets, bye) = watch(&mut over_rtsp, Duration::from_secs(20));
    assert!(bye && packets > 100, "{packets} packets, BYE: {bye}");
}

#[test]
fn who_watches_a_film_that_is_replaced_is_told_goodbye() {
    let (server, _library) = server(&["seeks"]);
    let mut over_rtsp = viewer(&server, "seeks");
    let main = server.get("/seeks/hls/main.m3u8").text();
    let playlist = main
        .lines()
        .find(|line| !line.starts_with('#'))
        .expect("a playlist")
        .to_owned();
    let segments = server.get(&format!("/seeks/hls/{playlist}")).text();
    let segment = segments
        .lines()
        .find_map(|line| line.strip_prefix("../"))
        .expect("a segment")
        .to_owned();
    let segment = format!("/seeks/{segment}");
    assert_eq!(server.get(&segment).status, 200);
    assert_eq!(
        put(&server, "/seeks/file", &film("progressive")).status,
        200
    );
    let (_, bye) = watch(&mut over_rtsp, Duration::from_secs(10));
    assert!(bye, "BYE when the film was replaced");
    let old = server.get(&segment);
    assert_eq!(old.status, 410, "{}", old.text());
    assert!(server.get("/seeks/file").body == film("progressive"));
}

#[test]
fn a_server_that_is_killed_in_the_middle_leaves_no_half_film() {
    let library = films::library(&["tiny_sound"]);
    let start = |state: &Path| {
        let server = Options::new(library.path())
            .set("http.uploads", true)
            .state(state)
            .start();
        server.wait_indexed();
        server
    };
    let (state, film) = (temp_dir("state"), long_film());
    let before = names(library.path());
    let server = start(state.path());
    // A new film, and a replacement of another, each half uploaded.
    let mut uploads = ["/new/file", "/tiny_sound/file"].map(|path| {
        let mut stream = begin(&server, path, &[], film.len() as u64);
        stream.write_all(&film[..3_000_000]).expect("a part");
        stream
    });
    let written = wait::until(Duration::from_secs(20), || {
        let drafts = fs::read_dir(library.path()).expect("a directory");
        let drafts = drafts.filter_map(|entry| entry.ok()?.metadata().ok());
        (drafts.filter(|file| file.len() > 1_000_000).count() == 2).then_some(())
    });
    written.expect("two drafts");
    server.signal("KILL");
    for stream in &mut uploads {
        // Reads until the connection ends: the server is gone.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    drop(server);
    assert_eq!(
        names(library.path()).len(),
        before.len() + 2,
        "drafts were left"
    );

    let server = start(state.path());
    assert_eq!(names(library.path()), before);
    assert_eq!(server.get("/api/films").json()["total"], 1);
    assert!(server.get("/tiny_sound/file").body == self::film("tiny_sound"));
    assert_eq!(put(&server, "/new/file", &film).status, 201);
    // An upload that was confirmed survives a crash.
    server.signal("KILL");
    drop(server);
    let server = start(state.path());
    assert!(server.get("/new/file").body == film);
}

//! Files and segments over HTTP: lengths, ranges, conditional requests, types, cross-origin pages.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::http::{self, Response};
use reelway_tests::server::{Options, Server};

fn server(names: &[&str]) -> (Server, tempfile::TempDir) {
    let library = films::library(names);
    // Nobody watches here: requested data is sent at once.
    let server = Options::new(library.path()).set("http.ahead", 3600).start();
    server.wait_indexed();
    (server, library)
}

fn ask(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    http::request(server.http, method, path, headers)
        .unwrap_or_else(|error| panic!("{method} {path} {headers:?}: {error:#}"))
}

/// Returns the absolute addresses of a track's initialisation segment and segments.
fn segments(server: &Server, title: &str, track: u32) -> Vec<String> {
    let main = server.get(&format!("/{title}/hls/main.m3u8")).text();
    let playlist = main
        .split(['"', '\n'])
        .find(|word| word.starts_with(&format!("{track}.m3u8")))
        .unwrap_or_else(|| panic!("no playlist of track {track} in {main}"));
    let text = server.get(&format!("/{title}/hls/{playlist}")).text();
    text.split(['"', '\n'])
        .filter_map(|word| word.strip_prefix("../"))
        .map(|address| format!("/{title}/{address}"))
        .collect()
}

#[test]
fn the_file_is_the_file_whole_and_in_parts() {
    let (server, library) = server(&["faststart"]);
    let film = std::fs::read(library.path().join("faststart.mp4")).expect("the film");
    let path = "/faststart/file";
    let whole = server.get(path);
    assert_eq!(whole.status, 200);
    assert!(
        whole.body == film,
        "{} of {} bytes",
        whole.body.len(),
        film.len()
    );
    assert_eq!(whole.headers["content-type"], "video/mp4");
    assert_eq!(whole.headers["accept-ranges"], "bytes");
    let len = film.len();
    for (range, from, to) in [
        ("bytes=0-0".to_owned(), 0, 1),
        ("bytes=0-".into(), 0, len),
        ("bytes=100-300000".into(), 100, len.min(300_001)),
        ("bytes=-1000".into(), len - 1000, len),
        (format!("bytes={}-{}", len - 1, len + 500), len - 1, len),
        (format!("bytes=-{}", len + 1), 0, len),
    ] {
        let part = ask(&server, "GET", path, &[("Range", &range)]);
        assert_eq!(part.status, 206, "{range}");
        assert!(part.body == film[from..to], "{range}");
        assert_eq!(
            part.headers["content-range"],
            format!("bytes {from}-{}/{len}", to - 1)
        );
    }
    for range in [format!("bytes={len}-"), "bytes=-0".into()] {
        let none = ask(&server, "GET", path, &[("Range", &range)]);
        assert_eq!(none.status, 416, "{range}");
        assert_eq!(none.headers["content-range"], format!("bytes */{len}"));
    }
    for odd in ["bytes=0-1,5-9", "bytes=9-1", "pages=1-2", "bytes=x"] {
        let all = ask(&server, "GET", path, &[("Range", odd)]);
        assert_eq!((all.status, all.body.len()), (200, len), "{odd}");
    }
}

#[test]
fn head_says_what_get_would() {
    let (server, _library) = server(&["seeks"]);
    let mut paths = segments(&server, "seeks", 1);
    paths.truncate(3);
    paths.push("/seeks/file".into());
    paths.push("/seeks/hls/main.m3u8".into());
    paths.push("/seeks/dash/main.mpd".into());
    for path in paths {
        let (get, head) = (server.get(&path), ask(&server, "HEAD", &path, &[]));
        assert_eq!(
            (get.status, head.status, head.body.len()),
            (200, 200, 0),
            "{path}"
        );
        assert_eq!(
            get.headers["content-length"],
            get.body.len().to_string(),
            "{path}"
        );
        let told = |response: &Response| -> HashMap<String, String> {
            let mut headers = response.headers.clone();
            headers.remove("date");
            headers
        };
        assert_eq!(told(&get), told(&head), "{path}");
    }
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let (server, _library) = server(&["seeks"]);
    for path in [
        segments(&server, "seeks", 1).remove(1),
        "/seeks/file".into(),
    ] {
        let first = server.get(&path);
        let (etag, modified) = (&*first.headers["etag"], &*first.headers["last-modified"]);
        assert!(
            etag.starts_with('"') && etag.ends_with('"'),
            "a strong tag: {etag}"
        );
        let status = |headers: &[(&str, &str)]| ask(&server, "GET", &path, headers).status;
        let same = ask(&server, "GET", &path, &[("If-None-Match", etag)]);
        assert_eq!(same.status, 304);
        for header in ["etag", "last-modified", "cache-control"] {
            assert_eq!(same.headers[header], first.headers[header], "{path}");
        }
        assert_eq!(status(&[("If-None-Match", "\"other\"")]), 200);
        assert_eq!(status(&[("If-Modified-Since", modified)]), 304);
        assert_eq!(
            status(&[("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")]),
            200
        );
        assert_eq!(status(&[("If-Match", "\"other\"")]), 412);
        let range = ("Range", "bytes=0-9");
        assert_eq!(status(&[range, ("If-Range", etag)]), 206);
        assert_eq!(status(&[range, ("If-Range", modified)]), 206);
        assert_eq!(status(&[range, ("If-Range", "\"other\"")]), 200);
    }
    let tags: Vec<String> = segments(&server, "seeks", 1)
        .iter()
        .chain(&segments(&server, "seeks", 2))
        .map(|path| ask(&server, "HEAD", path, &[]).headers["etag"].clone())
        .collect();
    let mut different = tags.clone();
    different.sort();
    different.dedup();
    assert_eq!(
        different.len(),
        tags.len(),
        "each segment has a tag of its own: {tags:?}"
    );
}

#[test]
fn a_part_of_a_segment_is_that_part() {
    let (server, _library) = server(&["seeks"]);
    for track in [1, 2] {
        for path in segments(&server, "seeks", track) {
            let whole = server.get(&path).body;
            let len = whole.len();
            for (from, to) in [
                (0, 8),
                (3, len / 2),
                (len / 3, len / 3 + 1),
                (len - 5, len),
                (20, len),
            ] {
                let range = format!("bytes={from}-{}", to - 1);
                let part = ask(&server, "GET", &path, &[("Range", &range)]);
                assert_eq!(part.status, 206, "{path} {range}");
                assert!(part.body == whole[from..to], "{path} {range}");
            }
        }
    }
}

#[test]
fn types_and_rules_for_caches_are_told() {
    let (server, _library) = server(&["seeks", "half_rate"]);
    let picture = segments(&server, "seeks", 1);
    let sound = segments(&server, "seeks", 2);
    for (path, media_type, rule) in [
        (
            "/seeks/hls/main.m3u8",
            "application/vnd.apple.mpegurl",
            "no-store",
        ),
        ("/seeks/dash/main.mpd", "application/dash+xml", "no-store"),
        ("/seeks/file", "video/mp4", "no-cache"),
        (&picture[0], "video/mp4", "private, max-age=3600, immutable"),
        (&picture[1], "video/mp4", "private, max-age=3600, immutable"),
        (&sound[0], "audio/mp4", "private, max-age=3600, immutable"),
        (&sound[1], "audio/mp4", "private, max-age=3600, immutable"),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.headers["content-type"], media_type, "{path}");
        assert_eq!(answer.headers["cache-control"], rule, "{path}");
        assert_eq!(
            answer.headers["x-content-type-options"], "nosniff",
            "{path}"
        );
    }
}

#[test]
fn playlists_are_compressed_when_asked() {
    let (server, _library) = server(&["two_hours"]);
    let main = server.get("/two_hours/hls/main.m3u8").text();
    let playlist = format!(
        "/two_hours/hls/{}",
        main.lines().last().expect("an address")
    );
    let plain = server.get(&playlist);
    assert_eq!(plain.headers.get("content-encoding"), None);
    assert_eq!(plain.headers["vary"], "Accept-Encoding");
    let packed = ask(
        &server,
        "GET",
        &playlist,
        &[("Accept-Encoding", "br, gzip")],
    );
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(
        packed.body.len() * 5 < plain.body.len(),
        "{} of {}",
        packed.body.len(),
        plain.body.len()
    );
    assert_eq!(
        packed.headers["content-length"],
        packed.body.len().to_string()
    );
    assert_eq!(packed.body[..2], [0x1f, 0x8b], "gzip");
    let refused = ask(
        &server,
        "GET",
        &playlist,
        &[("Accept-Encoding", "gzip;q=0")],
    );
    assert!(refused.body == plain.body);
}

#[test]
fn players_on_other_pages_may_read_films() {
    let (server, _library) = server(&["seeks"]);
    let page = ("Origin", "https://player.example");
    for path in [
        segments(&server, "seeks", 1).remove(1),
        "/seeks/file".into(),
        "/seeks/hls/main.m3u8".into(),
    ] {
        let asked = ask(
            &server,
            "OPTIONS",
            &path,
            &[
                page,
                ("Access-Control-Request-Method", "GET"),
                ("Access-Control-Request-Headers", "range"),
            ],
        );
        assert_eq!(asked.status, 204, "{path}");
        assert_eq!(asked.headers["access-control-allow-origin"], "*");
        assert!(asked.headers["access-control-allow-methods"].contains("GET"));
        assert!(asked.headers["access-control-allow-headers"].contains("Range"));
        let got = ask(&server, "GET", &path, &[page]);
        assert_eq!(got.headers["access-control-allow-origin"], "*");
        let exposed = &got.headers["access-control-expose-headers"];
        for header in [
            "Content-Length",
            "Content-Range",
            "ETag",
            "Accept-Ranges",
            "Retry-After",
        ] {
            assert!(exposed.contains(header), "{header} in {exposed}");
        }
    }
    let api = ask(&server, "GET", "/api/films", &[page]);
    assert_eq!(
        api.headers.get("access-control-allow-origin"),
        None,
        "the API is not theirs to read"
    );
}

#[test]
fn what_is_not_there_is_said() {
    let (server, _library) = server(&["seeks"]);
    for (path, words) in [
        ("/nothing/file", "no film 'nothing'"),
        ("/seeks/hls/9.m3u8", "no track 9"),
        ("/seeks/seg/9/init.mp4", "no track 9"),
        ("/seeks/seg/1/0.m4s", ""),
        ("/seeks/seg/1/99.m4s", "segments 1 to"),
        ("/seeks/seg/1/01.m4s", ""),
        ("/seeks", ""),
        ("/seeks/hls/main.m3u8/", ""),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains(words), "{path}: {}", answer.text());
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let answer = ask(&server, method, "/seeks/file", &[]);
        assert_eq!(answer.status, 405, "{method}");
        assert!(answer.headers["allow"].contains("GET"));
    }
    let body = ask(&server, "GET", "/seeks/file", &[("Content-Length", "5")]);
    assert_eq!(body.status, 413, "nothing takes a body");
}

#[test]
fn one_connection_serves_request_after_request_also_pipelined() {
    let (server, library) = server(&["faststart"]);
    let film = std::fs::read(library.path().join("faststart.mp4")).expect("the film");
    let mut stream = TcpStream::connect(server.http).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a timeout");
    let mut requests = String::new();
    let places: Vec<usize> = (0..50).map(|n| n * (film.len() - 100) / 50).collect();
    for place in &places {
        let (last, host) = (place + 99, server.http);
        requests += &format!(
            "GET /faststart/file HTTP/1.1\r\nHost: {host}\r\nRange: bytes={place}-{last}\r\n\r\n"
        );
    }
    stream.write_all(requests.as_bytes()).expect("requests");
    let mut reader = BufReader::new(stream);
    for place in places {
        let answer = http::read(&mut reader, false).expect("an answer");
        assert!(answer.body == film[place..place + 100], "at {place}");
    }
}

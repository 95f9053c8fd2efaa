//! The control API, metrics, health and the pages.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use reelway_skip::skipped;
use reelway_tests::films;
use reelway_tests::http::{self, Response};
use reelway_tests::server::{Options, Server};
use serde_json::{Value, json};

const FILMS: [&str; 5] = ["seeks", "languages", "rotated", "half_rate", "bunny"];

fn server() -> (Server, tempfile::TempDir) {
    let library = films::library(&FILMS);
    std::fs::write(library.path().join("broken.mp4"), "no film ".repeat(10_000)).expect("a file");
    let server = Options::new(library.path())
        .set("http.allowed_origins", "[\"https://tv.example\"]")
        .start();
    server.wait_indexed();
    (server, library)
}

fn ask(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    http::request(server.http, method, path, headers)
        .unwrap_or_else(|error| panic!("{method} {path}: {error:#}"))
}

fn titles(list: &Value) -> Vec<&str> {
    list["films"]
        .as_array()
        .expect("films")
        .iter()
        .map(|film| film["title"].as_str().expect("a title"))
        .collect()
}

#[test]
fn films_are_searched_sorted_and_paged() {
    let (server, _library) = server();
    let list = |query: &str| server.get(&format!("/api/films{query}")).json();
    let all = list("");
    assert_eq!(all["total"], 6);
    assert_eq!(
        titles(&all),
        [
            "broken",
            "bunny",
            "half_rate",
            "languages",
            "rotated",
            "seeks"
        ]
    );
    assert_eq!(titles(&list("?sort=-name"))[0], "seeks");
    assert_eq!(titles(&list("?sort=-duration"))[0], "seeks");
    assert_eq!(titles(&list("?q=BUN")), ["bunny"]);
    assert_eq!(titles(&list("?q=a+mp4+l")), ["half_rate", "languages"]);
    assert_eq!(list("?q=nothing")["total"], 0);
    let page = list("?per_page=2&page=2");
    assert_eq!(
        (&page["total"], titles(&page)),
        (&json!(6), vec!["half_rate", "languages"])
    );
    assert_eq!(titles(&list("?per_page=2&page=9")), [""; 0]);
    assert_eq!(list("?per_page=9999")["per_page"], 200);
    for wrong in ["?sort=colour", "?page=x", "?per_page=-1"] {
        let answer = server.get(&format!("/api/films{wrong}"));
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.json()["error"].is_string());
    }
}

#[test]
fn a_film_is_told_in_full() {
    let (server, _library) = server();
    let film = server.get("/api/films/bunny").json();
    assert_eq!(film["state"], "ready");
    assert_eq!(film["video"]["codec"], "avc1.64000d");
    assert_eq!(
        film["protocols"],
        json!({"rtsp": null, "hls": null, "dash": null, "file": null})
    );
    let picture = &film["tracks"][0];
    assert_eq!(picture["samples"], 238);
    assert_eq!(picture["frame_rate"], 24.0);
    assert_eq!(picture["gops"]["count"], 6);
    assert!(
        picture["gops"]["seconds"]["min"].as_f64() <= picture["gops"]["seconds"]["mean"].as_f64()
    );
    assert_eq!(film["tracks"][1]["gops"], Value::Null);
    assert_eq!(film["urls"]["hls"], "/bunny/hls/main.m3u8");
    assert_eq!(
        film["urls"]["rtsp"],
        format!("rtsp://{}/bunny", server.rtsp)
    );
    assert_eq!(
        server.get("/api/films/rotated").json()["tracks"][0]["rotation"],
        270
    );
    let languages = server.get("/api/films/languages").json();
    assert_eq!(languages["audio"].as_array().map(Vec::len), Some(3));
    assert_eq!(languages["audio"][1]["language"], "kor");
    let broken = server.get("/api/films/broken").json();
    assert!(
        broken["reason"].is_string() && broken["duration"].is_null() && broken["video"].is_null(),
        "{broken}"
    );
    let unknown = server.get("/api/films/nothing");
    assert_eq!(unknown.status, 404);
    assert!(
        unknown.json()["error"]
            .as_str()
            .is_some_and(|words| words.contains("nothing"))
    );
}

#[test]
fn every_address_the_api_tells_works() {
    let (server, _library) = server();
    for title in FILMS {
        let film = server.get(&format!("/api/films/{title}")).json();
        for protocol in ["hls", "dash", "file"] {
            let address = film["urls"][protocol].as_str().expect("an address");
            assert_eq!(server.get(address).status, 200, "{address}");
        }
    }
}

#[test]
fn the_node_tells_of_itself() {
    let (server, _library) = server();
    server.get("/bunny/hls/main.m3u8");
    let node = server.get("/api/node").json();
    assert_eq!(node["state"], "serving");
    let films = &node["films"];
    assert_eq!(
        (&films["ready"], &films["indexing"]),
        (&json!(5), &json!(0))
    );
    let others = films["not_ready"]
        .as_u64()
        .zip(films["unplayable"].as_u64());
    assert!(others.is_some_and(|(a, b)| a + b == 1), "{films}");
    assert_eq!(node["sessions"]["total"], 1);
    assert_eq!(node["sessions"]["by_protocol"], json!({"hls": 1}));
    assert_eq!(node["addresses"]["http"], format!("http://{}", server.http));
    assert_eq!(node["pool"]["bytes"], 32 << 20);
    for key in ["name", "version", "uptime", "sending", "http"] {
        assert!(!node[key].is_null(), "{key}");
    }
}

#[test]
fn events_tell_who_comes_and_goes_and_which_films_change() {
    let (server, library) = server();
    let mut stream = TcpStream::connect(server.http).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    write!(
        stream,
        "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    .expect("a request");
    let mut lines = BufReader::new(stream)
        .lines()
        .map(|line| line.expect("a line"));
    let mut next = |wanted: &str, right: &dyn Fn(&Value) -> bool| {
        let mut kind = String::new();
        for line in lines.by_ref() {
            if let Some(event) = line.strip_prefix("event: ") {
                kind = event.to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).expect("JSON");
                if kind == wanted && right(&data) {
                    return;
                }
            }
        }
        panic!("the events ended");
    };
    next("sessions", &|data| data["sessions"] == json!([]));
    next("node", &|data| data["state"] == "serving");
    server.get("/bunny/hls/main.m3u8");
    next("changes", &|data| data["added"][0]["title"] == "bunny");
    std::fs::copy(
        library.path().join("bunny.mp4"),
        library.path().join("rabbit.mp4"),
    )
    .expect("a copy");
    next("films", &|data| {
        data["changed"]
            .as_array()
            .is_some_and(|names| names.contains(&json!("rabbit")))
    });
}

#[test]
fn only_own_names_are_answered() {
    let (server, _library) = server();
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:1234", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
    ] {
        for path in ["/api/films", "/bunny/file", "/", "/metrics"] {
            let answer = ask(&server, "HEAD", path, &[("Host", host)]);
            assert_eq!(answer.status, status, "{path} of {host}");
        }
    }
    assert_eq!(
        ask(&server, "GET", "/healthz", &[("Host", "balancer")]).status,
        200,
        "probes may call it as they like"
    );
}

#[test]
fn pages_of_allowed_origins_may_use_the_api() {
    let (server, _library) = server();
    let page = ("Origin", "https://tv.example");
    let answer = ask(&server, "GET", "/api/films", &[page]);
    assert_eq!(
        answer.headers["access-control-allow-origin"],
        "https://tv.example"
    );
    let asked = ask(
        &server,
        "OPTIONS",
        "/api/sessions/x",
        &[page, ("Access-Control-Request-Method", "DELETE")],
    );
    assert_eq!(asked.status, 204);
    assert!(asked.headers["access-control-allow-headers"].contains("Authorization"));
    let bearer = format!("Bearer {}", server.token());
    let delete = |origin| {
        ask(
            &server,
            "DELETE",
            "/api/sessions/x",
            &[("Origin", origin), ("Authorization", &bearer)],
        )
    };
    assert_eq!(
        delete("https://tv.example").status,
        404,
        "allowed, but there is no such session"
    );
    assert_eq!(delete("https://evil.example").status, 403);
    let foreign = ask(
        &server,
        "OPTIONS",
        "/api/sessions/x",
        &[("Origin", "https://evil.example")],
    );
    assert_eq!(foreign.headers.get("access-control-allow-origin"), None);
}

/// Parses the exposition format; panics if its rules are broken.
fn metrics(text: &str) -> HashMap<String, f64> {
    let mut kinds: HashMap<&str, &str> = HashMap::new();
    let mut help: Vec<&str> = Vec::new();
    let mut values = HashMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help.push(rest.split(' ').next().expect("a name"));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a kind");
            assert!(kinds.insert(name, kind).is_none(), "{name} twice");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let name = series.split('{').next().expect("a name");
            let family = ["_bucket", "_sum", "_count"]
                .into_iter()
                .filter_map(|suffix| name.strip_suffix(suffix))
                .find(|family| matches!(kinds.get(family), Some(&"histogram" | &"summary")))
                .unwrap_or(name);
            assert!(
                kinds.contains_key(family) && help.contains(&family),
                "{name} has no TYPE or HELP"
            );
            // Metrics that every program exports have the names of Prometheus' client libraries.
            assert!(
                name.starts_with("reelway_") || name.starts_with("process_"),
                "{name}"
            );
            assert_eq!(
                kinds[family] == "counter",
                name.ends_with("_total"),
                "{name}"
            );
            assert!(
                !name.contains("_ms") && !name.contains("bits"),
                "base units: {name}"
            );
            let value: f64 = value.parse().expect("a number");
            assert!(
                values.insert(series.to_owned(), value).is_none(),
                "{series} twice"
            );
        }
    }
    values
}

#[test]
fn metrics_follow_prometheus_rules_and_count() {
    let (server, _library) = server();
    let before = metrics(&server.get("/metrics").text());
    let body = server.get("/bunny/file").body.len() as f64;
    server.get("/nothing/file");
    let answer = server.get("/metrics");
    assert!(answer.headers["content-type"].starts_with("text/plain; version=0.0.4"));
    let after = metrics(&answer.text());
    let grown = |series: &str| after[series] - before.get(series).copied().unwrap_or(0.0);
    assert_eq!(
        grown("reelway_http_requests_total{route=\"file\",code=\"200\"}"),
        1.0
    );
    assert_eq!(
        grown("reelway_http_requests_total{route=\"file\",code=\"404\"}"),
        1.0
    );
    assert_eq!(
        grown("reelway_http_first_byte_seconds_count{route=\"file\"}"),
        2.0
    );
    assert!(grown("reelway_http_sent_bytes_total") > body);
    assert_eq!(after["reelway_films{state=\"ready\"}"], 5.0);
    assert_eq!(
        after["reelway_sessions{protocol=\"file\",state=\"playing\"}"],
        1.0
    );
    assert_eq!(after["reelway_state{state=\"serving\"}"], 1.0);
    assert_eq!(after["reelway_pool_bytes"], f64::from(32 << 20));
}

#[test]
fn the_page_is_served_and_keeps_to_itself() {
    let (server, _library) = server();
    let page = server.get("/");
    assert_eq!(page.status, 200);
    assert!(page.headers["content-type"].starts_with("text/html"));
    let policy = &page.headers["content-security-policy"];
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("http") && !policy.contains('*'),
        "{policy}"
    );
    assert_eq!(page.headers["referrer-policy"], "no-referrer");
    let text = page.text();
    let parts = text.split('"').filter(|word| word.starts_with("assets/"));
    let addresses: Vec<String> = parts.map(|part| format!("/{part}")).collect();
    if addresses.is_empty() {
        skipped!("the pages were not built before the server");
    }
    for address in &addresses {
        let part = server.get(address);
        assert_eq!(part.status, 200, "{address}");
        assert!(
            part.headers["cache-control"].contains("immutable"),
            "{address}"
        );
        let again = ask(
            &server,
            "GET",
            address,
            &[("If-None-Match", &part.headers["etag"])],
        );
        assert_eq!(again.status, 304, "{address}");
        let packed = ask(&server, "GET", address, &[("Accept-Encoding", "gzip")]);
        assert!(
            packed.body.len() < part.body.len() || part.body.len() < 200,
            "{address}"
        );
        assert_ne!(
            packed.headers.get("etag"),
            part.headers
                .get("etag")
                .filter(|_| packed.body.len() < part.body.len())
        );
    }
    assert_eq!(server.get("/nowhere").status, 404);
    assert_eq!(server.get("/api/nowhere").status, 404);
    assert!(server.get("/api/nowhere").json()["error"].is_string());
    assert_eq!(ask(&server, "POST", "/", &[]).status, 405);
}

#[test]
fn a_server_with_a_limited_network_says_what_it_carries_and_what_is_left() {
    let library = films::library(&["seeks"]);
    let capacity = |limit: &str| {
        let server = Options::new(library.path())
            .set("capacity.net", format!("'{limit}'"))
            .set("capacity.headroom", 10)
            .start();
        server.wait_indexed();
        let said = ask(&server, "GET", "/readyz", &[]).headers;
        said.get("reelway-capacity").cloned()
    };
    // 80 Mbit/s are 10 MB per second, a tenth of which stays free.
    let said = capacity("80Mbit");
    assert_eq!(said.as_deref(), Some("total=9000000, free=9000000"));
    assert_eq!(capacity("none"), None);
}

//! The cache policy in a running server: what it learns about viewers determines what it keeps.

use std::fs;
use std::time::Duration;

use reelway_tests::films::{self, temp_dir};
use reelway_tests::http;
use reelway_tests::rtsp::Client;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

const BLOCK: u64 = 64 << 10;
/// Blocks of the pool.
const POOL: u64 = 32;

/// Starts a server of three two-hour films, a block of which plays for two minutes: other work of
/// the machine moves no viewer by much.
fn server(policy: &str) -> (Server, tempfile::TempDir) {
    let dir = temp_dir("library");
    let film = films::film("two_hours").path;
    fs::hard_link(&film, dir.path().join("kept.mp4")).expect("a link");
    for other in ["second.mp4", "third.mp4"] {
        fs::copy(&film, dir.path().join(other)).expect("a copy");
    }
    let server = Options::new(dir.path())
        .set("pool.policy", format!("\"{policy}\""))
        .set("pool.block", BLOCK)
        .set("pool.size", POOL * BLOCK)
        .set("http.ahead", 3600)
        .start();
    server.wait_indexed();
    (server, dir)
}

/// Fetches blocks of a film's file, one after the other, as the user agent `agent`.
fn fetch(server: &Server, title: &str, agent: &str, blocks: std::ops::Range<u64>) {
    for block in blocks {
        let range = format!("bytes={}-{}", block * BLOCK, (block + 1) * BLOCK - 1);
        let headers = [("Range", range.as_str()), ("User-Agent", agent)];
        let answer = http::request(server.http, "GET", &format!("/{title}/file"), &headers);
        assert_eq!(answer.expect("an answer").status, 206);
    }
}

fn misses(server: &Server) -> u64 {
    let node = server.get("/api/node").json();
    node["pool"]["misses"].as_u64().expect("a number")
}

/// The number of viewers whose positions the policy knows.
fn viewers(server: &Server) -> u64 {
    let text = server.get("/metrics").text();
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix("reelway_cache_viewers "));
    number.expect("the metric").parse().expect("a number")
}

/// The time in seconds at which block 20 of the film begins.
fn place(server: &Server) -> f64 {
    let film = server.get("/api/films/kept").json();
    let number = |name: &str| film[name].as_f64().expect(name);
    number("duration") * 20.0 * BLOCK as f64 / number("size")
}

/// Returns how many of eight blocks of a film had to be read again after other viewers, with as
/// many requests, needed room.
fn misses_after_others(policy: &str) -> u64 {
    let (server, _dir) = server(policy);
    fetch(&server, "kept", "one who goes before", 20..32);
    fetch(&server, "kept", "a player", 20..21);
    fetch(&server, "second", "one who needs room", 32..32 + 20);
    fetch(&server, "third", "another", 40..40 + POOL - 20);
    let before = misses(&server);
    fetch(&server, "kept", "one who looks", 23..31);
    misses(&server) - before
}

#[test]
fn blocks_ahead_of_a_viewer_are_kept_as_the_least_recently_used_are_not() {
    assert_eq!(misses_after_others("timetable"), 0);
    assert_eq!(misses_after_others("lru"), 8);
}

/// Begins to watch over RTSP.
fn plays(server: &Server, url: &str) -> Client {
    let mut client = Client::connect(server.rtsp).expect("a connection");
    client.setup_tcp(url).expect("SETUP");
    let range = format!("npt={:.1}-", place(server));
    let answer = client.request("PLAY", url, &[("Range", &range)]);
    assert_eq!(answer.expect("an answer").status, 200);
    client
}

#[test]
fn the_policy_knows_an_rtsp_viewer_while_they_watch() {
    let (server, _dir) = server("timetable");
    assert_eq!(viewers(&server), 0);
    let url = server.rtsp_url("kept");
    let mut client = plays(&server, &url);
    assert_eq!(viewers(&server), 1);
    let answer = client.request("TEARDOWN", &url, &[]).expect("an answer");
    assert_eq!(answer.status, 200);
    let gone = wait::until(Duration::from_secs(20), || {
        (viewers(&server) == 0).then_some(())
    });
    assert!(gone.is_some(), "the viewer has left");
}

#[test]
fn the_policy_knows_a_viewer_of_the_file_and_one_of_hls() {
    let (server, _dir) = server("timetable");
    fetch(&server, "kept", "a player", 20..21);
    assert_eq!(viewers(&server), 1);
    let main = server.get("/kept/hls/main.m3u8").text();
    let words: Vec<&str> = main.split(['"', '\n']).collect();
    let playlist = words.iter().rfind(|word| word.contains(".m3u8?"));
    let playlist = playlist.expect("a playlist");
    let text = server.get(&format!("/kept/hls/{playlist}")).text();
    let segments: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let target = 7200.0 / segments.len() as f64;
    let segment = segments[(place(&server) / target) as usize].trim_start_matches("../");
    assert_eq!(server.get(&format!("/kept/{segment}")).status, 200);
    assert_eq!(viewers(&server), 2);
}

#[test]
fn the_api_shows_what_of_a_film_is_in_memory_who_watches_it_and_what_other_policies_would_have_had()
{
    let (server, _dir) = server("timetable");
    let cache = || server.get("/api/cache").json();
    assert_eq!(cache()["films"], serde_json::json!([]));

    // Two viewers, one over HTTP and one over RTSP from the same position.
    fetch(&server, "kept", "a player", 20..24);
    let url = server.rtsp_url("kept");
    let _client = plays(&server, &url);

    let seen = cache();
    let film = &seen["films"][0];
    assert_eq!(film["title"], "kept");
    let size = film["size"].as_u64().expect("bytes");
    let viewers: Vec<f64> = serde_json::from_value(film["viewers"].clone()).expect("places");
    let there = (20 * BLOCK) as f64 / size as f64;
    assert_eq!(viewers.len(), 2, "{viewers:?}");
    // A block plays for two minutes, and the positions of both players advance with the clock.
    let is_near = |place: &f64| (place - there).abs() < 2.0 * BLOCK as f64 / size as f64;
    assert!(viewers.iter().all(is_near), "{viewers:?}, not {there}");
    let map: Vec<u8> = serde_json::from_value(film["map"].clone()).expect("a map");
    assert_eq!(map.len() as u64, size.div_ceil(BLOCK));
    assert_eq!(map[20..24], [100; 4], "{map:?}");
    assert_eq!((map[2], map[50]), (0, 0), "{map:?}");
    let held = map.iter().filter(|part| **part > 0).count() as u64;
    assert_eq!(film["held"].as_u64(), Some(held * BLOCK));
    assert_eq!(film["hit_ratio"], serde_json::Value::Null);
    let disk = &seen["disks"][0];
    assert!(disk["reads"].as_u64() >= Some(4), "{disk}");
    assert!(disk["p99_ms"].as_f64() > Some(0.0), "{disk}");
    for name in ["read", "sent", "used"] {
        assert!(seen[name].as_u64() >= Some(4 * BLOCK), "{name}: {seen}");
    }
    assert_eq!(
        seen["compared"],
        serde_json::Value::Null,
        "too few requests"
    );

    // One client loops over more than the pool holds until there are enough requests.
    for _ in 0..24 {
        for blocks in [0..24, 30..50] {
            let range = format!("bytes={}-{}", blocks.start * BLOCK, blocks.end * BLOCK - 1);
            let headers = [("Range", range.as_str()), ("User-Agent", "a looper")];
            let answer = http::request(server.http, "GET", "/third/file", &headers);
            assert_eq!(
                answer.expect("an answer").body.len() as u64,
                (blocks.end - blocks.start) * BLOCK
            );
        }
    }
    let compared = wait::until(Duration::from_secs(30), || {
        Some(cache()).filter(|cache| cache["compared"].is_object())
    });
    let seen = compared.expect("a comparison");
    let of = |name: &str| seen["compared"][name].as_f64().expect(name);
    assert!(of("requests") > 500.0, "{seen}");
    assert!(
        of("lru") < of("belady") && of("ons") <= of("belady"),
        "{seen}"
    );
    // At the beginning, the real cache was full and the simulated ones were empty: a difference of
    // up to a pool of hits.
    let slack = POOL as f64 / of("requests");
    assert!(
        of("this") <= of("belady") + slack && of("this") > of("lru"),
        "{seen}"
    );
    let films = seen["films"].as_array().expect("films");
    let looped = films.iter().find(|film| film["title"] == "third");
    let ratio = looped.and_then(|film| film["hit_ratio"].as_f64());
    assert!(
        ratio.is_some_and(|ratio| (ratio - of("this")).abs() < 0.2),
        "{seen}"
    );
    let metrics = server.get("/metrics").text();
    for name in [
        "reelway_device_read_seconds{device=",
        "reelway_cache_hit_ratio{policy=\"belady\"}",
        "reelway_cache_compare_cpu_seconds_total",
    ] {
        assert!(metrics.contains(name), "{name}");
    }
}

//! The cache policy in a running server: what it is told of viewers shows in what it keeps.
//!
//! In a film of which a block plays for an eighth of a second, blocks lie behind a viewer and ahead of him.
//! Others need room that only these can make. Who is ahead by a second or two comes before anybody new.

use std::fs;
use std::time::Duration;

use reelway_tests::films::{self, temp_dir};
use reelway_tests::http;
use reelway_tests::rtsp::Client;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait::Deadline;

const BLOCK: u64 = 64 << 10;
/// Blocks of the pool.
const POOL: u64 = 32;
/// Where the viewer is.
const PLACE: u64 = 12;

fn server(policy: &str) -> (Server, tempfile::TempDir) {
    let dir = temp_dir("library");
    let film = films::film("load").path;
    fs::hard_link(&film, dir.path().join("kept.mp4")).expect("a link");
    fs::copy(&film, dir.path().join("other.mp4")).expect("a copy");
    let server = Options::new(dir.path())
        .set("pool.policy", format!("\"{policy}\""))
        .set("pool.block", BLOCK)
        .set("pool.size", POOL * BLOCK)
        .set("http.ahead", 3600)
        .start();
    server.wait_indexed();
    (server, dir)
}

/// Someone called `agent` fetches blocks of a film's file, one after the other.
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

/// How many of ten blocks, from the `ahead`th on before a viewer, had to be read anew after others needed
/// room for so many blocks.
fn misses_ahead<T>(policy: &str, ahead: u64, room: u64, viewer: impl FnOnce(&Server) -> T) -> u64 {
    let (server, _dir) = server(policy);
    let blocks = PLACE + ahead..PLACE + ahead + 10;
    // Ahead first, so that these are the longest unused; then who read them goes on to far ahead.
    fetch(&server, "kept", "reader", blocks.clone());
    fetch(&server, "kept", "reader", 0..10);
    fetch(&server, "kept", "reader", 300..301);
    let viewer = viewer(&server);
    // Of the other film nothing can go: somebody is right behind.
    fetch(&server, "other", "follower", 0..1);
    fetch(&server, "other", "leader", 1..1 + room);
    let before = misses(&server);
    fetch(&server, "kept", "one who looks", blocks.clone());
    let misses = misses(&server) - before;
    drop(viewer);
    misses
}

#[test]
fn without_knowing_viewers_the_blocks_ahead_of_one_make_room() {
    let viewer = |server: &Server| fetch(server, "kept", "a player", PLACE..PLACE + 1);
    assert!(misses_ahead("lru", 3, 16, viewer) > 0);
}

#[test]
fn blocks_ahead_of_nobody_make_room_from_the_last_on() {
    assert!(misses_ahead("timetable", 3, 16, |_| ()) > 0);
}

#[test]
fn blocks_ahead_of_one_who_reads_the_file_are_kept() {
    let viewer = |server: &Server| fetch(server, "kept", "a player", PLACE..PLACE + 1);
    assert_eq!(misses_ahead("timetable", 3, 16, viewer), 0);
}

#[test]
fn blocks_ahead_of_an_rtsp_viewer_are_kept() {
    // He goes on by himself: where the machine stood still meanwhile he may have passed them, and nothing
    // is shown. They are five seconds ahead of him. What is being sent to him needs room too.
    for _ in 0..10 {
        let mut in_time = Deadline::after(Duration::ZERO);
        let misses = misses_ahead("timetable", 40, 8, |server| {
            let film = server.get("/api/films/kept").json();
            let number = |name: &str| film[name].as_f64().expect(name);
            let place = number("duration") * PLACE as f64 * BLOCK as f64 / number("size");
            let url = server.rtsp_url("kept");
            let mut client = Client::connect(server.rtsp).expect("a connection");
            client.setup_tcp(&url).expect("SETUP");
            in_time = Deadline::after(Duration::from_secs(2));
            let range = format!("npt={place:.1}-");
            let answer = client.request("PLAY", &url, &[("Range", &range)]);
            assert_eq!(answer.expect("an answer").status, 200);
            client
        });
        if !in_time.over() {
            return assert_eq!(misses, 0);
        }
    }
    eprintln!("the machine is too busy to show it");
}

//! Recordings that grow on one Reelway, played through an edge of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_tests::elsewhere::{Spoil, Spoiler};
use reelway_tests::films::{self, film};
use reelway_tests::recording::{Recording, SECONDS, duration, packets, playlist, segments};
use reelway_tests::server::{Options, Server};
use reelway_tests::{http, tier, wait};

/// The block size of an edge in bytes.
const BLOCK: u64 = 64 << 10;
/// How much is written at a time while a player plays.
const PIECE: usize = 2 << 10;
/// How much is written at a time just to show growth.
const LITTLE: usize = 188;
/// The time limit until an edge has what its origin has.
const LIMIT: Duration = Duration::from_secs(90);

/// Starts the server that has the recording.
fn origin(recording: &Recording, state: &Path) -> Server {
    let origin = Options::new(recording.dir())
        .state(state)
        .set("http.segment", 2)
        .set("http.ahead", 3600)
        .start();
    origin.wait_indexed();
    origin
}

/// Starts an edge of the server at this address, with small blocks.
fn edge(origin: SocketAddr, state: &Path) -> Server {
    let edge = Options::edge(&format!("http://{origin}/"))
        .state(state)
        .flag("--tier", "64MiB")
        .set("http.segment", 2)
        .set("http.ahead", 3600)
        .set("pool.size", "'16MiB'")
        .set("pool.block", "'64KiB'")
        .start();
    edge.wait_indexed();
    edge
}

/// The requests to a server: paths, and first bytes of ranges.
type Asked = Arc<Mutex<Vec<(String, Option<u64>)>>>;

/// Starts a proxy between an edge and the server at this address, which records requests.
fn front(origin: SocketAddr) -> (Spoiler, Asked) {
    let front = Spoiler::of(origin);
    let asked = Asked::default();
    let noted = asked.clone();
    front.spoil(move |path, first| {
        let mut noted = noted.lock().expect("a list");
        noted.push((path.to_owned(), first));
        Spoil::Not
    });
    (front, asked)
}

/// Counts how often each block of the recording was fetched, by block number. The first block is
/// left out: its bytes also show the version, and they are rewritten in some kinds of files.
fn fetched(asked: &Asked) -> BTreeMap<u64, usize> {
    let asked = asked.lock().expect("a list");
    let mut count = BTreeMap::new();
    for (path, first) in asked.iter() {
        if let (true, Some(first @ 1..)) = (path.ends_with("/file"), first) {
            *count.entry(first / BLOCK).or_default() += 1;
        }
    }
    count
}

fn indexes(asked: &Asked) -> usize {
    let asked = asked.lock().expect("a list");
    let is_index = |(path, _): &&(String, _)| path.ends_with("/index");
    asked.iter().filter(is_index).count()
}

/// Waits until an edge has indexed everything that is written of the recording.
#[track_caller]
fn has_all(edge: &Server, recording: &Recording) {
    let is_whole = || {
        let film = edge.get("/api/films/recording").json();
        (film["size"].as_u64() == Some(recording.there as u64)).then_some(())
    };
    let has = wait::until(LIMIT, is_whole);
    assert!(has.is_some(), "{}\n{}", recording.there, edge.log());
}

#[track_caller]
fn body(server: &Server, address: &str) -> Vec<u8> {
    let answer = server.get(address);
    assert_eq!(answer.status, 200, "{address}: {}", answer.text());
    answer.body
}

/// Waits until the playlist at an address shows that the recording has ended, and returns it.
#[track_caller]
fn ended(server: &Server, address: &str) -> String {
    let ended = wait::until(LIMIT, || {
        let text = server.get(address).text();
        text.contains("#EXT-X-ENDLIST").then_some(text)
    });
    ended.unwrap_or_else(|| panic!("the recording ends: {}", server.log()))
}

fn a_recording_grows_at_an_edge_as_at_its_origin(extension: &str) {
    let mut recording = Recording::begin(extension);
    let (state, own) = (films::temp_dir("origin"), films::temp_dir("edge"));
    let origin = origin(&recording, state.path());
    let (front, asked) = front(origin.http);
    let edge = edge(front.at, own.path());
    // A viewer plays everything there is.
    let address = playlist(&edge);
    let had = segments(&edge.get(&address).text());
    had.iter().for_each(|segment| drop(body(&edge, segment)));
    let mut ends = vec![recording.there];

    recording.grow(recording.whole.len() / 6);
    let early = recording.grow_until(LIMIT, LITTLE, || {
        let text = edge.get(&address).text();
        let is_longer = segments(&text).len() > had.len() + 1;
        (is_longer && text.contains("#EXT-X-PLAYLIST-TYPE:EVENT")).then_some(text)
    });
    let early = early.unwrap_or_else(|| panic!("it grows: {}", edge.log()));
    assert!(!early.contains("#EXT-X-ENDLIST"), "{early}");
    assert!(segments(&early).starts_with(&had[..had.len() - 1]));
    let manifest = recording.grow_until(LIMIT, LITTLE, || {
        let text = edge.get("/recording/dash/main.mpd").text();
        text.contains("type=\"dynamic\"").then_some(())
    });
    assert!(manifest.is_some(), "{}", edge.log());
    has_all(&edge, &recording);
    ends.push(recording.there);
    let before = segments(&early);
    let bodies: Vec<Vec<u8>> = before.iter().map(|one| body(&edge, one)).collect();

    recording.grow(usize::MAX);
    has_all(&edge, &recording);
    ends.push(recording.there);
    let text = ended(&edge, &address);
    assert!(text.contains("#EXT-X-PLAYLIST-TYPE:VOD"), "{text}");
    assert!(segments(&text).starts_with(&before));
    for (address, bytes) in before.iter().zip(&bodies) {
        assert!(body(&edge, address) == *bytes, "{address}");
    }
    let manifest = edge.get("/recording/dash/main.mpd").text();
    assert!(manifest.contains("type=\"static\""), "{manifest}");
    let played = packets(&edge.http_url("recording/hls/main.m3u8"), &[]);
    assert_eq!(played, recording.packets());
    let log = edge.log();
    assert!(!log.contains("replaced"), "{log}");

    // Each block was fetched once, except for those in which the recording temporarily ended.
    let cut: Vec<u64> = ends.iter().map(|end| *end as u64 / BLOCK).collect();
    let count = fetched(&asked);
    assert!(
        count.len() as u64 >= recording.there as u64 / BLOCK / 2,
        "{count:?}"
    );
    let again = |(block, times): &(&u64, &usize)| **times > 1 && !cut.contains(block);
    let again: Vec<_> = count.iter().filter(again).collect();
    assert!(again.is_empty(), "{again:?}, ends {cut:?}");
    // Whatever viewers request, the edge does not request the index again.
    let before = indexes(&asked);
    for _ in 0..30 {
        assert_eq!(edge.get(&playlist(&edge)).status, 200);
    }
    assert_eq!(indexes(&asked), before);
    assert!(edge.get("/recording/file").body == recording.whole);

    // A different file in its place is a different film.
    let other = std::fs::read(film("transport").path).expect("another");
    std::fs::write(&recording.path, other).expect("it");
    let segment = &segments(&text)[0];
    let gone = wait::until(LIMIT, || {
        // An answer in progress is broken off when the film is replaced.
        let answer = http::get(edge.http, segment).ok()?;
        (answer.status == 410).then_some(())
    });
    assert!(gone.is_some(), "{}", edge.log());
}

#[test]
fn a_transport_stream_grows_at_an_edge_as_at_its_origin() {
    a_recording_grows_at_an_edge_as_at_its_origin("ts");
}

#[test]
fn a_matroska_file_grows_at_an_edge_as_at_its_origin() {
    a_recording_grows_at_an_edge_as_at_its_origin("mkv");
}

#[test]
fn a_fragmented_mp4_grows_at_an_edge_as_at_its_origin() {
    a_recording_grows_at_an_edge_as_at_its_origin("mp4");
}

#[test]
fn ffmpeg_follows_a_recording_over_hls_through_two_edges_until_it_ends() {
    let mut recording = Recording::begin("ts");
    let states = [0; 3].map(|_| films::temp_dir("state"));
    let origin = origin(&recording, states[0].path());
    let near = edge(origin.http, states[1].path());
    let edge = edge(near.http, states[2].path());
    let address = playlist(&edge);
    let noticed = recording.grow_until(LIMIT, PIECE, || {
        let text = edge.get(&address).text();
        text.contains("#EXT-X-PLAYLIST-TYPE:EVENT").then_some(())
    });
    assert!(noticed.is_some(), "{}", edge.log());
    let url = edge.http_url("recording/hls/main.m3u8");
    let played = std::thread::scope(|scope| {
        let player = scope.spawn(|| packets(&url, &["-live_start_index", "0"]));
        let ended = recording.grow_until(SECONDS * 4, PIECE, || player.is_finished().then_some(()));
        assert!(ended.is_some(), "the player goes on");
        player.join().expect("the player")
    });
    assert_eq!(recording.there, recording.whole.len());
    assert_eq!(played, recording.packets());
}

#[test]
fn a_viewer_over_rtsp_at_an_edge_gets_a_recording_up_to_where_it_ended_when_they_came() {
    let mut recording = Recording::begin("ts");
    let (state, own) = (films::temp_dir("origin"), films::temp_dir("edge"));
    let origin = origin(&recording, state.path());
    let edge = edge(origin.http, own.path());
    let had = edge.get("/api/films/recording").json();
    let pictures = had["tracks"][0]["samples"].as_u64().expect("its pictures") as usize;
    let before = duration(&edge);
    let url = edge.rtsp_url("recording");
    let played = std::thread::scope(|scope| {
        let player = scope.spawn(|| packets(&url, &["-rtsp_transport", "tcp"]));
        // The recording grows all the time.
        let ended = recording.grow_until(SECONDS * 3, PIECE, || player.is_finished().then_some(()));
        assert!(ended.is_some(), "the player goes on");
        player.join().expect("the player")
    });
    assert!(
        (pictures - 2..=pictures).contains(&played),
        "{played} of {pictures}: {}",
        edge.log()
    );
    assert!(duration(&edge) > before, "{}", edge.log());
}

#[test]
fn an_origin_and_an_edge_that_start_again_go_on_with_a_recording() {
    let mut recording = Recording::begin("ts");
    let (state, own) = (films::temp_dir("origin"), films::temp_dir("edge"));
    let first = origin(&recording, state.path());
    let (front, asked) = front(first.http);
    let at_edge = edge(front.at, own.path());
    tier::fill(
        &at_edge,
        "/recording/file",
        &recording.whole[..recording.there],
    );
    let address = playlist(&at_edge);
    let had = segments(&at_edge.get(&address).text());

    // The origin restarts, and meanwhile the recording grows.
    let _ports = first.into_ports();
    recording.grow(recording.whole.len() / 3);
    let cut = recording.there as u64 / BLOCK;
    let second = origin(&recording, state.path());
    front.leads_to(second.http);
    has_all(&at_edge, &recording);
    let text = at_edge.get(&address).text();
    assert!(segments(&text).starts_with(&had[..had.len() - 1]), "{text}");
    assert_eq!(at_edge.get(&had[0]).status, 200);
    let log = at_edge.log();
    assert!(!log.contains("replaced"), "{log}");

    // The edge restarts, too.
    drop(at_edge);
    recording.grow(usize::MAX);
    let before = fetched(&asked);
    let edge = edge(front.at, own.path());
    has_all(&edge, &recording);
    assert!(edge.get("/recording/file").body == recording.whole);
    assert_eq!(edge.get(&had[0]).status, 200);
    // Blocks in the tier were read from there.
    let there = recording.whole.len() as u64 / 3 / BLOCK;
    let count = fetched(&asked);
    let again = (1..there).filter(|block| count.get(block) != before.get(block));
    assert_eq!(again.count(), 0, "{before:?} {count:?} {cut}");
}

//! Packets are counted in the background: as many as viewers over RTSP get. The numbers are kept
//! across restarts, and edges have them.

use std::path::Path;
use std::time::Duration;

use reelway_tests::films::{library, temp_dir};
use reelway_tests::rtsp::{Client, Rtp, rtcp_packets};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

/// Films of five seconds: pictures in one unit and in several, small ones that share packets,
/// containers with and without a view.
const FILMS: [&str; 9] = [
    "baseline",
    "hvc1",
    "matroska_hevc_opus",
    "matroska_vp9_opus",
    "mpeg2",
    "program",
    "small_slices",
    "transport_dolby",
    "transport_mpeg2",
];

const SECONDS: Duration = Duration::from_secs(60);

/// A server that counts the packets of these films once they have not changed for a second.
fn server(films: &Path, state: &Path) -> Options {
    Options::new(films)
        .state(state)
        .set("index.packets_after", 1)
}

/// For each track of a film over RTP: the largest payload of a packet in bytes, the number of
/// packets, and their payload bytes in all. `None` if some track has not been counted.
fn counted(server: &Server, film: &str) -> Option<Vec<[u64; 3]>> {
    let film = server.get(&format!("/api/films/{film}")).json();
    let tracks = film["tracks"].as_array().expect("tracks");
    assert!(!tracks.is_empty(), "{film}");
    let packets = |track: &serde_json::Value| {
        let packets = track["packets"].as_object()?;
        let number = |key: &str| packets[key].as_u64().expect("a number");
        Some(["payload", "count", "bytes"].map(number))
    };
    tracks.iter().map(packets).collect()
}

fn wait_counted(server: &Server, film: &str) -> Vec<[u64; 3]> {
    wait::until(SECONDS, || counted(server, film))
        .unwrap_or_else(|| panic!("{film} is not counted: {}", server.log()))
}

/// Plays a film to its end, and returns the payloads of all packets of each track.
fn played(server: &Server, film: &str) -> Vec<Vec<Vec<u8>>> {
    let url = server.rtsp_url(film);
    let mut viewer = Client::connect(server.rtsp).expect("the server");
    let tracks = viewer.setup_tcp(&url).expect("SETUP");
    let answer = viewer.request("PLAY", &url, &[]).expect("PLAY");
    assert_eq!(answer.status, 200, "{film}: {answer:?}");
    let mut payloads = vec![Vec::new(); tracks];
    let mut ended = vec![false; tracks];
    while ended.contains(&false) {
        let frame = viewer.frame(Duration::from_secs(20)).expect("a frame");
        let frame = frame.unwrap_or_else(|| panic!("{film}: no packet, and no end"));
        let track = usize::from(frame.channel / 2);
        if frame.channel % 2 == 1 {
            let reports = rtcp_packets(&frame.data).expect("RTCP");
            ended[track] |= reports.iter().any(|(kind, _)| *kind == 203);
            continue;
        }
        let packet = Rtp::parse(&frame.data).expect("RTP");
        payloads[track].push(packet.payload.to_vec());
    }
    payloads
}

#[test]
fn as_many_packets_are_counted_as_viewers_get() {
    let (films, state) = (library(&FILMS), temp_dir("state-"));
    let server = server(films.path(), state.path()).start();
    server.wait_indexed();
    std::thread::scope(|scope| {
        for film in FILMS {
            let server = &server;
            scope.spawn(move || {
                let counted = wait_counted(server, film);
                let played = played(server, film);
                assert_eq!(counted.len(), played.len(), "{film}");
                for (track, ([payload, count, bytes], played)) in
                    counted.iter().zip(&played).enumerate()
                {
                    assert!(played.iter().all(|one| one.len() as u64 <= *payload));
                    // Parameter sets are sent before the first picture; they are not part of any
                    // group.
                    let extra = played.len() as u64 - count;
                    assert!(extra <= 1, "{film}, track {track}: {extra} packets more");
                    let of_groups = played.iter().skip(extra as usize);
                    let sum: usize = of_groups.map(Vec::len).sum();
                    assert_eq!(sum as u64, *bytes, "{film}, track {track}");
                }
            });
        }
    });
}

#[test]
fn what_was_counted_is_kept_and_is_counted_anew_for_other_packets() {
    let (films, state) = (library(&["small_slices"]), temp_dir("state-"));
    let first = {
        let server = server(films.path(), state.path()).start();
        server.wait_indexed();
        wait_counted(&server, "small_slices")
    };
    // They are there from the first moment on, even if nothing is counted any more.
    let restarted = Options::new(films.path())
        .state(state.path())
        .set("index.packets_after", 0)
        .start();
    assert_eq!(counted(&restarted, "small_slices").as_ref(), Some(&first));
    drop(restarted);
    let smaller = server(films.path(), state.path())
        .set("rtp.mtu", 600)
        .start();
    let again = wait::until(SECONDS, || {
        let counted = counted(&smaller, "small_slices")?;
        (counted != first).then_some(counted)
    });
    let again = again.unwrap_or_else(|| panic!("not counted anew: {}", smaller.log()));
    for (first, again) in first.iter().zip(&again) {
        assert!(
            again[0] < first[0] && again[1] > first[1],
            "{first:?} {again:?}"
        );
    }
}

#[test]
fn an_edge_knows_what_its_origin_has_counted() {
    let (films, state) = (library(&["transport_mpeg2"]), temp_dir("state-"));
    let origin = server(films.path(), state.path()).start();
    origin.wait_indexed();
    let there = wait_counted(&origin, "transport_mpeg2");
    let edge = Options::edge(&origin.http_url("/")).start();
    edge.wait_indexed();
    assert_eq!(counted(&edge, "transport_mpeg2"), Some(there));
}

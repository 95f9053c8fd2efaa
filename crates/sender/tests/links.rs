//! Streams on a limited link: together they never exceed the link's rate, and nothing is lost.

mod common;

use std::time::Duration;

use common::*;
use reelway_sender::{LinkConfig, SenderConfig, StreamKind};

/// Bytes on the wire besides a packet's RTP: UDP, IP and Ethernet.
const AROUND: u64 = 8 + 20 + 38;

/// Plays a film of 4 Mbit/s to four viewers at once; returns arrival time (ns) and bytes on the
/// wire of each packet.
fn four_viewers(
    film: &TestFilm,
    change: impl FnOnce(&mut SenderConfig),
    links: &[u8],
) -> Vec<(u64, u64)> {
    let store = store();
    let sender = sender(&store, change);
    let viewers: [Viewer; 4] = std::array::from_fn(|_| Viewer::default());
    let handles: Vec<_> = viewers
        .iter()
        .map(|viewer| {
            let mut stream = viewer.stream(film, &store, 0, None);
            if let StreamKind::Film(film) = &mut stream.what {
                film.links = links.to_vec();
            }
            sender.play(stream)
        })
        .collect();
    for handle in &handles {
        block(handle.ready()).expect("a beginning");
    }
    handles.iter().for_each(|handle| handle.go());
    let mut came = Vec::new();
    for (viewer, handle) in viewers.iter().zip(&handles) {
        viewer.gets_everything(handle);
        let (video, audio) = (viewer.video.packets(), viewer.audio.packets());
        assert_whole(&video, VIDEO_SEQ);
        assert_whole_film(film, &video, &audio);
        let times: Vec<u64> = video.iter().chain(&audio).map(|packet| packet.at).collect();
        assert_bursts(&times, 8);
        let of = |packet: &Got| (packet.at, packet.payload.len() as u64 + 12 + AROUND);
        came.extend(video.iter().chain(&audio).map(of));
    }
    came.sort_unstable();
    came
}

/// Returns the most bytes that arrived within any period of length `time`.
fn most_within(came: &[(u64, u64)], time: Duration) -> u64 {
    let span = time.as_nanos() as u64;
    let (mut sum, mut most, mut first) = (0, 0, 0);
    for (at, bytes) in came {
        sum += bytes;
        while came[first].0 + span <= *at {
            sum -= came[first].1;
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

#[test]
fn pictures_that_coincide_are_spread_over_the_time_that_the_link_needs() {
    let film = TestFilm::make(4, 4000);
    let tenth = Duration::from_millis(100);
    let free = most_within(&four_viewers(&film, |_| {}, &[]), tenth);
    // Slightly above the film's mean rate: four times 4 Mbit/s, with headers.
    let rate = 2_400_000;
    let limited = four_viewers(
        &film,
        |config| {
            config.links = vec![LinkConfig {
                number: 3,
                rate,
                queue: Duration::from_millis(20),
            }];
        },
        &[3],
    );
    // The queue, and what a thread may add that was delayed between asking and sending.
    let may = rate * (100 + 20 + 40) / 1000;
    let most = most_within(&limited, tenth);
    assert!(most <= may, "{most} bytes within 100 ms, {may} allowed");
    assert!(free > may, "without the pacer there would be {free}");
    // Sent at most a second ahead after a 300 ms delay, the film's four seconds take more than
    // three.
    let took = limited.last().unwrap().0 - limited.first().unwrap().0;
    assert!(took >= 3_200_000_000, "{took} ns");
}

#[test]
fn a_stream_that_names_no_limited_link_is_not_paced() {
    let film = TestFilm::make(2, 4000);
    let slow = |config: &mut SenderConfig| {
        config.links = vec![LinkConfig {
            number: 0,
            rate: 10_000,
            queue: Duration::from_millis(20),
        }];
    };
    let came = four_viewers(&film, slow, &[7]);
    let took = came.last().unwrap().0 - came.first().unwrap().0;
    assert!(took < 10_000_000_000, "{took} ns: paced by another's link");
}

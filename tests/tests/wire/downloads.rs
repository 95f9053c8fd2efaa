//! A download on a limited link: it takes what viewers leave, makes room for newcomers, and viewers
//! lose nothing.

use std::process::Command;

use reelway_tests::films;
use reelway_tests::network::{Network, SERVER};
use reelway_tests::rtsp::Client;
use reelway_tests::server::Options;

use super::{after, by_ssrc, second};

/// The rate in Mbit/s of what arrives from `since` to `until`, in seconds after the first byte.
fn rate(came: &[(f64, usize)], since: f64, until: f64) -> f64 {
    let within = came.iter().filter(|(at, _)| (since..until).contains(at));
    let bytes: usize = within.map(|(_, bytes)| bytes).sum();
    bytes as f64 * 8.0 / 1e6 / (until - since)
}

#[test]
fn viewers_on_a_link_that_a_download_fills_lose_nothing_and_it_makes_room() {
    let network = Network::new();
    let library = films::library(&["load"]);
    let options = Options::new(library.path())
        .flag("--capacity", "net=30Mbit")
        .namespace(network.server(), SERVER);
    let server = network.as_viewer(|| {
        let server = options.start();
        server.wait_indexed();
        server
    });
    network.on_server("tc qdisc add dev wire root tbf rate 30mbit burst 64kb latency 60ms");
    let capture = network.capture();
    let mut curl = Command::new("ip");
    let mut curl = curl
        .args([
            "netns",
            "exec",
            network.viewer(),
            "curl",
            "-s",
            "-o",
            "/dev/null",
        ])
        .arg(server.http_url("load/file"))
        .spawn()
        .expect("curl");
    std::thread::sleep(second(4.0));
    let viewers: Vec<_> = network.as_viewer(|| {
        let url = server.rtsp_url("load");
        let come = |_| {
            let mut client = Client::connect(server.rtsp).expect("a connection");
            let tracks = client.setup_udp(&url).expect("SETUP");
            let answer = client.request("PLAY", &url, &[]).expect("PLAY");
            assert_eq!(answer.status, 200, "{answer:?}");
            std::thread::sleep(second(0.5));
            (client, tracks)
        };
        (0..2).map(come).collect()
    });
    std::thread::sleep(second(5.0));
    let packets = capture.finish().expect("a capture");
    curl.kill().expect("curl");
    curl.wait().expect("curl");
    drop(viewers);

    let media = by_ssrc(&packets, &server);
    assert_eq!(media.len(), 4, "two viewers of picture and sound");
    let mut count = 0;
    for (ssrc, came) in &media {
        for pair in came.windows(2) {
            let step = after(pair[1].rtp.seq, pair[0].rtp.seq);
            assert_eq!(step, 1, "a hole in {ssrc:08x}");
        }
        count += came.len();
    }
    assert!(count > 3000, "{count} packets");

    let bulk = packets.iter().filter(|packet| packet.from == server.http);
    let first = bulk.clone().map(|packet| packet.at).min().expect("bytes");
    let at = |at: u64| (at as f64 - first as f64) / 1e9;
    let bulk: Vec<(f64, usize)> = bulk
        .map(|packet| (at(packet.at), packet.payload.len()))
        .collect();
    let all: Vec<(f64, usize)> = packets
        .iter()
        .filter(|packet| packet.from.ip() == SERVER && packet.at >= first)
        .map(|packet| (at(packet.at), packet.ip_len + 14))
        .collect();
    // The time at which the second viewer began.
    let last = media.values().filter_map(|came| came.first());
    let last = at(last.map(|came| came.at).max().expect("media"));
    let alone = rate(&bulk, 1.0, 3.5);
    let beside = rate(&bulk, last + 1.0, last + 4.0);
    let used = rate(&all, last + 1.0, last + 4.0);
    println!("{alone:.1} Mbit/s alone, {beside:.1} beside two viewers, {used:.1} of 30 used then");
    // While it is less than 20 s ahead, twice its rate is booked for it: 8 Mbit/s. The rest is
    // unbooked capacity.
    assert!(beside < 19.0, "{beside} Mbit/s beside two viewers");
    // How much it gets depends on the machine's other load: that it gets everything that is left is
    // tested in simulated time.
    if std::env::var_os("REELWAY_LONG").is_some() {
        assert!(alone > 16.0, "{alone} Mbit/s of 30 alone");
        assert!(beside > 8.0, "{beside} Mbit/s beside two viewers");
        assert!(used > 18.0, "{used} Mbit/s of 30 are used");
    }
}

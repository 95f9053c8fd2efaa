//! A cable that loses one packet in fifty, and GStreamer asking for what it lacks: what it gets in the
//! end is the film, bit by bit. Needs root, for the hosts are network namespaces.

mod rtsp_viewers;

use reelway_tests::films::{film, library};
use reelway_tests::network::{Network, SERVER};
use reelway_tests::server::Options;
use rtsp_viewers::{Expected, watch_with, without_holes};

/// Packets that were lost on the way.
fn lost(network: &Network) -> u64 {
    let said = network.on_viewer("nft list counter inet loss lost");
    let mut words = said
        .split_whitespace()
        .skip_while(|word| *word != "packets");
    let count = words.nth(1).and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("no count: {said}"))
}

#[test]
fn what_is_lost_on_the_way_is_sent_again_and_the_film_arrives_whole() {
    let library = library(&["big_pictures"]);
    let network = Network::new();
    let options = Options::new(library.path())
        .set("rtsp.offer_retransmission", true)
        .namespace(network.server(), SERVER);
    let server = network.as_viewer(|| {
        let server = options.start();
        server.wait_indexed();
        server
    });
    network.on_viewer("nft add table inet loss");
    network.on_viewer("nft add counter inet loss lost");
    network.on_viewer("nft add chain inet loss input { type filter hook input priority 0 ; }");
    // What comes behind a lost packet shows that it is lost; behind the film's last one comes nothing.
    // So the last of the film's four megabytes stays whole.
    network.on_viewer(&format!(
        "nft add rule inet loss input udp sport {} quota until 3 mbytes numgen random mod 50 0 counter name lost drop",
        server.rtp
    ));
    let url = server.rtsp_url("big_pictures");
    let environment = [("LATENCY_MS", "2000")];
    let mut lines = network.as_viewer(|| {
        watch_with(
            "rtspsrc.py",
            &url,
            "udp",
            &["play:1", "end:60"],
            &environment,
        )
    });
    let expected = Expected::of(&film("big_pictures").path);
    let lost = lost(&network);
    assert!(lost > 20, "only {lost} packets were lost");
    without_holes("video", &mut lines, &expected.video, &[], (0, 0));
    without_holes("audio", &mut lines, &expected.audio, &[], (0, 0));
}

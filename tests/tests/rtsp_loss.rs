//! A cable that loses one packet in fifty, and GStreamer, which requests what is missing: in the
//! end it has the film, bit by bit. Needs root, as the hosts are network namespaces.

mod rtsp_viewers;

use reelway_tests::films::{film, library};
use reelway_tests::network::{Network, SERVER};
use reelway_tests::server::Options;
use rtsp_viewers::{Expected, Line, hashes, joined, watch_with, with_built_plugins, without_holes};

/// The number of packets lost on the way.
fn lost(network: &Network) -> u64 {
    let said = network.on_viewer("nft list counter inet loss lost");
    let mut words = said
        .split_whitespace()
        .skip_while(|word| *word != "packets");
    let count = words.nth(1).and_then(|count| count.parse().ok());
    count.unwrap_or_else(|| panic!("no count: {said}"))
}

/// Plays a film over a cable that loses packets among its first `bytes`, as nft writes them, except
/// in the first 100 kbytes; returns what the viewer receives, and how many packets were lost.
fn over_a_bad_cable(name: &str, offer: bool, bytes: &str) -> (Vec<Line>, u64) {
    let library = library(&[name]);
    let network = Network::new();
    let options = Options::new(library.path())
        .patient()
        .set("rtsp.offer_retransmission", offer)
        .namespace(network.server(), SERVER);
    let server = network.as_viewer(|| {
        let server = options.start();
        server.wait_indexed();
        server
    });
    network.on_viewer("nft add table inet loss");
    network.on_viewer("nft add counter inet loss lost");
    network.on_viewer("nft add chain inet loss input { type filter hook input priority 0 ; }");
    network.on_viewer(&format!(
        "nft add rule inet loss input udp sport {} quota until {bytes} quota over 100 kbytes numgen random mod 50 0 counter name lost drop",
        server.rtp
    ));
    let url = server.rtsp_url(name);
    let plugins = with_built_plugins();
    let mut environment: Vec<_> = plugins.iter().map(|(key, path)| (*key, &**path)).collect();
    // Nothing is decoded: GStreamer's AV1 decoder ends at the first picture with a missing
    // reference.
    environment.extend([("LATENCY_MS", "2000"), ("UNDECODED", "yes")]);
    let steps = ["play:1", "end:60"];
    let lines = network.as_viewer(|| watch_with("rtspsrc.py", &url, "udp", &steps, &environment));
    let lost = lost(&network);
    // One in fifty, of more than a thousand.
    assert!(lost > 5, "only {lost} packets were lost");
    (lines, lost)
}

// A loss is detected by the packets before and after it, which a track's first and last packets
// lack. So the beginning and the end of each film are not lost.

#[test]
fn what_is_lost_on_the_way_is_sent_again_and_the_film_arrives_whole() {
    let (mut lines, _) = over_a_bad_cable("big_pictures", true, "3 mbytes");
    let expected = Expected::of(&film("big_pictures").path);
    without_holes("video", &mut lines, &expected.video, &[], (0, 0));
    without_holes("audio", &mut lines, &expected.audio, &[], (0, 0));
}

#[test]
fn what_is_lost_of_av1_is_sent_again_and_the_film_arrives_whole() {
    let (lines, _) = over_a_bad_cable("av1_large", true, "2 mbytes");
    let expected = Expected::of(&film("av1_large").path);
    without_holes("video", &mut joined(lines), &expected.video, &[], (0, 0));
}

/// OBUs with a missing piece are discarded: everything that the depayloader returns is in the film,
/// in its order. A lost packet costs only the OBUs of which it has a piece: mostly one, sometimes
/// the end of one and the beginning of the next.
#[test]
fn what_is_left_of_av1_behind_losses_is_put_together_right() {
    let (lines, lost) = over_a_bad_cable("av1_large", false, "2 mbytes");
    let units = Expected::of(&film("av1_large").path).video;
    let mut of_film = units.iter().flat_map(hashes);
    let count = units.iter().map(|unit| unit.parts.len()).sum::<usize>();
    let came = lines
        .iter()
        .filter(|line| line.unit.as_deref() == Some("video"));
    let came: Vec<&String> = came.flat_map(|line| &line.hashes).collect();
    for (nth, hash) in came.iter().enumerate() {
        assert!(
            of_film.any(|of| of == **hash),
            "OBU {nth} that came ({hash}) is not the film's, or not in its order"
        );
    }
    let gone = count - came.len();
    assert!(
        gone > 0 && gone as u64 <= 2 * lost,
        "of {count} OBUs {gone} are missing behind {lost} lost packets"
    );
}

//! The largest packet: no longer than `rtp.mtu`, over IPv4 and IPv6, retransmissions included.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::network::{Network, SERVER, SERVER_V6};
use reelway_tests::rtsp::{Client, Rtp};
use reelway_tests::server::{Options, Server};

/// The payload type of the film's video; all others that arrive with it are retransmissions.
const PICTURE: u8 = 96;
/// Bytes of a UDP header.
const UDP: usize = 8;

/// Returns the length in bytes of the longest retransmission's IP packet. The viewer requests every
/// packet again that is at least as long as those before it, until a retransmission has a length in
/// `wanted`. Requests are honoured for only two seconds: if the machine stands still for longer, a
/// later packet has its turn.
fn longest_again(server: &Server, ip_header: usize, wanted: RangeInclusive<usize>) -> usize {
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let url = server.rtsp_url("load");
    let tracks = client.setup_udp_as("RTP/AVPF", &url).expect("SETUP");
    let picture = &tracks[0];
    picture
        .rtp
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a socket");
    let answer = client.request("PLAY", &url, &[]).expect("PLAY");
    assert_eq!(answer.status, 200, "{answer:?}");
    let (mut longest, mut longest_again) = (0, 0);
    let mut buffer = [0; 2048];
    while !wanted.contains(&longest_again) {
        let Ok(bytes) = picture.rtp.recv(&mut buffer) else {
            panic!(
                "the longest packet, {longest} bytes, was not sent again, but one of {longest_again}"
            );
        };
        let rtp = Rtp::parse(&buffer[..bytes]).expect("RTP on the RTP port");
        let length = bytes + UDP + ip_header;
        if rtp.payload_type != PICTURE {
            longest_again = length.max(longest_again);
            assert!(
                length <= longest + 2,
                "{length} bytes were sent again, the longest packet has {longest}"
            );
        } else if length >= longest {
            longest = length;
            picture.ask_again(server.rtsp.ip(), &[(rtp.seq, 0)]);
        }
    }
    client.request("TEARDOWN", &url, &[]).expect("TEARDOWN");
    longest_again
}

fn check(address: IpAddr, ip_header: usize) {
    let network = Network::new();
    let library = films::library(&["load"]);
    for mtu in [1500, 1492, 1280] {
        // The cable carries no more either: longer packets would arrive as fragments.
        network.on_server(&format!("ip link set wire mtu {mtu}"));
        let options = Options::new(library.path())
            .set("rtp.mtu", mtu)
            .set("rtsp.offer_retransmission", true)
            .namespace(network.server(), address);
        let server = network.as_viewer(|| {
            let server = options.start();
            server.wait_indexed();
            server
        });
        let capture = network.capture();
        // One plan serves both families: over IPv4 a full packet is 20 bytes shorter. Pictures are
        // cut into pieces of equal length, so the longest is a few bytes short of full.
        let full = mtu - (40 - ip_header);
        let again = network.as_viewer(|| longest_again(&server, ip_header, full - 8..=full));
        let packets = capture.finish().expect("a capture");
        let sent = packets.iter().filter(|packet| packet.from.ip() == address);
        let sent: Vec<_> = sent.filter(|packet| packet.udp).collect();
        for packet in &sent {
            assert!(
                !packet.fragment && packet.ip_len <= mtu,
                "MTU {mtu}: an IP packet of {} bytes (fragment: {})",
                packet.ip_len,
                packet.fragment
            );
        }
        assert!(
            sent.iter().any(|packet| packet.ip_len == again),
            "MTU {mtu}: no IP packet of {again} bytes on the wire"
        );
    }
}

#[test]
fn over_ipv4_the_longest_packet_sent_again_fits_the_mtu() {
    check(SERVER, 20);
}

#[test]
fn over_ipv6_the_longest_packet_sent_again_fits_the_mtu() {
    check(SERVER_V6, 40);
}

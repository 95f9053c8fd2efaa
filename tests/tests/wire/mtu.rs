//! The largest packet: what `rtp.mtu` says and no more, over IPv4 and IPv6, retransmissions included.

use std::net::IpAddr;

use reelway_tests::capture::Packet;
use reelway_tests::films;
use reelway_tests::network::{Network, SERVER, SERVER_V6};
use reelway_tests::rtsp::Rtp;
use reelway_tests::server::{Options, Server};
use reelway_tests::yardstick::yardstick;

/// Payload types of the film's picture and sound; the others are retransmissions.
const MEDIA: [u8; 2] = [96, 97];

/// What comes to a viewer over UDP who loses the IP packets of so many bytes and asks for them again.
fn watched(network: &Network, server: &Server, lost: Option<usize>) -> Vec<Packet> {
    network.on_viewer("nft add table inet loss");
    network.on_viewer("nft add chain inet loss input { type filter hook input priority 0 ; }");
    if let Some(length) = lost {
        network.on_viewer(&format!(
            "nft add rule inet loss input udp sport {} meta length {length} drop",
            server.rtp
        ));
    }
    // It is taken before packets are lost.
    let capture = network.capture();
    let url = server.rtsp_url("load");
    let (_, printed, _) = network.as_viewer(|| yardstick(&[&url, "--repair", "--duration", "3"]));
    let packets = capture.finish().expect("a capture");
    network.on_viewer("nft delete table inet loss");
    assert!(packets.len() > 500, "hardly any packet came: {printed}");
    packets
}

/// The longest IP packets of a capture in bytes: of media and of retransmissions.
fn longest(packets: &[Packet], server: &Server) -> (usize, usize) {
    let mut longest = (0, 0);
    for packet in packets {
        if !packet.udp || packet.from.port() != server.rtp {
            continue;
        }
        let rtp = Rtp::parse(&packet.payload).expect("RTP on the RTP port");
        let longest = match MEDIA.contains(&rtp.payload_type) {
            true => &mut longest.0,
            false => &mut longest.1,
        };
        *longest = packet.ip_len.max(*longest);
    }
    longest
}

fn check(address: IpAddr, ip_header: usize) {
    let network = Network::new();
    let library = films::library(&["load"]);
    for mtu in [1500, 1492, 1280] {
        // The cable carries no more either: what is longer would come as fragments.
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
        let (longest_media, _) = longest(&watched(&network, &server, None), &server);
        let packets = watched(&network, &server, Some(longest_media));
        let sent = packets.iter().filter(|packet| packet.from.ip() == address);
        for packet in sent.filter(|packet| packet.udp) {
            assert!(
                !packet.fragment && packet.ip_len <= mtu,
                "MTU {mtu}: an IP packet of {} bytes (fragment: {})",
                packet.ip_len,
                packet.fragment
            );
        }
        let (media, again) = longest(&packets, &server);
        assert_eq!(
            (media, again),
            (longest_media, longest_media + 2),
            "MTU {mtu}: the longest packet was not sent again"
        );
        // One plan for both families: over IPv4 the full packet is 20 bytes shorter. A picture is cut into
        // pieces of the same length, so the longest is some bytes short of full.
        let full = mtu - (40 - ip_header);
        assert!(
            (full - 8..=full).contains(&again),
            "MTU {mtu}: packets are needlessly short: {again} bytes at most"
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

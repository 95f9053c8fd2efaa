//! The packets on the wire: two hosts connected by a cable, and a capture at the viewer's end.
//! Needs root, as the hosts are network namespaces.

mod downloads;
mod faults;
mod full_link;
mod mtu;
mod reports;
mod seeks;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use reelway_tests::capture::Packet;
use reelway_tests::films;
use reelway_tests::network::{Network, OTHER, SERVER, SERVER_V6, VIEWER, VIEWER_V6};
use reelway_tests::rtsp::{Client, Rtp, RtpInfo, SenderReport, UdpTrack, rtp_info, sender_report};
use reelway_tests::server::{Options, Server};

/// The MTU of Ethernet.
const MTU: usize = 1500;
/// The server's default burst.
const BURST: usize = 8;

fn second(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

/// Starts a server on its host, with these films. Drop it before the network.
#[track_caller]
fn serve(network: &Network, names: &[&str]) -> (Server, tempfile::TempDir) {
    serve_at(network, SERVER, names)
}

#[track_caller]
fn serve_at(network: &Network, address: IpAddr, names: &[&str]) -> (Server, tempfile::TempDir) {
    let library = films::library(names);
    let server = Options::new(library.path()).namespace(network.server(), address);
    // Readiness is checked over the cable.
    let server = network.as_viewer(|| {
        let server = server.start();
        server.wait_indexed();
        server
    });
    (server, library)
}

/// An RTP packet that arrived over the cable.
#[derive(Clone, Copy)]
struct Came<'a> {
    at: u64,
    rtp: Rtp<'a>,
}

/// The RTP packets in a capture by SSRC.
fn by_ssrc<'a>(packets: &'a [Packet], server: &Server) -> BTreeMap<u32, Vec<Came<'a>>> {
    let mut all: BTreeMap<u32, Vec<Came>> = BTreeMap::new();
    for packet in packets
        .iter()
        .filter(|packet| packet.udp && packet.from.port() == server.rtp)
    {
        let rtp = Rtp::parse(&packet.payload).expect("RTP on the RTP port");
        all.entry(rtp.ssrc)
            .or_default()
            .push(Came { at: packet.at, rtp });
    }
    all
}

/// The sender reports in a capture, with their times of arrival and the numbers of packets before
/// them.
fn reports(packets: &[Packet], server: &Server) -> Vec<(u64, usize, SenderReport)> {
    let rtcp = packets
        .iter()
        .enumerate()
        .filter(|(_, packet)| packet.udp && packet.from.port() == server.rtp + 1);
    rtcp.filter_map(|(n, packet)| {
        Some((packet.at, n, sender_report(&packet.payload).expect("RTCP")?))
    })
    .collect()
}

/// The SSRC in a `Transport` header.
fn ssrc(track: &UdpTrack) -> u32 {
    let text = track
        .transport
        .split(';')
        .find_map(|part| part.strip_prefix("ssrc="));
    let text = text.unwrap_or_else(|| panic!("no ssrc in {}", track.transport));
    u32::from_str_radix(text, 16).expect("eight hex digits")
}

/// The start in a `Range: npt=…` header.
fn range_start(header: &str) -> f64 {
    let start = header
        .strip_prefix("npt=")
        .and_then(|range| range.split('-').next());
    start
        .and_then(|start| start.parse().ok())
        .unwrap_or_else(|| panic!("no npt range: {header:?}"))
}

/// How far `seq` lies after `from`, with wraparound.
fn after(seq: u16, from: u16) -> i16 {
    seq.wrapping_sub(from) as i16
}

/// What the server reported to a viewer over UDP.
struct Watched {
    ssrcs: Vec<u32>,
    /// Start of the range and entries of RTP-Info, for each PLAY.
    plays: Vec<(f64, Vec<RtpInfo>)>,
}

/// Watches a film over UDP, each range for this long.
fn watch(server: &Server, title: &str, ranges: &[(&str, Duration)]) -> Watched {
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let url = server.rtsp_url(title);
    let tracks = client.setup_udp(&url).expect("SETUP");
    let ssrcs = tracks.iter().map(ssrc).collect();
    let mut plays = Vec::new();
    for (range, time) in ranges {
        let answer = client
            .request("PLAY", &url, &[("Range", range)])
            .expect("PLAY");
        assert_eq!(answer.status, 200, "{answer:?}");
        plays.push((
            range_start(answer.header("range")),
            rtp_info(answer.header("rtp-info")).expect("RTP-Info"),
        ));
        std::thread::sleep(*time);
    }
    client.request("TEARDOWN", &url, &[]).expect("TEARDOWN");
    Watched { ssrcs, plays }
}

#[test]
fn packets_keep_the_mtu_the_burst_rule_and_their_sequence() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["load", "big_pictures"]);
    for (title, seconds) in [("load", 8.0), ("big_pictures", 1.5)] {
        let capture = network.capture();
        let watched = network.as_viewer(|| watch(&server, title, &[("npt=0-", second(seconds))]));
        let packets = capture.finish().expect("a capture");
        let sent: Vec<&Packet> = packets
            .iter()
            .filter(|packet| packet.udp && packet.from.ip() == SERVER)
            .collect();
        assert!(
            sent.len() > 500,
            "{title}: only {} packets came",
            sent.len()
        );
        for packet in &sent {
            assert!(
                packet.ip_len <= MTU && !packet.fragment,
                "{title}: an IP packet of {} bytes",
                packet.ip_len
            );
            assert_eq!(
                packet.to.ip(),
                VIEWER,
                "{title}: {} was sent media",
                packet.to
            );
        }
        let longest = sent.iter().map(|packet| packet.ip_len).max().unwrap_or(0);
        assert!(
            longest > MTU - 100,
            "{title}: packets are needlessly short: {longest} bytes at most"
        );

        let came = by_ssrc(&packets, &server);
        assert_eq!(
            came.len(),
            watched.ssrcs.len(),
            "{title}: other SSRCs than in Transport"
        );
        for (ssrc, came) in &came {
            assert!(
                watched.ssrcs.contains(ssrc),
                "{title}: SSRC {ssrc:08x} is not in Transport"
            );
            for pair in came.windows(2) {
                assert_eq!(
                    after(pair[1].rtp.seq, pair[0].rtp.seq),
                    1,
                    "{title}: a hole in {ssrc:08x}"
                );
            }
        }
        burst_rule(title, &came);
    }
}

#[test]
fn over_ipv6_packets_keep_the_mtu_and_their_sequence_too() {
    let network = Network::new();
    let (server, _library) = serve_at(&network, SERVER_V6, &["load"]);
    let capture = network.capture();
    let ranges = [("npt=0-", second(1.5)), ("npt=30-", second(1.0))];
    let watched = network.as_viewer(|| watch(&server, "load", &ranges));
    let packets = capture.finish().expect("a capture");
    let sent: Vec<&Packet> = packets
        .iter()
        .filter(|packet| packet.udp && packet.from.ip() == SERVER_V6)
        .collect();
    assert!(sent.len() > 500, "only {} packets came", sent.len());
    let longest = sent.iter().map(|packet| packet.ip_len).max().unwrap_or(0);
    assert!(
        (MTU - 100..=MTU).contains(&longest),
        "{longest} bytes at most"
    );
    assert!(
        sent.iter()
            .all(|packet| packet.to.ip() == VIEWER_V6 && !packet.fragment)
    );
    let came = by_ssrc(&packets, &server);
    assert_eq!(came.len(), watched.ssrcs.len());
    for came in came.values() {
        for pair in came.windows(2) {
            assert_eq!(after(pair[1].rtp.seq, pair[0].rtp.seq), 1, "a hole");
        }
    }
    burst_rule("load over IPv6", &came);
}

/// Checks that no millisecond has more than `max(BURST, the frames' rates)` packets of the stream.
fn burst_rule(title: &str, came: &BTreeMap<u32, Vec<Came>>) {
    // A frame's rate: its packets divided by its duration of 40 ms. (Audio frames have one packet.)
    let mut frames: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for (ssrc, came) in came {
        came.iter()
            .for_each(|came| *frames.entry((*ssrc, came.rtp.time)).or_default() += 1);
    }
    let mut all: Vec<&Came> = came.values().flatten().collect();
    all.sort_by_key(|came| came.at);
    let mut start = 0;
    let mut worst = (0, 0);
    for (end, last) in all.iter().enumerate() {
        while last.at - all[start].at >= 1_000_000 {
            start += 1;
        }
        let window = &all[start..=end];
        let need: usize = {
            let mut seen: Vec<(u32, u32)> = window
                .iter()
                .map(|came| (came.rtp.ssrc, came.rtp.time))
                .collect();
            seen.sort_unstable();
            seen.dedup();
            seen.iter().map(|frame| frames[frame].div_ceil(40)).sum()
        };
        let over = window.len().saturating_sub(BURST.max(need));
        worst = worst.max((over, window.len()));
    }
    assert_eq!(
        worst.0, 0,
        "{title}: {} packets within a millisecond, {} too many",
        worst.1, worst.0
    );
}

/// The indexes of the responses to PLAY in the capture.
fn answers(packets: &[Packet], server: &Server) -> Vec<usize> {
    let answers = packets.iter().enumerate().filter(|(_, packet)| {
        let text = String::from_utf8_lossy(&packet.payload);
        packet.from == server.rtsp
            && text.starts_with("RTSP/1.0 200")
            && text.to_ascii_lowercase().contains("rtp-info:")
    });
    answers.map(|(n, _)| n).collect()
}

#[test]
fn media_goes_to_the_address_of_the_connection_and_nowhere_else() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["seeks"]);
    let capture = network.capture();
    network.as_viewer(|| {
        let mut client = Client::connect(server.rtsp).expect("a connection");
        let url = server.rtsp_url("seeks");
        let (_, media) = client.describe(&url).expect("DESCRIBE");
        for name in ["destination", "Destination"] {
            let other = format!("RTP/AVP;unicast;{name}={OTHER};client_port=40000-40001");
            let answer = client
                .request("SETUP", &media[0], &[("Transport", &other)])
                .expect("an answer");
            assert!(
                (400..500).contains(&answer.status),
                "SETUP to another's address: {answer:?}"
            );
        }
        let own = format!("RTP/AVP;unicast;destination={VIEWER};client_port=40000-40001");
        let answer = client
            .request("SETUP", &media[0], &[("Transport", &own)])
            .expect("an answer");
        assert_eq!(answer.status, 200, "SETUP to one's own address: {answer:?}");
        let answer = client
            .request("PLAY", &url, &[("Range", "npt=0-")])
            .expect("an answer");
        assert_eq!(answer.status, 200, "{answer:?}");
        std::thread::sleep(second(1.0));

        // A session cannot be taken over from another address with its ID.
        let session = client.session.clone().expect("a session");
        let thief = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        thief
            .bind(&std::net::SocketAddr::new(OTHER, 0).into())
            .expect("another address");
        thief.connect(&server.rtsp.into()).expect("a connection");
        let mut thief = Client::from_stream(thief.into());
        thief.session = Some(session);
        for method in ["PLAY", "PAUSE", "TEARDOWN"] {
            let answer = thief.request(method, &url, &[]).expect("an answer");
            assert_eq!(
                answer.status, 454,
                "{method} of another's session: {answer:?}"
            );
        }
        let answer = client.request("PAUSE", &url, &[]).expect("an answer");
        assert_eq!(
            answer.status, 200,
            "the owner's session goes on: {answer:?}"
        );
    });
    let packets = capture.finish().expect("a capture");
    let sent: Vec<&Packet> = packets
        .iter()
        .filter(|packet| packet.udp && packet.from.ip() == SERVER)
        .collect();
    assert!(!sent.is_empty());
    for packet in sent {
        assert_eq!(packet.to.ip(), VIEWER, "{} was sent media", packet.to);
    }
}

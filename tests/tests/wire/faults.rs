//! Faults under a playing stream: routes that go down and up again, links that carry less than they
//! should, a server that stands still.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use reelway_tests::network::{Network, OTHER, SERVER, VIEWER};
use reelway_tests::rtsp::{Client, Rtp, UdpTrack};
use reelway_tests::server::Server;

use super::{Came, after, burst_rule, by_ssrc, second, serve, ssrc};

/// A viewer who plays `load` over UDP.
struct Watching {
    client: Client,
    tracks: Vec<UdpTrack>,
    url: String,
}

impl Watching {
    /// Begins to watch from one of the viewer's addresses.
    fn begin(server: &Server, from: IpAddr) -> Watching {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        socket
            .bind(&SocketAddr::new(from, 0).into())
            .expect("an address");
        socket.connect(&server.rtsp.into()).expect("a connection");
        let mut client = Client::from_stream(socket.into());
        let url = server.rtsp_url("load");
        let tracks = client.setup_udp(&url).expect("SETUP");
        let answer = client.request("PLAY", &url, &[]).expect("PLAY");
        assert_eq!(answer.status, 200, "{answer:?}");
        Watching {
            client,
            tracks,
            url,
        }
    }

    fn ssrcs(&self) -> Vec<u32> {
        self.tracks.iter().map(ssrc).collect()
    }

    /// Checks that the server still knows the viewer.
    fn pauses(mut self) {
        let answer = self.client.request("PAUSE", &self.url, &[]).expect("PAUSE");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// The streams with these SSRCs.
fn of<'a>(came: &BTreeMap<u32, Vec<Came<'a>>>, ssrcs: &[u32]) -> BTreeMap<u32, Vec<Came<'a>>> {
    let all = came.iter().filter(|(ssrc, _)| ssrcs.contains(ssrc));
    all.map(|(ssrc, came)| (*ssrc, came.clone())).collect()
}

/// The number of gaps in the sequences.
fn holes(came: &BTreeMap<u32, Vec<Came>>) -> usize {
    let pairs = came.values().flat_map(|came| came.windows(2));
    pairs
        .filter(|pair| after(pair[1].rtp.seq, pair[0].rtp.seq) != 1)
        .count()
}

/// The media time of a video track from one packet to another, and the time between their arrivals,
/// in seconds.
fn moved(from: &Came, to: &Came) -> (f64, f64) {
    (
        f64::from(to.rtp.time.wrapping_sub(from.rtp.time) as i32) / 90_000.0,
        (to.at - from.at) as f64 / 1e9,
    )
}

/// The value of a metric.
fn metric(network: &Network, server: &Server, name: &str) -> f64 {
    network.as_viewer(|| server.metric(name))
}

#[test]
fn a_way_that_closes_and_opens_again_costs_only_what_went_that_way_meanwhile() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["load"]);
    let capture = network.capture();
    let (near, far) = network.as_viewer(|| {
        (
            Watching::begin(&server, VIEWER),
            Watching::begin(&server, OTHER),
        )
    });
    std::thread::sleep(second(0.4));
    // The kernel refuses packets to one viewer.
    network.on_server(&format!("ip route add unreachable {OTHER}/32"));
    std::thread::sleep(second(0.4));
    network.on_server(&format!("ip route del unreachable {OTHER}/32"));
    std::thread::sleep(second(0.4));
    let refused = metric(&network, &server, "reelway_rtp_refused_packets_total");
    // There is no route to any viewer.
    network.on_server("ip link set wire down");
    std::thread::sleep(second(0.6));
    network.on_server("ip link set wire up");
    std::thread::sleep(second(1.0));
    let packets = capture.finish().expect("a capture");
    let came = by_ssrc(&packets, &server);
    let (of_near, of_far) = (of(&came, &near.ssrcs()), of(&came, &far.ssrcs()));
    assert_eq!((of_near.len(), of_far.len()), (2, 2));
    assert!(refused > 20.0, "{refused} packets were refused");
    assert_eq!(
        holes(&of_near),
        2,
        "one in each track, where there was no way"
    );
    assert_eq!(holes(&of_far), 4, "two in each track");
    for came in [&of_near, &of_far] {
        burst_rule("load", came);
        for came in came.values().filter(|came| came.len() > 200) {
            let (first, last) = (&came[0], &came[came.len() - 1]);
            let (film, time) = moved(first, last);
            assert!(
                film > 1.5 && film < time + 0.5,
                "it goes on by its timetable, which nothing moved: {film} s of film in {time} s"
            );
        }
    }
    near.pauses();
    far.pauses();
    let metric = |name| metric(&network, &server, name);
    assert_eq!(metric("reelway_rtp_timetable_shifts_total"), 0.0);
}

#[test]
fn a_server_that_was_stopped_for_seconds_floods_nobody() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["load"]);
    let capture = network.capture();
    let viewers = network.as_viewer(|| [VIEWER, OTHER].map(|from| Watching::begin(&server, from)));
    std::thread::sleep(second(0.5));
    server.signal("STOP");
    std::thread::sleep(second(3.0));
    server.signal("CONT");
    std::thread::sleep(second(1.0));
    let packets = capture.finish().expect("a capture");
    let came = by_ssrc(&packets, &server);
    for viewer in &viewers {
        let came = of(&came, &viewer.ssrcs());
        assert_eq!(holes(&came), 0);
        burst_rule("load", &came);
        let pictures = came.values().max_by_key(|came| came.len()).expect("tracks");
        let stopped = pictures
            .windows(2)
            .position(|pair| pair[1].at.saturating_sub(pair[0].at) > 2_500_000_000)
            .expect("it stood still");
        let (first, last) = (&pictures[stopped + 1], &pictures[pictures.len() - 1]);
        let (film, time) = moved(first, last);
        // The server may catch up by one second.
        assert!(
            film > 0.3 && film < time + 1.0,
            "{film} s of film in {time} s"
        );
    }
    let [near, far] = viewers;
    near.pauses();
    far.pauses();
    server.wait_for_log(&["stood still for 3."], second(1.0));
}

/// Receives a track's RTP packets until none arrives for half a second.
fn receive(track: UdpTrack) -> Vec<Vec<u8>> {
    track
        .rtp
        .set_read_timeout(Some(second(0.5)))
        .expect("a timeout");
    let mut packets = Vec::new();
    let mut bytes = [0; 4096];
    while let Ok(length) = track.rtp.recv(&mut bytes) {
        packets.push(bytes[..length].to_vec());
    }
    packets
}

#[test]
fn over_a_link_with_a_smaller_mtu_than_configured_every_packet_still_comes_whole() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["load"]);
    let capture = network.capture();
    let viewer = network.as_viewer(|| Watching::begin(&server, VIEWER));
    let Watching {
        mut client,
        tracks,
        url,
    } = viewer;
    let readers: Vec<_> = tracks
        .into_iter()
        .map(|track| std::thread::spawn(|| receive(track)))
        .collect();
    std::thread::sleep(second(0.4));
    network.on_server("ip link set wire mtu 1200");
    std::thread::sleep(second(0.8));
    client.request("TEARDOWN", &url, &[]).expect("TEARDOWN");
    let tracks: Vec<_> = readers
        .into_iter()
        .map(|reader| reader.join().expect("a reader"))
        .collect();
    let packets = capture.finish().expect("a capture");
    assert!(
        packets.iter().filter(|packet| packet.fragment).count() > 100,
        "the link is too narrow for whole packets"
    );
    assert_eq!(
        metric(&network, &server, "reelway_rtp_refused_packets_total"),
        0.0
    );
    for packets in &tracks {
        let seqs: Vec<u16> = packets
            .iter()
            .map(|packet| Rtp::parse(packet).expect("RTP").seq)
            .collect();
        for pair in seqs.windows(2) {
            assert_eq!(after(pair[1], pair[0]), 1, "a hole");
        }
    }
    assert!(tracks.iter().any(|packets| packets.len() > 300));
    assert_eq!(VIEWER, client.local().ip());
    assert_ne!(SERVER, VIEWER);
}

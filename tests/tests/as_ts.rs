//! Transport streams over RTSP without remultiplexing (`TITLE?as=ts`): the bytes of the file, at
//! the times that the stream states; what ffmpeg and GStreamer receive; and what cannot be sent
//! this way.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use reelway_tests::films::{film, library, temp_dir};
use reelway_tests::players::{ffmpeg, run, scripted};
use reelway_tests::probe::key_frames;
use reelway_tests::rtsp::{Client, Response, Rtp, rtcp_packets, rtp_info};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

const PACKET: usize = 188;
/// All with packets of 188 bytes.
const FILMS: [&str; 9] = [
    "transport",
    "transport_cut",
    "transport_dolby",
    "transport_hevc",
    "transport_latm",
    "transport_mp3",
    "transport_mpeg2",
    "transport_programmes",
    "transport_wrapped",
];

/// The address of a film as a transport stream.
fn address(server: &Server, film: &str) -> String {
    format!("{}?as=ts", server.rtsp_url(film))
}

/// Plays over TCP from a time on: returns the response to PLAY, and each packet's sequence number,
/// timestamp and payload.
fn plays(server: &Server, film: &str, from: &str) -> (Response, Vec<(u16, u32, Vec<u8>)>) {
    let url = address(server, film);
    let mut viewer = Client::connect(server.rtsp).expect("the server");
    assert_eq!(viewer.setup_tcp(&url).expect("SETUP"), 1, "{film}");
    let range = format!("npt={from}-");
    let answer = viewer
        .request("PLAY", &url, &[("Range", &range)])
        .expect("PLAY");
    assert_eq!(answer.status, 200, "{film}: {answer:?}");
    let mut packets = Vec::new();
    loop {
        let frame = viewer.frame(Duration::from_secs(20)).expect("a frame");
        let frame = frame.unwrap_or_else(|| panic!("{film}: no packet, and no end"));
        if frame.channel == 1 {
            let reports = rtcp_packets(&frame.data).expect("RTCP");
            if reports.iter().any(|(kind, _)| *kind == 203) {
                return (answer, packets);
            }
            continue;
        }
        let packet = Rtp::parse(&frame.data).expect("RTP");
        assert_eq!(packet.payload_type, 33, "{film}");
        packets.push((packet.seq, packet.time, packet.payload.to_vec()));
    }
}

fn pid(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// Joins the payloads, without the PAT and PMT at the beginning.
fn stream(film: &str, packets: &[(u16, u32, Vec<u8>)]) -> Vec<u8> {
    let all: Vec<u8> = packets
        .iter()
        .flat_map(|(.., payload)| payload.clone())
        .collect();
    assert_eq!(all.len() % PACKET, 0, "{film}: whole packets");
    assert_eq!(pid(&all), 0, "{film}: the PAT goes first");
    // PAT and PMT have one packet each.
    all[2 * PACKET..].to_vec()
}

#[test]
fn the_bytes_of_the_file_are_sent_from_a_picture_on_that_decoders_can_start_at() {
    let films = library(&FILMS);
    let server = Options::new(&films).patient().start();
    server.wait_indexed();
    std::thread::scope(|scope| {
        for name in FILMS {
            let server = &server;
            scope.spawn(move || {
                let path = film(name).path;
                let (file, keys) = (std::fs::read(&path).expect("the film"), key_frames(&path));
                let (answer, packets) = plays(server, name, "0");
                let sent = stream(name, &packets);
                // Packets before the first key frame and an incomplete packet at the end are not
                // sent.
                let begins = file.len() / PACKET * PACKET - sent.len();
                assert!(
                    sent == file[begins..begins + sent.len()],
                    "{name}: other bytes"
                );
                let first = keys.iter().position(|(at, _)| *at == begins);
                assert!(
                    first.is_some_and(|nth| nth < 2),
                    "{name}: from byte {begins}, {keys:?}"
                );
                for pair in packets.windows(2) {
                    assert_eq!(pair[1].0, pair[0].0.wrapping_add(1), "{name}");
                    let apart = pair[1].1.wrapping_sub(pair[0].1);
                    assert!(apart < 90_000, "{name}: {apart} ticks between two packets");
                }
                let info = rtp_info(answer.header("rtp-info")).expect("RTP-Info");
                assert_eq!(
                    (info[0].seq, info[0].rtptime),
                    (packets[0].0, packets[0].1),
                    "{name}"
                );
                assert!(info[0].url.ends_with("track=1?as=ts"), "{name}: {info:?}");
                // The timestamps advance as the times that the stream states.
                let last = packets
                    .last()
                    .expect("packets")
                    .1
                    .wrapping_sub(packets[0].1);
                let length = keys.last().expect("a key frame").1 - keys[first.unwrap_or(0)].1;
                assert!(f64::from(last) / 90_000.0 > length, "{name}: {last} ticks");
            });
        }
    });
}

#[test]
fn playing_from_a_time_on_begins_with_the_key_frame_before() {
    let films = library(&["transport", "transport_wrapped"]);
    let server = Options::new(&films).patient().start();
    server.wait_indexed();
    for name in ["transport", "transport_wrapped"] {
        let path = film(name).path;
        let (file, keys) = (std::fs::read(&path).expect("the film"), key_frames(&path));
        let nth = keys.len() / 2;
        let (begins, shown) = (keys[nth].0, keys[nth].1 - keys[0].1);
        // Times are those at which packets are sent: a picture is sent some time before it is
        // shown.
        let (answer, packets) = plays(&server, name, &format!("{}", shown + 0.3));
        assert!(stream(name, &packets) == file[begins..], "{name}");
        let from = answer
            .header("range")
            .trim_start_matches("npt=")
            .split('-')
            .next();
        let from: f64 = from.and_then(|from| from.parse().ok()).expect("a time");
        assert!(
            (from - shown).abs() < 0.3,
            "{name}: from {from} s, {shown} s"
        );
    }
    // Set-top boxes that do not use DESCRIBE set up the address itself.
    let mut viewer = Client::connect(server.rtsp).expect("the server");
    let transport = [("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1")];
    let answer = viewer.request("SETUP", &address(&server, "transport"), &transport);
    assert_eq!(answer.expect("SETUP").status, 200);
}

/// Hashes of the coded pictures and of the coded audio.
fn hashes(input: &[&str]) -> Vec<Vec<String>> {
    let mut arguments = input.to_vec();
    arguments.extend([
        "-map",
        "0:v:0",
        "-map",
        "0:a:0",
        "-c",
        "copy",
        "-f",
        "framehash",
        "-hash",
        "md5",
        "-",
    ]);
    let ran = run(ffmpeg(arguments), Duration::from_secs(100)).expect(input[input.len() - 1]);
    let mut hashes = vec![Vec::new(); 2];
    for line in String::from_utf8_lossy(&ran.out)
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let stream: usize = fields[0].parse().expect("a stream");
        hashes[stream].push(fields[fields.len() - 1].to_owned());
    }
    hashes
}

#[test]
fn ffmpeg_has_every_picture_and_frame_but_the_last_ones() {
    let films = library(&["transport", "transport_mpeg2"]);
    let server = Options::new(&films).patient().start();
    server.wait_indexed();
    std::thread::scope(|scope| {
        for name in ["transport", "transport_mpeg2"] {
            for protocol in ["tcp", "udp"] {
                let server = &server;
                scope.spawn(move || {
                    let url = address(server, name);
                    let got = hashes(&[
                        "-rtsp_transport",
                        protocol,
                        "-buffer_size",
                        "4000000",
                        "-i",
                        &url,
                    ]);
                    let path = film(name).path;
                    let all = hashes(&["-i", path.to_str().expect("UTF-8")]);
                    for (got, all) in got.iter().zip(&all) {
                        // Frames that began before the first picture are incomplete and are left
                        // out.
                        let first = all.iter().position(|hash| *hash == got[0]);
                        let first = first
                            .unwrap_or_else(|| panic!("{name} over {protocol}: another beginning"));
                        // At the end of such a stream, ffmpeg does not complete the last frames.
                        let got = &got[..got.len() - 1];
                        let (end, most) = (first + got.len(), all.len());
                        assert!(got == &all[first..end], "{name} over {protocol}");
                        let is_most = first <= 9 && most - end <= 9;
                        assert!(is_most, "{name} over {protocol}: {first}..{end} of {most}");
                    }
                });
            }
        }
    });
}

#[test]
fn gstreamer_receives_every_byte() {
    let films = library(&["transport"]);
    let server = Options::new(&films).patient().start();
    server.wait_indexed();
    let file = std::fs::read(film("transport").path).expect("the film");
    let folder = temp_dir("as-ts");
    std::thread::scope(|scope| {
        for protocol in ["tcp", "udp"] {
            let (server, file, folder) = (&server, &file, &folder);
            scope.spawn(move || {
                let path = folder.path().join(protocol);
                let into = path.to_str().expect("UTF-8");
                let viewer = scripted(
                    "multiplex.py",
                    &address(server, "transport"),
                    protocol,
                    &[into],
                );
                run(viewer, Duration::from_secs(100)).expect("GStreamer");
                let got = std::fs::read(&path).expect("what it has received");
                assert!(
                    got[2 * PACKET..] == file[file.len() - got.len() + 2 * PACKET..],
                    "{protocol}"
                );
                assert!(
                    got.len() > file.len() * 9 / 10,
                    "{protocol}: {} bytes",
                    got.len()
                );
            });
        }
    });
}

/// SETs UP a film without RTP, with this destination.
fn set_up_plain(viewer: &mut Client, url: &str, to: SocketAddr) -> Response {
    let (ip, port) = (to.ip(), to.port());
    let transport = format!("MP2T/H2221/UDP;unicast;destination={ip};client_port={port}");
    let answer = viewer.request("SETUP", url, &[("Transport", &transport)]);
    answer.expect("an answer")
}

#[test]
fn without_rtp_it_goes_to_addresses_that_the_operator_allows() {
    let films = library(&["transport"]);
    let options = Options::new(&films)
        .patient()
        .set("rtsp.plain_udp", "[\"127.0.0.0/30\"]");
    let server = options.start();
    server.wait_indexed();
    let url = address(&server, "transport");
    let (_, over_rtp) = plays(&server, "transport", "0");
    let expected: Vec<Vec<u8>> = over_rtp.into_iter().map(|(.., payload)| payload).collect();

    let mut viewer = Client::connect(server.rtsp).expect("the server");
    let refused = set_up_plain(
        &mut viewer,
        &url,
        "127.0.0.9:5000".parse().expect("an address"),
    );
    assert_eq!(refused.status, 461);
    assert!(refused.reason.contains("rtsp.plain_udp"), "{refused:?}");

    // To an address other than the request's, and to its own.
    for ip in ["127.0.0.2", "127.0.0.1"] {
        let socket = UdpSocket::bind((ip, 0)).expect("a socket");
        socket
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a limit");
        let to = socket.local_addr().expect("its address");
        let mut viewer = Client::connect(server.rtsp).expect("the server");
        let agreed = set_up_plain(&mut viewer, &url, to);
        assert_eq!(agreed.status, 200, "{agreed:?}");
        let said = format!(
            "destination={ip};client_port={};source=127.0.0.1",
            to.port()
        );
        assert!(agreed.header("transport").contains(&said), "{agreed:?}");
        let play = viewer.request("PLAY", &url, &[]).expect("PLAY");
        assert_eq!(
            (play.status, play.header("rtp-info")),
            (200, ""),
            "{play:?}"
        );
        let mut room = [0; 2000];
        for (number, packet) in expected.iter().enumerate() {
            let len = socket.recv(&mut room).expect("a packet");
            assert!(room[..len] == packet[..], "{ip}: packet {number}");
        }
        let sessions = server.get("/api/sessions").json();
        let all = sessions["sessions"].as_array().expect("a list");
        let mut peers = all.iter().filter_map(|session| session["peer"].as_str());
        let is_shown = peers.any(|peer| peer.starts_with(&format!("{ip}:")));
        assert!(is_shown, "{ip}: {sessions}");
    }
}

#[test]
fn ffmpeg_plays_it_without_rtp() {
    let films = library(&["transport"]);
    let options = Options::new(&films)
        .patient()
        .set("rtsp.plain_udp", "[\"127.0.0.1\"]");
    let server = options.start();
    server.wait_indexed();
    let url = address(&server, "transport");
    let place = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = place.local_addr().expect("its address");
    drop(place);
    let input = format!(
        "udp://127.0.0.1:{}?timeout=3000000&fifo_size=1000000",
        to.port()
    );
    let got = std::thread::scope(|scope| {
        let player = scope.spawn(|| hashes(&["-i", &input]));
        let is_there = wait::until(Duration::from_secs(20), || {
            wait::has_socket(to.port()).then_some(())
        });
        is_there.expect("ffmpeg listens");
        let mut viewer = Client::connect(server.rtsp).expect("the server");
        assert_eq!(set_up_plain(&mut viewer, &url, to).status, 200);
        assert_eq!(viewer.request("PLAY", &url, &[]).expect("PLAY").status, 200);
        player.join().expect("ffmpeg")
    });
    let path = film("transport").path;
    let all = hashes(&["-i", path.to_str().expect("UTF-8")]);
    for (got, all) in got.iter().zip(&all) {
        let first = all.iter().position(|hash| *hash == got[0]);
        let first = first.expect("a beginning that the film has");
        assert!(first <= 9 && got.len() + first + 9 >= all.len());
        // ffmpeg does not complete the last frame.
        let got = &got[..got.len() - 1];
        assert!(got == &all[first..first + got.len()]);
    }
}

#[test]
fn what_is_no_transport_stream_is_not_sent_as_one() {
    let films = library(&["progressive", "program"]);
    let server = Options::new(&films).patient().start();
    server.wait_indexed();
    let mut viewer = Client::connect(server.rtsp).expect("the server");
    for name in ["progressive", "program"] {
        let url = address(&server, name);
        let answer = viewer.request("DESCRIBE", &url, &[("Accept", "application/sdp")]);
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 415, "{answer:?}");
        let words =
            "is no transport stream that can be sent as it is; its tracks can: ask without ?as=ts";
        assert!(answer.reason.contains(words), "{answer:?}");
    }
}

/// The same stream with packets of 188, 192 and 204 bytes.
const LAID_OUT: [&str; 3] = ["transport", "transport_timed", "transport_corrected"];

/// Each packet's time since the first, and its payload.
fn timed(packets: &[(u16, u32, Vec<u8>)]) -> Vec<(u32, Vec<u8>)> {
    let since = |time: u32| time.wrapping_sub(packets[0].1);
    let one = |(_, time, payload): &(u16, u32, Vec<u8>)| (since(*time), payload.clone());
    packets.iter().map(one).collect()
}

/// Returns the RTP packets from there on, which are the same whatever lies between the packets of
/// the file.
fn all_alike(server: &Server, from: &str) -> Vec<(u32, Vec<u8>)> {
    let all = LAID_OUT.map(|name| timed(&plays(server, name, from).1));
    assert!(all[0].len() > 20);
    for (other, name) in all.iter().zip(LAID_OUT) {
        assert!(*other == all[0], "{name} from {from}");
    }
    let [first, ..] = all;
    first
}

#[test]
fn what_lies_between_packets_in_the_file_is_not_sent() {
    let films = library(&LAID_OUT);
    let options = Options::new(&films)
        .patient()
        .set("rtsp.plain_udp", "[\"127.0.0.1\"]");
    let server = options.start();
    server.wait_indexed();
    let over_rtp = all_alike(&server, "0");
    all_alike(&server, "2.5");

    for name in &LAID_OUT[1..] {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let limit = Some(Duration::from_secs(20));
        socket.set_read_timeout(limit).expect("a limit");
        let (url, to) = (address(&server, name), socket.local_addr());
        let mut viewer = Client::connect(server.rtsp).expect("the server");
        let agreed = set_up_plain(&mut viewer, &url, to.expect("its address"));
        assert_eq!(agreed.status, 200, "{agreed:?}");
        assert_eq!(viewer.request("PLAY", &url, &[]).expect("PLAY").status, 200);
        let mut room = [0; 2000];
        for (number, (_, packet)) in over_rtp.iter().enumerate() {
            let len = socket.recv(&mut room).expect("a packet");
            assert!(room[..len] == packet[..], "{name}: packet {number}");
        }
    }
    let film = server.get("/api/films/transport_timed").json();
    let address = film["urls"]["transport_stream"].as_str();
    assert!(
        address.is_some_and(|address| address.ends_with("?as=ts")),
        "{film}"
    );
}

#[test]
fn an_edge_sends_it_and_a_server_that_was_started_again() {
    let films = library(&LAID_OUT);
    let (folder, origin) = (
        temp_dir("as-ts-state"),
        Options::new(&films).patient().start(),
    );
    origin.wait_indexed();
    let direct = all_alike(&origin, "0");
    let edge = Options::edge(&format!("http://{}/", origin.http))
        .patient()
        .start();
    edge.wait_indexed();
    assert!(all_alike(&edge, "0") == direct);
    let start = || Options::new(&films).patient().state(folder.path()).start();
    let server = start();
    server.wait_indexed();
    drop(server);
    let again = start();
    again.wait_indexed();
    assert!(all_alike(&again, "0") == direct);
}

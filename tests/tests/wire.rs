//! What is on the wire: two hosts with a cable between them, and a capture at the viewer's end.
//! Needs root, for the hosts are network namespaces.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use reelway_tests::capture::Packet;
use reelway_tests::films;
use reelway_tests::network::{Network, OTHER, SERVER, SERVER_V6, VIEWER, VIEWER_V6};
use reelway_tests::probe::{self, Edits};
use reelway_tests::rtsp::{Client, Rtp, RtpInfo, SenderReport, UdpTrack, rtp_info, sender_report};
use reelway_tests::server::{Options, Server};

/// An Ethernet's.
const MTU: usize = 1500;
/// The server's default.
const BURST: usize = 8;
/// The RTP clock rate of pictures.
const PICTURE_RATE: u32 = 90_000;

fn second(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

/// A server on its host, with these films. Drop it before the network.
#[track_caller]
fn serve(network: &Network, names: &[&str]) -> (Server, tempfile::TempDir) {
    serve_at(network, SERVER, names)
}

#[track_caller]
fn serve_at(network: &Network, address: IpAddr, names: &[&str]) -> (Server, tempfile::TempDir) {
    let library = films::library(names);
    let server = Options::new(library.path()).namespace(network.server(), address);
    // Readiness is asked over the cable.
    let server = network.as_viewer(|| {
        let server = server.start();
        server.wait_indexed();
        server
    });
    (server, library)
}

/// A packet that came over the cable, as RTP.
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

/// The sender reports in a capture, with the times they came at and how many packets came before.
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

/// SSRC in a `Transport` header.
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

/// How far `seq` lies behind `from`, over the wrap.
fn after(seq: u16, from: u16) -> i16 {
    seq.wrapping_sub(from) as i16
}

/// What a viewer over UDP asked for and was told.
struct Told {
    ssrcs: Vec<u32>,
    /// Start of the range and entries of RTP-Info, for each PLAY.
    plays: Vec<(f64, Vec<RtpInfo>)>,
}

/// Watches a film over UDP: each range for as long.
fn watch(server: &Server, title: &str, ranges: &[(&str, Duration)]) -> Told {
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
    Told { ssrcs, plays }
}

#[test]
fn packets_keep_the_mtu_the_burst_rule_and_their_sequence() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["load", "big_pictures"]);
    for (title, seconds) in [("load", 8.0), ("big_pictures", 1.5)] {
        let capture = network.capture();
        let told = network.as_viewer(|| watch(&server, title, &[("npt=0-", second(seconds))]));
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
            told.ssrcs.len(),
            "{title}: other SSRCs than in Transport"
        );
        for (ssrc, came) in &came {
            assert!(
                told.ssrcs.contains(ssrc),
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
    let told = network.as_viewer(|| watch(&server, "load", &ranges));
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
    assert_eq!(came.len(), told.ssrcs.len());
    for came in came.values() {
        for pair in came.windows(2) {
            assert_eq!(after(pair[1].rtp.seq, pair[0].rtp.seq), 1, "a hole");
        }
    }
    burst_rule("load over IPv6", &came);
}

/// In any millisecond at most `max(BURST, what the frames' rates need)` packets of the stream.
fn burst_rule(title: &str, came: &BTreeMap<u32, Vec<Came>>) {
    // What a frame's rate needs: its packets over the 40 ms it lasts. (Sound frames are one packet.)
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
        // Just short of a millisecond: two turns' beginnings are as far apart as the clock ticks.
        while last.at - all[start].at >= 950_000 {
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

#[test]
fn rtp_info_and_sender_reports_are_true() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["seeks"]);
    let film = films::film("seeks");
    let streams = probe::streams(&film.path, Edits::Apply);
    let bytes = std::fs::read(&film.path).expect("the film");

    let capture = network.capture();
    let told = network.as_viewer(|| {
        watch(
            &server,
            "seeks",
            &[("npt=8.5-", second(6.5)), ("npt=21-", second(2.0))],
        )
    });
    let packets = capture.finish().expect("a capture");
    let came = by_ssrc(&packets, &server);

    // GOPs begin at 7.2 and 20 s.
    let starts: Vec<f64> = told.plays.iter().map(|(start, _)| *start).collect();
    assert!(
        (starts[0] - 7.2).abs() < 0.001 && (starts[1] - 20.0).abs() < 0.001,
        "began at {starts:?}"
    );

    for (start, infos) in &told.plays {
        assert_eq!(infos.len(), 2, "one entry a track");
        for ((ssrc, info), stream) in told.ssrcs.iter().zip(infos).zip(&streams) {
            let came = &came[ssrc];
            let first = came
                .iter()
                .position(|came| came.rtp.seq == info.seq)
                .expect("the packet that RTP-Info names");
            let rate = if stream.kind == "video" {
                PICTURE_RATE
            } else {
                stream.timescale
            };
            let time_of = |rtp: &Rtp| {
                start + f64::from(rtp.time.wrapping_sub(info.rtptime) as i32) / f64::from(rate)
            };
            if stream.kind == "video" {
                assert_eq!(
                    came[first].rtp.time, info.rtptime,
                    "the first picture is the range's start"
                );
                // Presentation times in decode order, from that sync sample on.
                let key = stream.packets.iter().position(|packet| {
                    packet.key
                        && (packet.pts as f64 / f64::from(stream.timescale) - start).abs() < 0.001
                });
                let mut pictures = came[first..]
                    .iter()
                    .map(|came| came.rtp)
                    .collect::<Vec<_>>();
                pictures.dedup_by_key(|rtp| rtp.time);
                for (rtp, packet) in pictures
                    .iter()
                    .zip(&stream.packets[key.expect("a GOP at the start")..])
                    .take(40)
                {
                    let expected = packet.pts as f64 / f64::from(stream.timescale);
                    assert!(
                        (time_of(rtp) - expected).abs() < 1.5 / f64::from(rate),
                        "a picture of {expected} s is sent as of {} s",
                        time_of(rtp)
                    );
                }
            } else {
                assert!(
                    (time_of(&came[first].rtp) - start).abs() < 0.1,
                    "sound begins at {} s",
                    time_of(&came[first].rtp)
                );
                for came in came[first..].iter().take(20) {
                    let unit = first_access_unit(came.rtp.payload);
                    let at = time_of(&came.rtp) * f64::from(stream.timescale);
                    let packet = stream
                        .packets
                        .iter()
                        .min_by_key(|packet| (packet.pts as f64 - at).abs() as i64);
                    let packet = packet.expect("a packet");
                    assert!(
                        (packet.pts as f64 - at).abs() < 1.5,
                        "no sound frame at tick {at}"
                    );
                    let pos = packet.pos.expect("a position") as usize;
                    assert!(
                        bytes[pos..].starts_with(unit),
                        "at {} s another sound frame is sent",
                        time_of(&came.rtp)
                    );
                }
            }
        }
    }
    sender_reports(
        &packets,
        &server,
        &told,
        &[PICTURE_RATE, streams[1].timescale],
    );
}

/// The first access unit of an AAC-hbr payload (RFC 3640 3.3.6: 13 bits of size, 3 of index).
fn first_access_unit(payload: &[u8]) -> &[u8] {
    let headers = usize::from(u16::from_be_bytes([payload[0], payload[1]])) / 8;
    let size = usize::from(u16::from_be_bytes([payload[2], payload[3]]) >> 3);
    let start = 2 + headers;
    &payload[start..(start + size).min(payload.len())]
}

fn sender_reports(packets: &[Packet], server: &Server, told: &Told, rates: &[u32]) {
    let reports = reports(packets, server);
    // The second PLAY's answer parts the reports: those before it are of the first range.
    let answers: Vec<usize> = answers(packets, server);
    let mut lines = Vec::new();
    for (at, number, report) in &reports {
        let track = told
            .ssrcs
            .iter()
            .position(|ssrc| *ssrc == report.ssrc)
            .expect("a report of a known SSRC");
        let play = answers
            .iter()
            .rposition(|answer| answer < number)
            .expect("no report before the PLAY answer");
        let (start, infos) = &told.plays[play.min(1)];
        // NTP counts from 1900.
        let wall = (report.ntp >> 32) as f64 - 2_208_988_800.0
            + (report.ntp & 0xffff_ffff) as f64 / 4_294_967_296.0;
        let late = *at as f64 / 1e9 - wall;
        assert!((-0.002..0.05).contains(&late), "a report of {late} s ago");
        let position = start
            + f64::from(report.rtp_time.wrapping_sub(infos[track].rtptime) as i32)
                / f64::from(rates[track]);
        lines.push((play.min(1), track, position - wall));
        // A report may be written while a slice of the same turn is on its way.
        let before = packets[..*number]
            .iter()
            .filter(|packet| packet.udp && packet.from.port() == server.rtp);
        let sent: Vec<Rtp> = before
            .map(|packet| Rtp::parse(&packet.payload).expect("RTP"))
            .filter(|rtp| rtp.ssrc == report.ssrc)
            .collect();
        let bytes: usize = sent.iter().map(|rtp| rtp.payload.len()).sum();
        let missing = sent.len().abs_diff(report.packets as usize);
        assert!(
            missing <= BURST,
            "a report of {} packets when {} had been sent",
            report.packets,
            sent.len()
        );
        assert!(
            bytes.abs_diff(report.bytes as usize) <= missing * MTU,
            "a report of {} bytes, {bytes} sent",
            report.bytes
        );
    }
    for play in 0..2 {
        let of_play: Vec<_> = lines.iter().filter(|line| line.0 == play).collect();
        for track in 0..2 {
            assert!(
                of_play.iter().any(|line| line.1 == track),
                "no report of track {track} after PLAY {play}"
            );
        }
        for line in &of_play {
            let apart = line.2 - of_play[0].2;
            assert!(
                apart.abs() < 0.001,
                "tracks are {apart} s apart by their sender reports"
            );
        }
    }
    // At once after each PLAY, then every 5 s: 6.5 s hold two of each track.
    let first: Vec<_> = lines
        .iter()
        .filter(|line| line.0 == 0 && line.1 == 0)
        .collect();
    assert!(
        (2..=3).contains(&first.len()),
        "{} reports in 6.5 s",
        first.len()
    );
    for play in 0..2 {
        let answered = packets[answers[play]].at;
        let report = reports
            .iter()
            .find(|report| report.1 > answers[play])
            .expect("a report");
        assert!(
            report.0 - answered < 200_000_000,
            "the first report comes {} ns after the answer",
            report.0 - answered
        );
    }
}

/// Where in the capture the answers to PLAY are.
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
fn after_the_answer_to_a_seek_nothing_of_the_old_place_comes_over_udp() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["load", "seeks"]);
    for title in ["load", "seeks"] {
        let capture = network.capture();
        let ranges = [
            ("npt=0-", 1.3),
            ("npt=20-", 0.9),
            ("npt=3-", 0.7),
            ("npt=33-", 0.31),
            ("npt=12-", 0.5),
        ];
        let ranges: Vec<(&str, Duration)> = ranges
            .iter()
            .map(|(range, time)| (*range, second(*time)))
            .collect();
        let told = network.as_viewer(|| watch(&server, title, &ranges));
        let packets = capture.finish().expect("a capture");
        let answers = answers(&packets, &server);
        assert_eq!(answers.len(), ranges.len(), "an answer to each PLAY");
        for (track, ssrc) in told.ssrcs.iter().enumerate() {
            let mut last: Option<u16> = None;
            for (number, packet) in packets.iter().enumerate() {
                if !packet.udp || packet.from.port() != server.rtp {
                    continue;
                }
                let rtp = Rtp::parse(&packet.payload).expect("RTP");
                if rtp.ssrc != *ssrc {
                    continue;
                }
                let play = answers
                    .iter()
                    .rposition(|answer| *answer < number)
                    .expect("no media before the PLAY answer");
                let info = &told.plays[play].1[track];
                assert!(
                    after(rtp.seq, info.seq) >= 0,
                    "{title}: packet {} came after the answer that begins with {}",
                    rtp.seq,
                    info.seq
                );
                if let Some(last) = last {
                    assert_eq!(
                        after(rtp.seq, last),
                        1,
                        "{title}: the sequence runs on through a seek"
                    );
                }
                last = Some(rtp.seq);
            }
            for (_, infos) in &told.plays {
                assert!(
                    packets.iter().any(|packet| packet.udp
                        && packet.from.port() == server.rtp
                        && Rtp::parse(&packet.payload)
                            .is_ok_and(|rtp| rtp.ssrc == *ssrc && rtp.seq == infos[track].seq)),
                    "{title}: the packet that RTP-Info names was sent"
                );
            }
        }
    }
}

#[test]
fn after_the_answer_to_a_seek_nothing_of_the_old_place_comes_over_tcp() {
    let library = films::library(&["load"]);
    let server = Server::start(library.path());
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let url = server.rtsp_url("load");
    let tracks = client.setup_tcp(&url).expect("SETUP");
    let mut last: Vec<Option<u16>> = vec![None; tracks];
    for (n, range) in ["npt=0-", "npt=40-", "npt=7-", "npt=22.2-"]
        .into_iter()
        .enumerate()
    {
        let answer = client
            .request("PLAY", &url, &[("Range", range)])
            .expect("PLAY");
        assert_eq!(answer.status, 200, "{answer:?}");
        if n == 0 {
            assert_eq!(
                answer.frames_before, 0,
                "media came before the first PLAY was answered"
            );
        }
        let infos = rtp_info(answer.header("rtp-info")).expect("RTP-Info");
        // What came before the answer is of the old place, what comes after it of the new one.
        let old: Vec<_> = client.frames.drain(..).collect();
        let mut seen = vec![0; tracks];
        let until = reelway_tests::wait::Deadline::after(second(1.5));
        let mut new = Vec::new();
        while !until.over() {
            new.extend(client.frame(until.left()).expect("frames"));
        }
        for (frame, is_new) in old
            .iter()
            .map(|frame| (frame, false))
            .chain(new.iter().map(|frame| (frame, true)))
        {
            if frame.channel % 2 == 1 {
                continue;
            }
            let track = usize::from(frame.channel / 2);
            let rtp = Rtp::parse(&frame.data).expect("RTP");
            assert_eq!(
                after(rtp.seq, infos[track].seq) >= 0,
                is_new,
                "packet {} of PLAY {n}, which begins with {}",
                rtp.seq,
                infos[track].seq
            );
            if let Some(last) = last[track] {
                assert_eq!(after(rtp.seq, last), 1, "no hole through a seek");
            }
            if is_new && seen[track] == 0 {
                assert_eq!(
                    rtp.seq, infos[track].seq,
                    "the first packet is the one that RTP-Info names"
                );
            }
            seen[track] += usize::from(is_new);
            last[track] = Some(rtp.seq);
        }
        assert!(
            seen.iter().all(|seen| *seen > 10),
            "both tracks play after PLAY {n}: {seen:?} packets"
        );
    }
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

        // A session cannot be taken over from elsewhere with its number.
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

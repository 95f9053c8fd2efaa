//! RTP-Info and sender reports are correct.

use reelway_tests::capture::Packet;
use reelway_tests::films;
use reelway_tests::network::Network;
use reelway_tests::probe::{self, Edits};
use reelway_tests::rtsp::Rtp;
use reelway_tests::server::Server;

use super::{BURST, MTU, Watched, answers, by_ssrc, reports, second, serve, watch};

/// The RTP clock rate of video.
const PICTURE_RATE: u32 = 90_000;

#[test]
fn rtp_info_and_sender_reports_are_true() {
    let network = Network::new();
    let (server, _library) = serve(&network, &["seeks"]);
    let film = films::film("seeks");
    let streams = probe::streams(&film.path, Edits::Apply);
    let bytes = std::fs::read(&film.path).expect("the film");

    let capture = network.capture();
    let watched = network.as_viewer(|| {
        watch(
            &server,
            "seeks",
            &[("npt=8.5-", second(6.5)), ("npt=21-", second(2.0))],
        )
    });
    let packets = capture.finish().expect("a capture");
    let came = by_ssrc(&packets, &server);

    // GOPs begin at 7.2 and 20 s.
    let starts: Vec<f64> = watched.plays.iter().map(|(start, _)| *start).collect();
    assert!(
        (starts[0] - 7.2).abs() < 0.001 && (starts[1] - 20.0).abs() < 0.001,
        "began at {starts:?}"
    );

    for (start, infos) in &watched.plays {
        assert_eq!(infos.len(), 2, "one entry a track");
        for ((ssrc, info), stream) in watched.ssrcs.iter().zip(infos).zip(&streams) {
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
        &watched,
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

fn sender_reports(packets: &[Packet], server: &Server, watched: &Watched, rates: &[u32]) {
    let reports = reports(packets, server);
    // The second response to PLAY separates the reports: earlier ones belong to the first range.
    let answers: Vec<usize> = answers(packets, server);
    let mut lines = Vec::new();
    for (at, number, report) in &reports {
        let track = watched
            .ssrcs
            .iter()
            .position(|ssrc| *ssrc == report.ssrc)
            .expect("a report of a known SSRC");
        let play = answers
            .iter()
            .rposition(|answer| answer < number)
            .expect("no report before the PLAY answer");
        let (start, infos) = &watched.plays[play.min(1)];
        // NTP counts from 1900.
        let wall = (report.ntp >> 32) as f64 - 2_208_988_800.0
            + (report.ntp & 0xffff_ffff) as f64 / 4_294_967_296.0;
        let late = *at as f64 / 1e9 - wall;
        assert!((-0.002..0.05).contains(&late), "a report of {late} s ago");
        let position = start
            + f64::from(report.rtp_time.wrapping_sub(infos[track].rtptime) as i32)
                / f64::from(rates[track]);
        lines.push((play.min(1), track, position - wall));
        // A report may be written while some packets of the same turn are still on their way.
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
    // One at once after each PLAY, then one every 5 s: in 6.5 s there are two for each track.
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
        // The report comes after the answer, although their times can be in the other order.
        let apart = report.0.abs_diff(answered);
        assert!(
            apart < 200_000_000,
            "the answer and the first report are {apart} ns apart"
        );
    }
}

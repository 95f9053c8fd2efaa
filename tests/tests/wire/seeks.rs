//! No packet from the old position arrives after the response to a seek.

use std::time::Duration;

use reelway_tests::films;
use reelway_tests::network::Network;
use reelway_tests::rtsp::{Client, Rtp, rtp_info};
use reelway_tests::server::Server;

use super::{after, answers, second, serve, watch};

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
        let watched = network.as_viewer(|| watch(&server, title, &ranges));
        let packets = capture.finish().expect("a capture");
        let answers = answers(&packets, &server);
        assert_eq!(answers.len(), ranges.len(), "an answer to each PLAY");
        for (track, ssrc) in watched.ssrcs.iter().enumerate() {
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
                let info = &watched.plays[play].1[track];
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
            for (_, infos) in &watched.plays {
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
        // Packets before the response are from the old position, those after it from the new one.
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

//! What each method does, and what is answered where it cannot.

mod common;

use std::time::Duration;

use common::{Answer, Server};
use reelway_clock::Monotonic;
use reelway_media::SECOND;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::machine::Event;
use reelway_session::Refusal;

const UDP: &str = "Transport: RTP/AVP;unicast;client_port=5000-5001";

#[test]
fn options_names_the_methods_for_the_server_and_for_any_film() {
    let mut server = Server::new();
    let conn = server.connect();
    for url in ["*", "rtsp://h/", "rtsp://h/no/such/film"] {
        let answer = server.must(conn, &format!("OPTIONS {url}"));
        assert!(
            answer
                .get("Public")
                .unwrap()
                .contains("DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER")
        );
    }
}

#[test]
fn the_sequence_number_comes_back_on_errors_too() {
    let mut server = Server::new();
    let conn = server.connect();
    for request in [
        "FLY rtsp://h/x",
        "DESCRIBE rtsp://h/x",
        "PLAY rtsp://h/x",
        "SETUP rtsp://h/x",
        "RECORD rtsp://h/x",
    ] {
        let answer = server.ask(conn, request);
        assert!(
            answer.code >= 400 && answer.get("CSeq") == Some("77"),
            "{request}: {answer:?}"
        );
    }
    let without = Answer::parse(&server.send(conn, b"OPTIONS * RTSP/1.0\r\n\r\n"));
    assert_eq!((without.code, without.get("CSeq")), (400, None));
}

#[test]
fn what_is_not_understood_has_its_own_status() {
    let mut server = Server::new();
    let conn = server.connect();
    assert_eq!(server.ask(conn, "FLY rtsp://h/x").code, 501);
    let record = server.ask(conn, "RECORD rtsp://h/x");
    assert_eq!(record.code, 405);
    assert!(record.get("Allow").unwrap().contains("PLAY"));
    let two = Answer::parse(&server.send(conn, b"OPTIONS * RTSP/2.0\r\nCSeq: 1\r\n\r\n"));
    assert_eq!(two.code, 505);
    let require = server.ask(
        conn,
        "SETUP rtsp://h/nature/bunny/track=1\nRequire: onvif-replay, x\nProxy-Require: y",
    );
    assert_eq!(
        (require.code, require.get("Unsupported")),
        (551, Some("onvif-replay, x, y"))
    );
}

#[test]
fn describe_gives_the_description_and_where_tracks_are_below() {
    let mut server = Server::new();
    let conn = server.connect();
    for url in [
        "rtsp://h:8554/nature/bunny",
        "rtsp://me:pw@h:8554//nature/bunny/",
        "rtsp://h:8554/nature/bunny/track=1",
    ] {
        let answer = server.must(conn, &format!("DESCRIBE {url}\nAccept: application/sdp"));
        assert_eq!(
            answer.get("Content-Base"),
            Some("rtsp://h:8554/nature/bunny/"),
            "{url}"
        );
        assert_eq!(answer.get("Content-Type"), Some("application/sdp"));
        assert!(
            answer
                .body
                .starts_with("v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\n")
        );
    }
    let path = server.must(conn, "DESCRIBE /nature/bunny");
    assert_eq!(
        path.get("Content-Base"),
        Some("rtsp://10.0.0.1:8554/nature/bunny/")
    );
    let odd = server.must(conn, "DESCRIBE rtsp://h/a,%20\"b\"%20🎬");
    assert_eq!(
        odd.get("Content-Base"),
        Some("rtsp://h/a%2C%20%22b%22%20%F0%9F%8E%AC/")
    );
    let film = server.must(conn, "DESCRIBE rtsp://h/track=9");
    assert_eq!(film.get("Content-Base"), Some("rtsp://h/track%3D9/"));
}

#[test]
fn feedback_is_offered_to_who_reads_it_and_had_by_who_asks_for_it() {
    let describe = "DESCRIBE rtsp://h/nature/bunny\nUser-Agent:";
    let mut server = Server::new();
    let conn = server.connect();
    let told = server.must(conn, &format!("{describe} GStreamer/1.22.0"));
    assert!(!told.body.contains("RTP/AVPF"), "{told:?}");
    let mut server = Server::with(RtspConfig {
        offer_retransmission: true,
        ..RtspConfig::default()
    });
    let conn = server.connect();
    let told = server.must(conn, &format!("{describe} GStreamer/1.22.0"));
    assert!(told.body.contains("RTP/AVPF"), "{told:?}");
    for other in [
        "LibVLC/3.0.20 (LIVE555 Streaming Media v2020.01.19)",
        "Lavf60",
    ] {
        let told = server.must(conn, &format!("{describe} {other}"));
        assert!(!told.body.contains("RTP/AVPF"), "{told:?}");
    }
    let first =
        "SETUP rtsp://h/nature/bunny/track=1\nTransport: RTP/AVPF;unicast;client_port=5000-5001";
    let answer = server.must(conn, first);
    let session = answer.session();
    assert!(
        answer
            .get("Transport")
            .unwrap()
            .starts_with("RTP/AVPF;unicast;client_port=5000-5001;")
    );
    server.must(
        conn,
        &format!("SETUP rtsp://h/nature/bunny/track=2\n{UDP}\nSession: {session}"),
    );
    server.play(conn, &session, "");
    let tracks = &server.playbacks[&session].order.tracks;
    let again = tracks[0].again.expect("lost packets are sent again");
    assert_ne!(again.payload_type, tracks[0].track.payload_type);
    assert!(tracks.iter().all(|track| track.ssrc != again.ssrc));
    assert_eq!(tracks[1].again, None, "who did not ask does not get");
}

#[test]
fn a_film_that_cannot_be_had_says_why() {
    let mut server = Server::new();
    let conn = server.connect();
    for (film, code, words) in [
        ("nothing", 404, "there is no film 'nothing'"),
        ("copying", 503, "still growing"),
        ("av1", 415, "AV1 does not go over RTP yet"),
        ("", 404, "no film is named"),
    ] {
        let answer = server.ask(conn, &format!("DESCRIBE rtsp://h/{film}"));
        assert_eq!(answer.code, code);
        assert!(answer.line.contains(words), "{}", answer.line);
        let setup = server.ask(conn, &format!("SETUP rtsp://h/{film}/track=1\n{UDP}"));
        assert_eq!(setup.code, code, "{}", setup.line);
    }
    let accept = server.ask(conn, "DESCRIBE rtsp://h/nature/bunny\nAccept: text/html");
    assert_eq!(accept.code, 406);
}

#[test]
fn setup_over_udp_names_ports_address_and_ssrc() {
    let mut server = Server::new();
    let conn = server.connect();
    let answer = server.must(conn, &format!("SETUP rtsp://h/nature/bunny/track=1\n{UDP}"));
    assert_eq!(
        answer.get("Transport"),
        Some(
            "RTP/AVP;unicast;client_port=5000-5001;server_port=8000-8001;source=10.0.0.1;ssrc=000003E9;mode=\"PLAY\""
        )
    );
    assert_eq!(answer.get("Session"), Some("session1;timeout=60"));
    assert!(
        server
            .story()
            .contains(&"rtsp/udp from 10.0.0.7:40000 wants nature/bunny".to_owned())
    );
}

#[test]
fn setup_over_tcp_honours_the_client_s_channels_and_moves_away_from_used_ones() {
    let mut server = Server::new();
    let conn = server.connect();
    let channels = |answer: &Answer| {
        let transport = answer.get("Transport").unwrap();
        transport
            .split(';')
            .find_map(|part| part.strip_prefix("interleaved="))
            .unwrap()
            .to_owned()
    };
    let tcp = "Transport: RTP/AVP/TCP;unicast;interleaved=";
    let first = server.must(
        conn,
        &format!("SETUP rtsp://h/nature/bunny/track=1\n{tcp}6-7"),
    );
    assert_eq!(channels(&first), "6-7");
    let session = first.session();
    let second = format!("SETUP rtsp://h/nature/bunny/track=2\n{tcp}6-7\nSession: {session}");
    assert_eq!(channels(&server.must(conn, &second)), "0-1");
    let again = format!("SETUP rtsp://h/nature/bunny/track=1\n{tcp}6-7\nSession: {session}");
    assert_eq!(
        channels(&server.must(conn, &again)),
        "6-7",
        "the track's own channels are free for it"
    );
}

#[test]
fn a_transport_that_cannot_be_had_is_461_with_the_reason() {
    let mut server = Server::new();
    let conn = server.connect();
    for (transport, words) in [
        ("RTP/AVP;multicast;client_port=5000-5001", "multicast"),
        (
            "RTP/AVP;unicast;client_port=5000-5001;destination=10.0.0.8",
            "media goes to 10.0.0.7",
        ),
        ("RTP/SAVP;unicast;client_port=5000-5001", "RTP/SAVP"),
        ("", "RTP/AVP"),
    ] {
        let answer = server.ask(
            conn,
            &format!("SETUP rtsp://h/nature/bunny/track=1\nTransport: {transport}"),
        );
        assert!(
            answer.code == 461 && answer.line.contains(words),
            "{transport}: {}",
            answer.line
        );
    }
    assert_eq!(
        server.ask(conn, "SETUP rtsp://h/nature/bunny/track=1").code,
        461
    );
    assert_eq!(server.machine.sessions(), 0, "nobody came in");
}

#[test]
fn the_film_as_a_whole_is_set_up_only_where_it_has_one_track() {
    let mut server = Server::new();
    let conn = server.connect();
    assert_eq!(
        server
            .ask(conn, &format!("SETUP rtsp://h/nature/bunny\n{UDP}"))
            .code,
        459
    );
    assert_eq!(
        server
            .ask(conn, &format!("SETUP rtsp://h/nature/bunny/track=7\n{UDP}"))
            .code,
        404
    );
    server.must(conn, &format!("SETUP rtsp://h/sound\n{UDP}"));
    server.must(conn, &format!("SETUP rtsp://h/track=9/track=2\n{UDP}"));
}

#[test]
fn another_film_wants_another_session() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server
        .must(conn, &format!("SETUP rtsp://h/nature/bunny/track=1\n{UDP}"))
        .session();
    let other = server.ask(
        conn,
        &format!("SETUP rtsp://h/sound/track=2\n{UDP}\nSession: {session}"),
    );
    assert_eq!(other.code, 459);
    let relative = server.ask(conn, &format!("SETUP track=2\n{UDP}\nSession: {session}"));
    assert_eq!(
        relative.code, 200,
        "a client that does not resolve a=control"
    );
}

#[test]
fn play_answers_first_and_then_lets_the_stream_go() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.story();
    let answer = server.play(conn, &session, "npt=5.5-");
    assert_eq!(
        server.story(),
        ["make 2 tracks", "seek 5.5 to 10", "answer 200", "go"]
    );
    assert_eq!(
        answer.get("Range"),
        Some("npt=4.000-"),
        "the sync sample before the wish"
    );
    // Sequence numbers and timestamps as the stream says: 400 packets and 4 seconds after their bases.
    assert_eq!(
        answer.get("RTP-Info"),
        Some(
            "url=rtsp://h/nature/bunny/track=1;seq=1402;rtptime=361003,url=rtsp://h/nature/bunny/track=2;seq=1405;rtptime=193006"
        )
    );
    assert_eq!(answer.session(), session);
}

#[test]
fn rtp_info_stands_in_the_description_s_order_and_names_tracks_as_the_client_does() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server
        .must(
            conn,
            &format!("SETUP rtsp://h//a,%20\"b\"%20🎬/track=2/\n{UDP}"),
        )
        .session();
    let first = "SETUP rtsp://h//a%2C%20%22b%22%20%F0%9F%8E%AC/track=1/\nTransport: RTP/AVP;unicast;client_port=6000-6001";
    server.must(conn, &format!("{first}\nSession: {session}"));
    let answer = server.must(
        conn,
        &format!("PLAY rtsp://h/a,%20\"b\"%20🎬/\nSession: {session}"),
    );
    let info = answer.get("RTP-Info").unwrap();
    let urls: Vec<&str> = info
        .split(',')
        .map(|entry| entry.split(';').next().unwrap())
        .collect();
    let wanted = [
        // As written in SETUP, however odd.
        "url=rtsp://h//a%2C%20%22b%22%20%F0%9F%8E%AC/track=1/",
        // What was written there cannot stand in this header.
        "url=rtsp://h/a%2C%20%22b%22%20%F0%9F%8E%AC/track=2",
    ];
    assert_eq!(urls, wanted);
}

#[test]
fn play_after_pause_goes_on_where_it_stood() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "npt=0-8");
    server.stream_is_at(&session, 3 * SECOND + SECOND / 2);
    server.story();
    let pause = server.must(
        conn,
        &format!("PAUSE rtsp://h/nature/bunny/\nSession: {session}"),
    );
    assert_eq!(pause.get("Range"), Some("npt=3.500-8.000"));
    let play = server.play(conn, &session, "");
    assert_eq!(
        play.get("Range"),
        Some("npt=3.500-8.000"),
        "to the end wished for"
    );
    assert!(play.get("RTP-Info").unwrap().contains("rtptime=316003"));
    assert_eq!(
        server.story(),
        ["pause", "answer 200", "resume", "answer 200", "go"]
    );
    let again = server.must(
        conn,
        &format!("PAUSE rtsp://h/nature/bunny/\nSession: {session}"),
    );
    assert_eq!(again.code, 200);
    server.must(
        conn,
        &format!("PAUSE rtsp://h/nature/bunny/\nSession: {session}"),
    );
    assert_eq!(
        server.story(),
        ["pause", "answer 200", "answer 200"],
        "what stands is not paused again"
    );
}

#[test]
fn play_while_playing_seeks_at_once_and_without_a_range_changes_nothing() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_tcp(conn);
    server.play(conn, &session, "");
    server.stream_is_at(&session, SECOND);
    server.story();
    assert_eq!(
        server.play(conn, &session, "npt=6-7").get("Range"),
        Some("npt=6.000-7.000")
    );
    assert_eq!(server.story(), ["seek 6 to 7", "answer 200", "go"]);
    server.stream_is_at(&session, 6 * SECOND + SECOND / 4);
    let nothing = server.play(conn, &session, "");
    assert_eq!(
        (nothing.code, nothing.get("Range"), nothing.get("RTP-Info")),
        (200, Some("npt=6.250-7.000"), None)
    );
    assert_eq!(server.story(), ["answer 200"]);
    assert_eq!(
        server.play(conn, &session, "npt=now-9").get("Range"),
        Some("npt=6.000-9.000")
    );
}

#[test]
fn after_the_end_another_play_begins_anew() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "npt=8-");
    server.stream_is_at(&session, 10 * SECOND);
    server.happen(Event::Finished {
        session: session.clone(),
    });
    server.must(
        conn,
        &format!("PAUSE rtsp://h/nature/bunny/\nSession: {session}"),
    );
    server.story();
    assert_eq!(
        server.play(conn, &session, "").get("Range"),
        Some("npt=0.000-")
    );
    assert_eq!(server.story(), ["seek 0 to 10", "answer 200", "go"]);
}

#[test]
fn ranges_outside_the_film_are_refused_and_the_stream_is_left_alone() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    server.story();
    for (range, code) in [
        ("npt=10-", 457),
        ("npt=100-", 457),
        ("npt=5-4", 457),
        ("npt=5-5", 457),
        ("npt=x-", 457),
        ("smpte=0:00:05-", 501),
        ("clock=19970123T143720Z-", 501),
    ] {
        assert_eq!(server.play(conn, &session, range).code, code, "{range}");
    }
    assert_eq!(
        server
            .story()
            .iter()
            .filter(|what| !what.starts_with("answer"))
            .count(),
        0
    );
    assert_eq!(
        server.play(conn, &session, "npt=4-1000").get("Range"),
        Some("npt=4.000-")
    );
}

#[test]
fn another_pace_is_answered_with_the_one_there_is() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    let play = format!("PLAY rtsp://h/nature/bunny\nSession: {session}\nScale: 2.0\nSpeed: 1.5");
    let answer = server.must(conn, &play);
    assert_eq!(
        (answer.get("Scale"), answer.get("Speed")),
        (Some("1.0"), Some("1.0"))
    );
    assert_eq!(server.play(conn, &session, "npt=0-").get("Scale"), None);
}

#[test]
fn tracks_that_play_together_are_played_by_the_film_s_url() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    for method in ["PLAY", "PAUSE"] {
        let track = server.ask(
            conn,
            &format!("{method} rtsp://h/nature/bunny/track=1\nSession: {session}"),
        );
        assert_eq!(track.code, 460, "{method}");
    }
    assert_eq!(
        server
            .ask(conn, &format!("PLAY rtsp://h/sound\nSession: {session}"))
            .code,
        454
    );
    assert_eq!(
        server
            .ask(conn, &format!("PLAY *\nSession: {session}"))
            .code,
        200
    );
    let alone = server
        .must(conn, &format!("SETUP rtsp://h/nature/bunny/track=2\n{UDP}"))
        .session();
    assert_eq!(
        server
            .ask(
                conn,
                &format!("PLAY rtsp://h/nature/bunny/track=1\nSession: {alone}")
            )
            .code,
        404
    );
    assert_eq!(
        server
            .ask(
                conn,
                &format!("PLAY rtsp://h/nature/bunny/track=2\nSession: {alone}")
            )
            .code,
        200
    );
}

#[test]
fn methods_have_their_states() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    assert_eq!(
        server
            .ask(
                conn,
                &format!("PAUSE rtsp://h/nature/bunny\nSession: {session}")
            )
            .code,
        200,
        "it stands"
    );
    server.play(conn, &session, "");
    let setup = format!("SETUP rtsp://h/nature/bunny/track=1\n{UDP}\nSession: {session}");
    assert_eq!(server.ask(conn, &setup).code, 455);
}

#[test]
fn a_second_request_of_a_session_that_waits_is_not_valid_now() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    let other = server.connect();
    server.hold_jobs = true;
    assert_eq!(
        server.send(
            conn,
            format!("PLAY rtsp://h/nature/bunny RTSP/1.0\r\nCSeq: 5\r\nSession: {session}\r\n\r\n")
                .as_bytes()
        ),
        ""
    );
    assert_eq!(server.play(other, &session, "").code, 455);
    server.do_jobs();
    assert_eq!(Answer::parse(&server.received(conn)).get("CSeq"), Some("5"));
}

#[test]
fn teardown_ends_the_session_or_a_track_that_has_not_played() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.must(
        conn,
        &format!("TEARDOWN rtsp://h/nature/bunny/track=2\nSession: {session}"),
    );
    assert!(
        server
            .play(conn, &session, "")
            .get("RTP-Info")
            .unwrap()
            .matches("url=")
            .count()
            == 1
    );
    server.story();
    server.must(
        conn,
        &format!("TEARDOWN rtsp://h/nature/bunny/\nSession: {session}"),
    );
    assert_eq!(
        server.story(),
        ["stop", "session1 ends: left", "answer 200"]
    );
    assert_eq!(server.play(conn, &session, "").code, 454);
    assert!(
        server.closed.is_empty(),
        "the connection may be used for the next film"
    );
    let two = server.set_up_tcp(conn);
    server.play(conn, &two, "");
    assert_eq!(
        server
            .ask(
                conn,
                &format!("TEARDOWN rtsp://h/nature/bunny/track=2\nSession: {two}")
            )
            .code,
        460
    );
}

#[test]
fn parameters_are_unknown_by_name_and_none_is_a_sign_of_life() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    for method in ["GET_PARAMETER", "SET_PARAMETER"] {
        let request =
            format!("{method} rtsp://h/nature/bunny\nSession: {session}\nContent-Length: 0");
        assert_eq!(server.must(conn, &request).session(), session);
        assert_eq!(server.ask(conn, &format!("{method} *")).code, 200);
        assert_eq!(
            server
                .ask(conn, &format!("{method} *\nSession: other"))
                .code,
            454
        );
        let bytes = format!(
            "{method} * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 20\r\n\r\nvolume: 3\r\nposition\r\n"
        );
        let unknown = Answer::parse(&server.send(conn, bytes.as_bytes()));
        assert_eq!(
            (unknown.code, unknown.body.as_str()),
            (451, "volume\r\nposition\r\n")
        );
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let mut server = Server::new();
    let conn = server.connect();
    let bytes = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\nDESCRIBE rtsp://h/sound RTSP/1.0\r\nCSeq: 2\r\n\r\nFLY * RTSP/1.0\r\nCSeq: 3\r\n\r\n";
    let answers = Answer::parse_all(&server.send(conn, bytes));
    let seen: Vec<_> = answers
        .iter()
        .map(|answer| (answer.get("CSeq").unwrap(), answer.code))
        .collect();
    assert_eq!(seen, [("1", 200), ("2", 200), ("3", 501)]);
}

#[test]
fn a_client_that_says_close_is_answered_first() {
    let mut server = Server::new();
    let conn = server.connect();
    server.must(conn, "OPTIONS *\nConnection: close\nTimestamp: 12.5");
    assert_eq!(server.closed, [conn]);
}

#[test]
fn a_timestamp_comes_back() {
    let mut server = Server::new();
    let conn = server.connect();
    assert_eq!(
        server
            .must(conn, "OPTIONS *\nTimestamp: 12.5")
            .get("Timestamp"),
        Some("12.5")
    );
}

#[test]
fn a_newcomer_may_be_refused_with_a_reason_and_a_time_to_come_back() {
    let mut server = Server::new();
    let conn = server.connect();
    let retry_after = Some(Duration::from_secs(30));
    server.refusal = Some(Refusal {
        reason: "the network is booked out until 20:15".to_owned(),
        retry_after,
    });
    let answer = server.ask(conn, &format!("SETUP rtsp://h/nature/bunny/track=1\n{UDP}"));
    assert_eq!((answer.code, answer.get("Retry-After")), (453, Some("30")));
    assert!(answer.line.contains("booked out"));
    assert_eq!(server.machine.sessions(), 0);
}

#[test]
fn what_cannot_be_understood_is_answered_and_what_cannot_be_followed_is_closed() {
    let mut server = Server::new();
    let conn = server.connect();
    let broken =
        Answer::parse(&server.send(conn, b"OPTIONS * RTSP/1.0\r\nCSeq: 3\r\nbroken\r\n\r\n"));
    assert_eq!((broken.code, broken.get("CSeq")), (400, Some("3")));
    server.must(conn, "OPTIONS *");
    let huge = Answer::parse(&server.send(
        conn,
        b"SET_PARAMETER * RTSP/1.0\r\nCSeq: 4\r\nContent-Length: 1073741824\r\n\r\n",
    ));
    assert_eq!((huge.code, huge.get("CSeq")), (413, Some("4")));
    assert_eq!(server.closed, [conn]);
    assert_eq!(server.machine.connections(), 0);
    assert!(server.now > Monotonic::ZERO);
}

//! DESCRIBE and SETUP: films and their transports.

use reelway_rtsp::RtspConfig;
use reelway_rtsp::machine::Event;

use crate::UDP;
use crate::common::{Answer, Server};

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
    let described = server.must(conn, &format!("{describe} GStreamer/1.22.0"));
    assert!(!described.body.contains("RTP/AVPF"), "{described:?}");
    let mut server = Server::with(RtspConfig {
        offer_retransmission: true,
        ..RtspConfig::default()
    });
    let conn = server.connect();
    let described = server.must(conn, &format!("{describe} GStreamer/1.22.0"));
    assert!(described.body.contains("RTP/AVPF"), "{described:?}");
    for other in [
        "LibVLC/3.0.20 (LIVE555 Streaming Media v2020.01.19)",
        "Lavf60",
    ] {
        let described = server.must(conn, &format!("{describe} {other}"));
        assert!(!described.body.contains("RTP/AVPF"), "{described:?}");
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
    let tracks = &server.streams[&session].order.tracks;
    let again = tracks[0].again.expect("lost packets are sent again");
    assert_ne!(again.payload_type, tracks[0].track.payload_type);
    assert!(tracks.iter().all(|track| track.ssrc != again.ssrc));
    assert_eq!(tracks[1].again, None, "a client that did not ask gets none");
}

#[test]
fn without_rtp_only_transport_streams_are_sent_and_only_where_the_operator_allows_it() {
    let setup = |destination: &str| {
        format!(
            "SETUP rtsp://h/nature/bunny/track=1\nTransport: MP2T/H2221/UDP;unicast;destination={destination};client_port=5000"
        )
    };
    for (networks, destination, words) in [
        (
            vec![],
            "",
            "only a film as a transport stream (?as=ts) is sent without RTP",
        ),
        (vec!["0.0.0.0/0"], "239.0.0.1", "multicast is not sent"),
    ] {
        let networks = networks.iter().map(|network| network.parse().unwrap());
        let mut server = Server::with(RtspConfig {
            plain_udp: networks.collect(),
            ..RtspConfig::default()
        });
        let conn = server.connect();
        let answer = server.ask(conn, &setup(destination));
        assert_eq!(answer.code, 461);
        assert!(answer.line.contains(words), "{}", answer.line);
    }
}

#[test]
fn a_film_that_cannot_be_had_says_why() {
    let mut server = Server::new();
    let conn = server.connect();
    for (film, code, words) in [
        ("nothing", 404, "there is no film 'nothing'"),
        ("copying", 503, "still growing"),
        ("flac", 415, "FLAC cannot be sent over RTP"),
        ("", 404, "the address names no film"),
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
            .contains(&"UdpV4 from 10.0.0.7:40000 wants nature/bunny".to_owned())
    );
}

#[test]
fn setup_over_tcp_honours_the_client_s_channels_and_moves_away_from_used_ones() {
    let mut server = Server::new();
    let conn = server.connect();
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
fn admission_learns_the_viewer_s_program_and_query() {
    let long = "x".repeat(130);
    for (agent, query, expected) in [
        ("", "", (None, None)),
        (
            "User-Agent: VLC/3.0",
            "?s=1&t=2",
            (Some("VLC/3.0"), Some("s=1&t=2")),
        ),
        ("User-Agent: a\tb", "?", (Some("ab"), None)),
        ("User-Agent: \t", "", (None, None)),
        (
            &format!("User-Agent: {long}"),
            "",
            (Some(&long[..120]), None),
        ),
    ] {
        let mut server = Server::new();
        let conn = server.connect();
        server.must(
            conn,
            &format!("SETUP rtsp://h/sound{query}\n{UDP}\n{agent}"),
        );
        let (program, asked) = &server.newcomer;
        assert_eq!((program.as_deref(), asked.as_deref()), expected, "{agent}");
    }
}

#[test]
fn who_asked_for_a_transport_stream_is_known_when_its_track_is_set_up() {
    let mut server = Server::new();
    let conn = server.connect();
    server.must(conn, "DESCRIBE rtsp://h/sound?user=ann&as=ts");
    server.must(conn, &format!("SETUP rtsp://h/sound/track=2?as=ts\n{UDP}"));
    assert_eq!(server.newcomer.1.as_deref(), Some("user=ann&as=ts"));
}

/// Returns the channels in a response to SETUP.
fn channels(answer: &Answer) -> &str {
    let transport = answer.get("Transport").expect("a transport");
    let mut parts = transport.split(';');
    parts
        .find_map(|part| part.strip_prefix("interleaved="))
        .expect("channels")
}

#[test]
fn a_pair_of_channels_is_given_only_if_both_are_free() {
    let mut server = Server::new();
    let conn = server.connect();
    let tcp = "Transport: RTP/AVP/TCP;unicast;interleaved=";
    let first = server.must(
        conn,
        &format!("SETUP rtsp://h/nature/bunny/track=1\n{tcp}1-2"),
    );
    assert_eq!(channels(&first), "1-2");
    let session = first.session();
    for wish in ["1-4", "4-2", "9-9", "x"] {
        let second =
            format!("SETUP rtsp://h/nature/bunny/track=2\n{tcp}{wish}\nSession: {session}");
        let answer = server.must(conn, &second);
        assert_eq!(channels(&answer), "4-5", "instead of {wish}");
    }
}

#[test]
fn a_connection_has_channels_for_128_tracks() {
    let mut server = Server::with(RtspConfig {
        sessions_per_connection: 129,
        ..RtspConfig::default()
    });
    let conn = server.connect();
    let setup = "SETUP rtsp://h/sound\nTransport: RTP/AVP/TCP;unicast";
    for number in 0..128 {
        let answer = server.must(conn, setup);
        let pair = format!("{}-{}", 2 * number, 2 * number + 1);
        assert_eq!(channels(&answer), pair);
    }
    let answer = server.ask(conn, setup);
    assert_eq!(answer.code, 461);
    assert!(
        answer
            .line
            .contains("no channel of this connection is free")
    );
    assert_eq!(server.machine.sessions(), 128);
}

#[test]
fn a_connection_has_no_more_sessions_than_are_allowed() {
    let mut server = Server::with(RtspConfig {
        sessions_per_connection: 2,
        ..RtspConfig::default()
    });
    let conn = server.connect();
    let setup = format!("SETUP rtsp://h/sound\n{UDP}");
    let first = server.must(conn, &setup).session();
    server.must(conn, &setup);
    let answer = server.ask(conn, &setup);
    assert_eq!(answer.code, 503);
    assert!(answer.line.contains("this connection has 2 sessions"));
    server.must(conn, &format!("TEARDOWN rtsp://h/sound\nSession: {first}"));
    server.must(conn, &setup);
}

#[test]
fn the_media_of_a_session_goes_into_one_connection() {
    let mut server = Server::new();
    let conn = server.connect();
    let tcp = "Transport: RTP/AVP/TCP;unicast";
    let first = format!("SETUP rtsp://h/nature/bunny/track=1\n{tcp}");
    let session = server.must(conn, &first).session();
    let other = server.connect_from("10.0.0.7:40001");
    let second = format!("SETUP rtsp://h/nature/bunny/track=2\n{tcp}\nSession: {session}");
    let answer = server.ask(other, &second);
    assert_eq!(answer.code, 461);
    assert!(
        answer.line.contains("another connection"),
        "{}",
        answer.line
    );
    server.must(conn, &second);
}

#[test]
fn tracks_that_are_set_up_again_over_udp_leave_the_connection() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_tcp(conn);
    for track in 1..=2 {
        let again = format!("SETUP rtsp://h/nature/bunny/track={track}\n{UDP}\nSession: {session}");
        assert!(
            server
                .must(conn, &again)
                .get("Transport")
                .unwrap()
                .contains("client_port")
        );
    }
    assert_eq!(server.play(conn, &session, "").code, 200);
    server.happen(Event::Disconnected { conn });
    assert_eq!(
        server.machine.sessions(),
        1,
        "its media does not need the connection"
    );
}

#[test]
fn tracks_with_different_transports_do_not_play_until_they_have_the_same() {
    for udp in 1..=2 {
        let mut server = Server::new();
        let conn = server.connect();
        let session = server.set_up_tcp(conn);
        let over_udp =
            |track| format!("SETUP rtsp://h/nature/bunny/track={track}\n{UDP}\nSession: {session}");
        server.must(conn, &over_udp(udp));
        server.story();
        let refused = server.play(conn, &session, "");
        assert_eq!(refused.code, 455);
        assert!(refused.line.contains("transport"), "{refused:?}");
        assert_eq!(server.story(), ["answer 455"], "no stream is made");
        server.must(conn, &over_udp(3 - udp));
        assert_eq!(server.play(conn, &session, "").code, 200);
    }
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

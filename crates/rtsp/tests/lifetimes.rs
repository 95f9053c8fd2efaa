//! Lifetimes of sessions and connections, and who may use them.

mod common;

use std::time::Duration;

use common::{PEER, Server};
use reelway_media::SECOND;
use reelway_rtsp::RtspConfig;
use reelway_rtsp::machine::{Event, Feedback, Reported};
use reelway_rtsp::seam::State;

const MINUTE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(50);

#[test]
fn a_session_belongs_to_its_address_and_cannot_be_taken_over_from_elsewhere() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    let stranger = server.connect_from("10.0.0.8:40000");
    for request in [
        "PLAY rtsp://h/nature/bunny",
        "PAUSE rtsp://h/nature/bunny",
        "TEARDOWN rtsp://h/nature/bunny",
        "GET_PARAMETER rtsp://h/nature/bunny",
        "OPTIONS *",
        "SETUP rtsp://h/nature/bunny/track=2\nTransport: RTP/AVP;unicast;client_port=1-2",
    ] {
        assert_eq!(
            server
                .ask(stranger, &format!("{request}\nSession: {session}"))
                .code,
            454,
            "{request}"
        );
    }
    let same_host = server.connect_from("10.0.0.7:50000");
    assert_eq!(
        server.play(same_host, &session, "").code,
        200,
        "a new connection of the same address"
    );
    let in_disguise = server.connect_from("[::ffff:10.0.0.7]:50001");
    assert_eq!(
        server.play(in_disguise, &session, "").code,
        200,
        "IPv4 through a dual-stack listener"
    );
}

#[test]
fn a_stranger_s_attempts_are_no_sign_of_life() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    let stranger = server.connect_from("10.0.0.8:40000");
    for _ in 0..2 {
        server.wait(SOON);
        server.ask(stranger, &format!("GET_PARAMETER *\nSession: {session}"));
    }
    assert_eq!(server.machine.sessions(), 0);
}

#[test]
fn requests_keep_a_session_alive_with_its_number_or_on_its_connection() {
    for request in [
        "OPTIONS *\nSession: session1",
        "GET_PARAMETER rtsp://h/nature/bunny/\nSession: session1",
        "SET_PARAMETER rtsp://h/nature/bunny/\nSession: session1",
        "PLAY rtsp://h/nature/bunny/\nSession: session1",
        "GET_PARAMETER rtsp://h/nature/bunny/",
        "OPTIONS *",
    ] {
        let mut server = Server::new();
        let conn = server.connect();
        let session = server.set_up_udp(conn);
        server.play(conn, &session, "");
        for _ in 0..4 {
            server.wait(SOON);
            server.must(conn, request);
        }
        assert_eq!(server.machine.sessions(), 1, "{request}");
        server.story();
        server.wait(MINUTE + MINUTE);
        assert_eq!(
            server.story()[..2],
            ["stop", "session1 ends: no sign of life"],
            "{request}"
        );
    }
}

#[test]
fn receiver_reports_keep_a_session_alive_and_say_how_it_arrives() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    for lost in 0..4 {
        server.wait(SOON);
        let reported = Reported {
            lost: 3 + lost,
            jitter: Duration::from_millis(2),
        };
        server.happen(Event::Feedback {
            session: session.clone(),
            feedback: Feedback::Report(lost as usize % 2, reported),
        });
    }
    assert_eq!(server.machine.sessions(), 1);
    let receptions = server.receptions[&session].iter();
    let receptions: Vec<(u32, u64, f64)> = receptions
        .map(|of| (of.ssrc, of.lost, of.jitter_ms))
        .collect();
    let tracks = &server.streams[&session].order.tracks;
    let (picture, sound) = (tracks[0].ssrc, tracks[1].ssrc);
    assert_eq!(
        receptions,
        [
            (picture, 3, 2.0),
            (sound, 4, 2.0),
            (picture, 5, 2.0),
            (sound, 6, 2.0)
        ]
    );
    assert_eq!(server.states[&session], State::Playing);
}

#[test]
fn who_says_bye_leaves_soon_and_whoever_asks_for_something_after_it_stays() {
    let (soon, later) = (Duration::from_secs(2), Duration::from_secs(4));
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    let bye = Event::Feedback {
        session: session.clone(),
        feedback: Feedback::Bye,
    };
    // A player recreates its receivers for a seek.
    server.happen(bye);
    server.wait(soon);
    assert_eq!(server.play(conn, &session, "npt=4-").code, 200);
    server.wait(later);
    assert_eq!(server.machine.sessions(), 1);

    server.story();
    let bye = Event::Feedback {
        session: session.clone(),
        feedback: Feedback::Bye,
    };
    server.happen(bye);
    server.wait(soon);
    assert_eq!(server.machine.sessions(), 1, "TEARDOWN may still come");
    server.wait(soon);
    assert_eq!(server.story(), ["stop", "session1 ends: left"]);
    assert_eq!(
        server.machine.connections(),
        1,
        "another film may be asked for"
    );
}

#[test]
fn reports_interleaved_in_the_connection_are_passed_on() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_tcp(conn);
    server.play(conn, &session, "");
    server.must(
        conn,
        &format!("PAUSE rtsp://h/nature/bunny\nSession: {session}"),
    );
    server.story();
    for _ in 0..3 {
        server.wait(9 * MINUTE);
        assert_eq!(
            server.send(conn, b"$\x01\x00\x03abc$\x63\x00\x01x"),
            "",
            "and those of no track are not"
        );
    }
    assert_eq!(server.story(), ["3 bytes of RTCP"; 3]);
    assert_eq!(server.machine.sessions(), 1, "they are signs of life");
}

#[test]
fn a_udp_viewer_without_any_sign_of_life_is_given_up() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    server.wait(MINUTE);
    assert_eq!(server.machine.sessions(), 1);
    server.wait(Duration::from_secs(2));
    assert_eq!(server.machine.sessions(), 0);
    assert_eq!(server.closed, [conn]);
}

#[test]
fn a_paused_viewer_whose_connection_is_open_has_ten_minutes() {
    for tcp in [false, true] {
        let mut server = Server::new();
        let conn = server.connect();
        let session = if tcp {
            server.set_up_tcp(conn)
        } else {
            server.set_up_udp(conn)
        };
        server.play(conn, &session, "");
        server.must(
            conn,
            &format!("PAUSE rtsp://h/nature/bunny\nSession: {session}"),
        );
        server.wait(9 * MINUTE);
        assert_eq!(server.play(conn, &session, "").code, 200);
        server.must(
            conn,
            &format!("PAUSE rtsp://h/nature/bunny\nSession: {session}"),
        );
        server.wait(11 * MINUTE);
        assert_eq!(server.machine.sessions(), 0, "{tcp}");
    }
}

#[test]
fn a_udp_session_survives_its_connection_until_it_has_been_silent_for_too_long() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    server.must(
        conn,
        &format!("PAUSE rtsp://h/nature/bunny\nSession: {session}"),
    );
    server.happen(Event::Disconnected { conn });
    server.wait(SOON);
    let again = server.connect_from("10.0.0.7:50000");
    assert_eq!(server.play(again, &session, "").code, 200);
    server.happen(Event::Disconnected { conn: again });
    server.wait(SOON);
    server.happen(Event::Feedback {
        session: session.clone(),
        feedback: Feedback::Alive,
    });
    server.wait(SOON);
    assert_eq!(server.machine.sessions(), 1, "its receiver still reports");
    server.wait(MINUTE);
    assert_eq!(server.machine.sessions(), 0);
}

#[test]
fn a_tcp_session_ends_with_its_connection_and_lives_with_it() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_tcp(conn);
    server.play(conn, &session, "");
    server.wait(30 * MINUTE);
    assert_eq!(
        server.machine.sessions(),
        1,
        "a client that takes the media is alive"
    );
    server.story();
    server.happen(Event::Disconnected { conn });
    assert_eq!(server.story(), ["stop", "session1 ends: connection closed"]);
}

#[test]
fn half_open_sessions_do_not_stay() {
    let mut server = Server::new();
    let conn = server.connect();
    for _ in 0..8 {
        server.must(
            conn,
            "SETUP rtsp://h/sound\nTransport: RTP/AVP;unicast;client_port=5000-5001",
        );
    }
    let ninth = server.ask(
        conn,
        "SETUP rtsp://h/sound\nTransport: RTP/AVP;unicast;client_port=5000-5001",
    );
    assert_eq!(ninth.code, 503);
    let tcp = server.connect();
    server.set_up_tcp(tcp);
    server.wait(2 * MINUTE);
    assert_eq!(
        (server.machine.sessions(), server.machine.connections()),
        (0, 0)
    );
}

#[test]
fn a_connection_that_says_nothing_is_closed_and_one_that_asks_is_not() {
    let mut server = Server::with(RtspConfig {
        idle_timeout: Duration::from_secs(20),
        ..RtspConfig::default()
    });
    let (silent, asking) = (server.connect(), server.connect());
    for _ in 0..5 {
        server.wait(Duration::from_secs(15));
        server.must(asking, "OPTIONS *");
    }
    assert_eq!(server.closed, [silent]);
    let frames = server.connect();
    for _ in 0..5 {
        server.wait(Duration::from_secs(10));
        server.send(frames, b"$\x00\x00\x04abcd");
    }
    assert!(
        server.closed.contains(&frames),
        "frames of no session are no reason to stay"
    );
}

#[test]
fn who_is_ended_from_outside_gets_a_bye_and_is_disconnected() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    server.story();
    server.happen(Event::Ended {
        session: session.clone(),
        words: Some("ended by the operator".to_owned()),
    });
    assert_eq!(
        server.story(),
        [
            "stop: ended by the operator",
            "session1 ends: ended by the operator",
            "close 1"
        ]
    );
    server.happen(Event::Ended {
        session,
        words: Some("ended by the operator".to_owned()),
    });
    assert_eq!(server.story(), [""; 0], "once");
}

#[test]
fn a_connection_that_carries_media_is_closed_with_its_session_whoever_controls_it() {
    let mut server = Server::new();
    let (media, control) = (server.connect(), server.connect());
    let session = server.set_up_tcp(media);
    server.play(media, &session, "");
    server.must(
        control,
        &format!("GET_PARAMETER rtsp://h/nature/bunny/\nSession: {session}"),
    );
    server.happen(Event::Ended {
        session,
        words: Some("ended by the operator".to_owned()),
    });
    assert!(server.closed.contains(&media), "{:?}", server.closed);
}

#[test]
fn a_connection_that_carries_media_of_another_session_is_not_closed() {
    let mut server = Server::new();
    let (media, control) = (server.connect(), server.connect());
    let first = server.set_up_tcp(media);
    let second = server
        .must(
            media,
            "SETUP rtsp://h/sound\nTransport: RTP/AVP/TCP;unicast;interleaved=6-7",
        )
        .session();
    for session in [&first, &second] {
        server.must(
            control,
            &format!("GET_PARAMETER rtsp://h/\nSession: {session}"),
        );
    }
    server.happen(Event::Ended {
        session: first,
        words: Some("ended by the operator".to_owned()),
    });
    assert!(!server.closed.contains(&media), "{:?}", server.closed);
}

#[test]
fn a_connection_with_another_session_is_not_closed() {
    let mut server = Server::new();
    let conn = server.connect();
    let first = server.set_up_udp(conn);
    let second = server
        .must(
            conn,
            "SETUP rtsp://h/sound\nTransport: RTP/AVP;unicast;client_port=6000-6001",
        )
        .session();
    server.happen(Event::Ended {
        session: first,
        words: Some("ended by the operator".to_owned()),
    });
    assert!(server.closed.is_empty());
    server.must(conn, &format!("PLAY rtsp://h/sound\nSession: {second}"));
}

#[test]
fn a_stream_that_fails_ends_its_session_with_the_reason() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_tcp(conn);
    server.play(conn, &session, "");
    server.story();
    let reason = "the film's file was replaced".to_owned();
    server.happen(Event::Failed {
        session: session.clone(),
        reason,
    });
    assert_eq!(
        server.story(),
        [
            "stop: the film's file was replaced",
            "session1 ends: failed: the film's file was replaced",
            "close 1"
        ]
    );
    let other = server.connect();
    assert_eq!(server.play(other, &session, "").code, 454);
}

#[test]
fn a_session_that_ends_while_play_waits_is_not_played() {
    let mut server = Server::new();
    let conn = server.connect();
    let other = server.connect_from("10.0.0.7:50000");
    let session = server.set_up_udp(conn);
    server.hold_jobs = true;
    server.send(
        other,
        format!("PLAY rtsp://h/nature/bunny RTSP/1.0\r\nCSeq: 5\r\nSession: {session}\r\n\r\n")
            .as_bytes(),
    );
    server.do_jobs_held_once();
    server.happen(Event::Ended {
        session,
        words: Some("server stopping".to_owned()),
    });
    server.story();
    server.do_jobs();
    assert_eq!(
        server.story(),
        ["make 0 to 10", "stop"],
        "its connection was closed with it"
    );
}

#[test]
fn a_viewer_who_goes_while_being_admitted_leaves_nothing_behind() {
    let mut server = Server::new();
    let conn = server.connect();
    server.hold_jobs = true;
    server.send(conn, b"SETUP rtsp://h/sound RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n");
    server.do_jobs_held_once();
    server.happen(Event::Disconnected { conn });
    server.do_jobs();
    assert_eq!(server.machine.sessions(), 0);
    assert!(
        server
            .story()
            .contains(&"session1 ends: connection closed".to_owned())
    );
}

#[test]
fn the_state_is_shown_as_it_is() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    let state = |server: &Server| server.states.get(&session).copied().unwrap_or_default();
    assert_eq!(state(&server), State::Ready);
    server.play(conn, &session, "");
    server.stream_is_at(&session, 2 * SECOND);
    assert_eq!(state(&server), State::Playing);
    server.must(
        conn,
        &format!("PAUSE rtsp://h/nature/bunny\nSession: {session}"),
    );
    assert_eq!(state(&server), State::Paused);
    assert!(PEER.starts_with("10.0.0.7"));
}

#[test]
fn a_session_that_never_played_ends_with_its_connection() {
    let mut server = Server::new();
    let (conn, other) = (server.connect(), server.connect_from("10.0.0.7:50000"));
    let session = server.set_up_udp(conn);
    server.story();
    server.happen(Event::Disconnected { conn });
    assert_eq!(server.story(), ["session1 ends: connection closed"]);
    assert_eq!(server.play(other, &session, "").code, 454);
    // A session that moved to another connection stays as long as that connection.
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.must(other, &format!("OPTIONS *\nSession: {session}"));
    server.happen(Event::Disconnected { conn });
    assert_eq!(server.play(other, &session, "").code, 200);
}

#[test]
fn after_a_standstill_nobody_is_judged_before_what_came_is_read() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    let idle = server.connect();
    server.wait(SOON);
    server.now += 2 * MINUTE;
    server.wait(Duration::from_secs(1));
    assert_eq!(server.machine.sessions(), 1);
    assert!(server.closed.is_empty(), "nor is a connection");
    server.must(idle, "OPTIONS *");
    server.happen(Event::Feedback {
        session,
        feedback: Feedback::Alive,
    });
    server.wait(SOON);
    assert_eq!(server.machine.sessions(), 1, "it reported meanwhile");
    server.wait(SOON);
    assert_eq!(server.machine.sessions(), 0);
}

#[test]
fn a_standstill_takes_nothing_of_the_time_that_a_silent_viewer_had_left() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    server.wait(Duration::from_secs(30));
    server.now += 2 * MINUTE;
    server.wait(Duration::from_secs(25));
    assert_eq!(server.machine.sessions(), 1);
    server.wait(Duration::from_secs(10));
    assert_eq!(server.machine.sessions(), 0, "and no more than that");
}

#[test]
fn while_nobody_reads_reports_nobody_is_given_up_for_want_of_them() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    server.wait(SOON);
    let heard_until = server.now;
    let tick = |server: &mut Server, heard_until| {
        server.now += Duration::from_secs(1);
        server.happen(Event::Tick { heard_until });
    };
    for _ in 0..300 {
        tick(&mut server, heard_until);
    }
    assert_eq!(server.machine.sessions(), 1, "its reports may wait");
    let now = server.now;
    tick(&mut server, now);
    assert_eq!(server.machine.sessions(), 1, "they are being read");
    server.wait(MINUTE);
    assert_eq!(server.machine.sessions(), 0);
}

//! What each method does, and its responses on failure.

#[path = "../common/mod.rs"]
mod common;
mod judged;
mod play;
mod setup;

use std::time::Duration;

use common::{Answer, Server};
use reelway_rtsp::seam::Refusal;
use reelway_time::Monotonic;

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
fn a_viewer_who_begins_is_sent_to_the_server_that_has_the_film_and_not_sent_on_from_there() {
    let mut server = Server::new();
    let conn = server.connect();
    server.elsewhere = Some("rtsp://edge2:8554/nature/bunny".to_owned());
    for (asked, sent) in [
        ("", "rtsp://edge2:8554/nature/bunny?moved"),
        ("?user=ann", "rtsp://edge2:8554/nature/bunny?user=ann&moved"),
        ("?removed", "rtsp://edge2:8554/nature/bunny?removed&moved"),
    ] {
        let answer = server.ask(conn, &format!("DESCRIBE rtsp://h/nature/bunny{asked}"));
        assert_eq!((answer.code, answer.get("Location")), (302, Some(sent)));
    }
    for asked in ["?moved", "?user=ann&moved", "?moved&user=ann"] {
        let request = format!("DESCRIBE rtsp://h/nature/bunny{asked}");
        assert_eq!(server.ask(conn, &request).code, 200, "{asked}");
    }
    let setup = format!("SETUP rtsp://h/nature/bunny/track=1\n{UDP}");
    assert_eq!(server.ask(conn, &setup).code, 200);
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
fn teardown_of_a_track_that_is_not_set_up_ends_nothing() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    let teardown = |url| format!("TEARDOWN {url}\nSession: {session}");
    let answer = server.ask(conn, &teardown("rtsp://h/nature/bunny/track=3"));
    assert_eq!(answer.code, 404);
    assert!(answer.line.contains("this track is not set up"));
    assert_eq!(server.machine.sessions(), 1);
    let answer = server.play(conn, &session, "");
    assert_eq!(answer.get("RTP-Info").unwrap().matches("url=").count(), 2);
}

#[test]
fn teardown_of_the_only_track_ends_the_session() {
    let mut server = Server::new();
    let conn = server.connect();
    let setup = format!("SETUP rtsp://h/nature/bunny/track=1\n{UDP}");
    let session = server.must(conn, &setup).session();
    server.must(
        conn,
        &format!("TEARDOWN rtsp://h/nature/bunny/track=1\nSession: {session}"),
    );
    assert_eq!(server.machine.sessions(), 0);
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

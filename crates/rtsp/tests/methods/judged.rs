//! Capacity is checked before anything is moved, and a refusal changes nothing.

use std::time::Duration;

use reelway_media::SECOND;
use reelway_rtsp::machine::{ConnId, Event};
use reelway_rtsp::seam::{Refusal, State};

use crate::UDP;
use crate::common::{Answer, Server};

fn full() -> Option<Refusal> {
    Some(Refusal {
        reason: "the network is booked out".to_owned(),
        retry_after: Some(Duration::from_secs(30)),
    })
}

/// Sends PLAY of the bunny, whose jobs are held back.
fn ask_to_play(server: &mut Server, conn: ConnId, session: &str) {
    let play = format!(
        "PLAY rtsp://h/nature/bunny RTSP/1.0\r\nCSeq: 5\r\nSession: {session}\r\nRange: npt=5-\r\n\r\n"
    );
    assert_eq!(server.send(conn, play.as_bytes()), "", "not answered yet");
}

#[test]
fn a_film_is_found_and_its_transport_agreed_on_before_a_viewer_is_let_in() {
    let mut server = Server::new();
    let conn = server.connect();
    server.refusal = full();
    let setup = "SETUP rtsp://h/nature/bunny/track=1";
    let unheard = server.ask(conn, &format!("{setup}\nTransport: RTP/AVP;multicast"));
    assert_eq!(unheard.code, 461);
    assert_eq!(server.story(), ["answer 461"], "nobody was asked");
    assert_eq!(server.ask(conn, &format!("{setup}\n{UDP}")).code, 453);
    assert_eq!(
        server.story(),
        ["UdpV4 from 10.0.0.7:40000 wants nature/bunny", "answer 453"]
    );
    assert_eq!(server.machine.sessions(), 0);
}

#[test]
fn no_stream_is_made_for_a_session_that_lost_its_place() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.refusal = full();
    server.story();
    let answer = server.play(conn, &session, "");
    assert_eq!((answer.code, answer.get("Retry-After")), (453, Some("30")));
    assert_eq!(server.story(), ["claim 2 tracks", "answer 453"]);
    server.refusal = None;
    assert_eq!(server.play(conn, &session, "").code, 200);
}

#[test]
fn a_new_stream_is_judged_from_where_it_begins_and_sends_nothing_before() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.story();
    server.hold_jobs = true;
    ask_to_play(&mut server, conn, &session);
    server.do_jobs_held_once();
    server.do_jobs_held_once();
    server.refusal = full();
    server.do_jobs();
    assert_eq!(
        server.story(),
        [
            "claim 2 tracks",
            "make 5 to 10",
            "judge 4 to 10",
            "stop",
            "unclaim",
            "answer 453"
        ]
    );
    // As if the PLAY had not been sent: another stream is made.
    server.refusal = None;
    assert_eq!(server.play(conn, &session, "").code, 200);
    assert_eq!(server.story()[1], "make 0 to 10");
}

#[test]
fn a_viewer_who_is_refused_elsewhere_goes_on_where_they_were() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "npt=0-9");
    server.stream_is_at(&session, 3 * SECOND);
    server.refusal = full();
    server.story();
    assert_eq!(server.play(conn, &session, "npt=6-").code, 453);
    assert_eq!(
        server.story(),
        ["judge 6 to 10", "answer 453"],
        "the stream was left alone"
    );
    assert_eq!(server.states[&session], State::Playing);
    let nothing_new = server.play(conn, &session, "");
    assert_eq!(nothing_new.get("Range"), Some("npt=3.000-9.000"));
}

#[test]
fn a_viewer_who_is_refused_after_a_pause_stays_paused() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "npt=0-9");
    server.stream_is_at(&session, 3 * SECOND);
    let pause = format!("PAUSE rtsp://h/nature/bunny\nSession: {session}");
    server.must(conn, &pause);
    server.refusal = full();
    server.story();
    assert_eq!(server.play(conn, &session, "").code, 453);
    assert_eq!(server.story(), ["judge 3 to 9", "answer 453"]);
    assert_eq!(server.states[&session], State::Paused);
    server.refusal = None;
    let resumed = server.play(conn, &session, "");
    assert_eq!(resumed.get("Range"), Some("npt=3.000-9.000"));
}

#[test]
fn a_stream_that_was_moved_is_booked_from_where_it_really_begins() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    server.story();
    server.play(conn, &session, "npt=7-9");
    assert_eq!(
        server.story(),
        [
            "judge 7 to 9",
            "seek 7 to 9",
            "book 6 to 9",
            "answer 200",
            "go"
        ]
    );
}

#[test]
fn a_stream_that_cannot_be_made_gives_the_claim_back_and_one_that_cannot_be_moved_stands() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.fault = Some("the disk did not answer".to_owned());
    server.story();
    assert_eq!(server.play(conn, &session, "").code, 500);
    assert_eq!(
        server.story(),
        ["claim 2 tracks", "make 0 to 10", "unclaim", "answer 500"]
    );
    server.fault = None;
    assert_eq!(server.play(conn, &session, "").code, 200);
    server.fault = Some("the disk did not answer".to_owned());
    server.story();
    assert_eq!(server.play(conn, &session, "npt=4-").code, 500);
    assert_eq!(
        server.story(),
        ["judge 4 to 10", "seek 4 to 10", "answer 500"]
    );
    assert_eq!(server.states[&session], State::Paused);
}

#[test]
fn a_session_that_ends_while_it_is_judged_moves_nothing() {
    let mut server = Server::new();
    let conn = server.connect();
    let other = server.connect_from("10.0.0.7:50000");
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    // Another session keeps the connection open.
    server.must(other, &format!("SETUP rtsp://h/sound\n{UDP}"));
    server.hold_jobs = true;
    ask_to_play(&mut server, other, &session);
    server.happen(Event::Ended {
        session,
        words: None,
    });
    server.story();
    server.do_jobs();
    assert_eq!(server.story(), ["judge 5 to 10", "answer 454"]);
    assert_eq!(Answer::parse(&server.received(other)).code, 454);
}

#[test]
fn an_end_that_was_reported_before_the_stream_was_moved_is_not_its_end_now() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "npt=8-");
    let ended_at = server.now + Duration::from_millis(10);
    server.now = ended_at + Duration::from_millis(10);
    server.play(conn, &session, "npt=2-");
    server.happen(Event::Finished {
        session: session.clone(),
        at: ended_at,
    });
    assert_eq!(server.states[&session], State::Playing);
    server.now += Duration::from_secs(8);
    server.happen(Event::Finished {
        session: session.clone(),
        at: server.now,
    });
    assert_eq!(server.states[&session], State::Paused);
}

#[test]
fn a_connection_that_breaks_while_a_job_is_under_way_leaves_its_session_in_order() {
    let mut server = Server::new();
    let (conn, other) = (server.connect(), server.connect_from("10.0.0.7:50000"));
    let session = server.set_up_udp(conn);
    server.play(conn, &session, "");
    server.hold_jobs = true;
    ask_to_play(&mut server, conn, &session);
    assert_eq!(server.play(other, &session, "npt=2-").code, 455);
    server.happen(Event::Disconnected { conn });
    server.hold_jobs = false;
    assert_eq!(server.play(other, &session, "npt=2-").code, 200);
    // A session that never played ends with its connection, and its stream with it.
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.hold_jobs = true;
    ask_to_play(&mut server, conn, &session);
    server.do_jobs_held_once();
    server.do_jobs_held_once();
    server.story();
    server.happen(Event::Disconnected { conn });
    let story = server.story();
    assert_eq!(
        story,
        ["stop", "unclaim", "session2 ends: connection closed"]
    );
}

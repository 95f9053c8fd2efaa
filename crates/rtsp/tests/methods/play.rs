//! PLAY and PAUSE: where playback starts and resumes.

use std::time::Duration;

use reelway_media::SECOND;
use reelway_rtsp::machine::Event;

use crate::UDP;
use crate::common::Server;

#[test]
fn play_answers_first_and_then_lets_the_stream_go() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    server.story();
    let answer = server.play(conn, &session, "npt=5.5-");
    assert_eq!(
        server.story(),
        [
            "claim 2 tracks",
            "make 5.5 to 10",
            "judge 4 to 10",
            "answer 200",
            "go"
        ]
    );
    assert_eq!(
        answer.get("Range"),
        Some("npt=4.000-"),
        "the sync sample before the wish"
    );
    // Sequence numbers and timestamps from the stream: 400 packets and 4 seconds after their bases.
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
        // The URL in SETUP contains characters that this header cannot contain.
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
        [
            "pause",
            "rest",
            "answer 200",
            "judge 3.5 to 8",
            "resume",
            "book 3.5 to 8",
            "answer 200",
            "go"
        ]
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
        ["pause", "rest", "answer 200", "answer 200"],
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
    assert_eq!(
        server.story(),
        [
            "judge 6 to 7",
            "seek 6 to 7",
            "book 6 to 7",
            "answer 200",
            "go"
        ]
    );
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
        at: server.now + Duration::from_secs(2),
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
    assert_eq!(
        server.story(),
        [
            "judge 0 to 10",
            "seek 0 to 10",
            "book 0 to 10",
            "answer 200",
            "go"
        ]
    );
}

#[test]
fn a_pause_when_everything_has_been_sent_is_the_end() {
    let mut server = Server::new();
    let conn = server.connect();
    let session = server.set_up_udp(conn);
    for (range, end) in [("npt=8-", 10), ("npt=2-4", 4)] {
        server.play(conn, &session, range);
        // The last second may still be in the player's buffer.
        server.stream_is_at(&session, end * SECOND);
        server.must(
            conn,
            &format!("PAUSE rtsp://h/nature/bunny/\nSession: {session}"),
        );
        let anew = server.play(conn, &session, "");
        assert_eq!(
            (anew.code, anew.get("Range")),
            (200, Some("npt=0.000-")),
            "{range}"
        );
    }
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

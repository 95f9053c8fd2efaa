//! The server over real sockets: what it sends, when, and to whom.

mod shell;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use reelway_session::{EndReason, State};
use reelway_tests::rtsp::{Client, Rtp, UdpTrack, rtp_info};
use reelway_tests::wait::until;
use shell::{ODD, Stand, frames, is_bye, play, rtp};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn over_tcp_nothing_comes_before_the_answer_and_rtp_info_names_what_comes_first() {
    let stand = Stand::new();
    let mut client = stand.connect();
    let url = stand.url();
    assert_eq!(client.setup_tcp(&url).unwrap(), 2);
    let answer = play(&mut client, &url, "npt=5.3-");
    assert_eq!(answer.frames_before, 0, "no media before the answer");
    assert_eq!(answer.header("range"), "npt=4.000-");
    let info = rtp_info(answer.header("rtp-info")).unwrap();
    let came = frames(&mut client, SECOND);
    for (channel, info) in [(0, &info[0]), (2, &info[1])] {
        let packets = rtp(&came, channel);
        assert_eq!(packets[0].0, info.seq, "channel {channel}");
        let all_follow = packets
            .windows(2)
            .all(|two| two[1].0 == two[0].0.wrapping_add(1));
        assert!(all_follow, "channel {channel} has no hole");
    }
    assert_eq!(
        rtp(&came, 0)[0].1,
        info[0].rtptime,
        "the picture begins where the range does"
    );
    assert!(
        came.iter().any(|frame| frame.channel == 1),
        "a sender report at once"
    );
}

#[test]
fn a_seek_while_playing_flushes_and_numbers_run_on() {
    let stand = Stand::new();
    let mut client = stand.connect();
    let url = stand.url();
    client.setup_tcp(&url).unwrap();
    play(&mut client, &url, "");
    let mut last = frames(&mut client, SECOND / 2);
    for (wish, start) in [
        ("npt=17-", "npt=16.000-"),
        ("npt=3-", "npt=2.000-"),
        ("npt=21.5-", "npt=20.000-"),
    ] {
        client.send("PLAY", &url, &[("Range", wish)]).unwrap();
        let answer = client.response(5 * SECOND).unwrap();
        assert_eq!(answer.header("range"), start);
        let info = rtp_info(answer.header("rtp-info")).unwrap();
        last.extend(client.frames.drain(..));
        let after = frames(&mut client, SECOND / 2);
        for (channel, info) in [(0, &info[0]), (2, &info[1])] {
            let before = rtp(&last, channel).last().unwrap().0;
            let packets = rtp(&after, channel);
            assert_eq!(packets[0].0, info.seq);
            assert_eq!(info.seq, before.wrapping_add(1), "numbers run on");
            // One second of either clock; queued packets from the old position are seconds away.
            let near = |time: u32| (time.wrapping_sub(info.rtptime) as i32).unsigned_abs() < 90_000;
            assert!(
                packets.iter().all(|(_, time)| near(*time)),
                "channel {channel} after {wish}"
            );
        }
        last = after;
    }
}

#[test]
fn over_udp_media_comes_from_the_ports_that_were_said_and_ends_with_bye() {
    let stand = Stand::new();
    let mut client = stand.connect();
    let url = stand.url();
    let tracks = client.setup_udp(&url).unwrap();
    for track in &tracks {
        let (rtp, rtcp) = stand.ports;
        assert!(
            track
                .transport
                .contains(&format!("server_port={rtp}-{rtcp};source=127.0.0.1;ssrc=")),
            "{}",
            track.transport
        );
    }
    for _ in 0..2 {
        let answer = play(&mut client, &url, "npt=23-");
        assert_eq!(answer.header("range"), "npt=22.000-");
        let info = rtp_info(answer.header("rtp-info")).unwrap();
        for (track, info) in tracks.iter().zip(&info) {
            assert_eq!(until_bye(&stand, track).first(), Some(&info.seq));
        }
        // The second iteration shows that another PLAY works.
    }
    assert_eq!(client.request("TEARDOWN", &url, &[]).unwrap().status, 200);
    assert!(stand.sessions.is_empty());
}

/// Receives the next datagram; the server's io_uring, in this same process, may interrupt the wait.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    loop {
        match socket.recv_from(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Returns the sequence numbers of a track up to its BYE.
fn until_bye(stand: &Stand, track: &UdpTrack) -> Vec<u16> {
    let mut buffer = [0; 2048];
    track.rtcp.set_read_timeout(Some(6 * SECOND)).unwrap();
    loop {
        let (length, from) = receive(&track.rtcp, &mut buffer).expect("BYE");
        assert_eq!(from.port(), stand.ports.1);
        if is_bye(&buffer[..length]) {
            break;
        }
    }
    track.rtp.set_read_timeout(Some(SECOND / 5)).unwrap();
    let mut numbers = Vec::new();
    while let Ok((length, from)) = receive(&track.rtp, &mut buffer) {
        assert_eq!(from.port(), stand.ports.0);
        numbers.push(Rtp::parse(&buffer[..length]).unwrap().seq);
    }
    numbers
}

#[test]
fn a_pause_holds_and_play_goes_on_with_the_next_packet() {
    let stand = Stand::new();
    let mut client = stand.connect();
    let url = stand.url();
    client.setup_tcp(&url).unwrap();
    play(&mut client, &url, "npt=2-");
    let before = frames(&mut client, SECOND);
    let pause = client.request("PAUSE", &url, &[]).unwrap();
    assert_eq!(pause.status, 200);
    let mut before = before;
    before.extend(client.frames.drain(..));
    assert!(
        frames(&mut client, SECOND / 2).is_empty(),
        "nothing comes while it is paused"
    );
    assert_eq!(stand.session().state, State::Paused);
    let answer = play(&mut client, &url, "");
    assert_eq!(answer.header("range"), pause.header("range"));
    let info = rtp_info(answer.header("rtp-info")).unwrap();
    let after = frames(&mut client, SECOND / 2);
    for (channel, info) in [(0, &info[0]), (2, &info[1])] {
        let next = rtp(&before, channel).last().unwrap().0.wrapping_add(1);
        assert_eq!(
            (info.seq, rtp(&after, channel)[0].0),
            (next, next),
            "channel {channel}"
        );
    }
}

#[test]
fn who_is_ended_by_the_operator_hears_bye_and_the_connection_closes() {
    let stand = Stand::new();
    let url = stand.url();
    let mut over_tcp = stand.connect();
    over_tcp.setup_tcp(&url).unwrap();
    play(&mut over_tcp, &url, "");
    // A participant that has sent nothing sends no BYE (RFC 3550 section 6.6).
    assert!(over_tcp.frame(5 * SECOND).unwrap().is_some());
    assert!(stand.sessions.end(&stand.session().id, EndReason::Kicked));
    let mut bye = false;
    while let Ok(Some(frame)) = over_tcp.frame(5 * SECOND) {
        bye |= frame.channel == 1 && is_bye(&frame.data);
    }
    assert!(bye, "BYE comes before the connection closes");
    assert!(
        over_tcp
            .stream()
            .read_to_end(&mut Vec::new())
            .is_ok_and(|read| read == 0),
        "the connection closes"
    );

    let mut over_udp = stand.connect();
    let tracks = over_udp.setup_udp(&url).unwrap();
    play(&mut over_udp, &url, "");
    tracks[0].rtp.set_read_timeout(Some(5 * SECOND)).unwrap();
    receive(&tracks[0].rtp, &mut [0; 2048]).expect("a packet");
    assert!(stand.sessions.end(&stand.session().id, EndReason::Kicked));
    until_bye(&stand, &tracks[0]);
    over_udp
        .stream()
        .set_read_timeout(Some(5 * SECOND))
        .unwrap();
    assert!(
        over_udp
            .stream()
            .read_to_end(&mut Vec::new())
            .is_ok_and(|read| read == 0),
        "the connection closes"
    );
}

#[test]
fn a_udp_viewer_whose_connection_breaks_goes_on_and_is_heard_over_another() {
    let stand = Stand::with(|config| config.session_timeout = 3 * SECOND);
    let mut client = stand.connect();
    let url = stand.url();
    let tracks = client.setup_udp(&url).unwrap();
    play(&mut client, &url, "");
    let session = client.session.clone();
    drop(client);
    let mut buffer = [0; 2048];
    tracks[0].rtp.set_read_timeout(Some(SECOND)).unwrap();
    let mut time = || {
        let (length, _) = receive(&tracks[0].rtp, &mut buffer).expect("media goes on");
        Rtp::parse(&buffer[..length]).unwrap().time
    };
    // Most of the film's next second is sent after the connection broke.
    let first = time();
    while (time().wrapping_sub(first) as i32) < 90_000 {}
    let mut again = stand.connect();
    again.session = session;
    assert_eq!(again.request("PAUSE", &url, &[]).unwrap().status, 200);
    drop(again);
    stand.wait_for_sessions(0, 6 * SECOND);
}

#[test]
fn a_session_over_tcp_ends_with_its_connection() {
    let stand = Stand::new();
    let mut client = stand.connect();
    client.setup_tcp(&stand.url()).unwrap();
    play(&mut client, &stand.url(), "");
    frames(&mut client, SECOND / 5);
    drop(client);
    stand.wait_for_sessions(0, 2 * SECOND);
}

#[test]
fn receiver_reports_are_seen_in_the_register() {
    let stand = Stand::new();
    let mut client = stand.connect();
    let url = stand.url();
    client.setup_tcp(&url).unwrap();
    let answer = play(&mut client, &url, "");
    assert!(!answer.header("rtp-info").is_empty());
    let came = frames(&mut client, SECOND / 5);
    let ssrc = Rtp::parse(&came.iter().find(|frame| frame.channel == 0).unwrap().data)
        .unwrap()
        .ssrc;
    let mut report = vec![b'$', 1, 0, 32, 0x81, 201, 0, 7];
    for word in [1, ssrc, 7, 100, 900, 0, 0] {
        report.extend(word.to_be_bytes());
    }
    client.stream().write_all(&report).unwrap();
    let seen = until(2 * SECOND, || stand.session().lost);
    assert_eq!(seen, Some(7));
    assert_eq!(stand.session().jitter_ms, Some(10.0));
    assert!(stand.session().packets > 0 && stand.session().bytes > 0);
}

#[test]
fn ipv6_works_like_ipv4() {
    if let Err(error) = std::net::TcpListener::bind("[::1]:0") {
        return reelway_skip::skipped!("no IPv6 here: {error}");
    }
    let stand = Stand::at("[::1]:0", |_| {});
    let mut client = stand.connect();
    let url = stand.url();
    let (sdp, _) = client.describe(&url).unwrap();
    assert!(sdp.contains("c=IN IP6 ::\r\n"), "{sdp}");
    let tracks = client.setup_udp(&url).unwrap();
    assert!(tracks[0].transport.contains("source=::1;"));
    play(&mut client, &url, "npt=23-");
    until_bye(&stand, &tracks[0]);
}

#[test]
fn the_description_says_what_players_need() {
    let stand = Stand::new();
    let (sdp, media) = stand.connect().describe(&stand.url()).unwrap();
    for line in [
        "a=control:*",
        "a=range:npt=0-24",
        "a=rtpmap:96 H264/90000",
        "a=fmtp:96 packetization-mode=1;",
        "profile-level-id=",
        "sprop-parameter-sets=",
        "a=rtpmap:97 MPEG4-GENERIC/48000/2",
        "mode=AAC-hbr",
        "config=",
        "b=AS:",
        "a=lang:eng",
    ] {
        assert!(
            sdp.to_uppercase().contains(&line.to_uppercase()),
            "{line}: {sdp}"
        );
    }
    assert_eq!(
        media,
        [
            format!("{}/track=1", stand.url()),
            format!("{}/track=2", stand.url())
        ]
    );
}

#[test]
fn a_film_with_an_odd_name_is_found_as_its_address_is_written() {
    let stand = Stand::new();
    let encoded = ODD
        .replace('%', "%25")
        .replace(' ', "%20")
        .replace('"', "%22")
        .replace('?', "%3F");
    for name in [
        encoded.as_str(),
        &encoded.replace("%20", " "),
        &encoded.replace('/', "//"),
    ] {
        let url = format!("rtsp://{}/{name}", stand.address);
        let mut client = stand.connect();
        client.setup_tcp(&url).unwrap();
        let answer = play(&mut client, &url, "npt=2-");
        assert_eq!(
            answer.header("rtp-info").matches("url=").count(),
            2,
            "{answer:?}"
        );
        assert!(!frames(&mut client, SECOND / 5).is_empty());
        assert_eq!(stand.session().title, ODD);
        drop(client);
        stand.wait_for_sessions(0, 2 * SECOND);
    }
}

#[test]
fn many_requests_in_one_piece_are_answered_in_order() {
    let stand = Stand::new();
    let mut client = stand.connect();
    let url = stand.url();
    let setup = |cseq, track, channels: &str| {
        format!(
            "SETUP {url}/track={track} RTSP/1.0\r\nCSeq: {cseq}\r\nTransport: RTP/AVP/TCP;interleaved={channels}\r\n\r\n"
        )
    };
    let mut bytes =
        format!("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\nDESCRIBE {url} RTSP/1.0\r\nCSeq: 2\r\n\r\n");
    bytes += &setup(3, 1, "0-1");
    bytes += "$\u{1}\0\u{4}abcd";
    bytes += &setup(4, 9, "2-3");
    bytes += &format!("PLAY {url} RTSP/1.0\r\nCSeq: 5\r\n\r\n");
    client.stream().write_all(bytes.as_bytes()).unwrap();
    let answers: Vec<_> = (0..5)
        .map(|_| client.response(5 * SECOND).unwrap())
        .collect();
    let seen: Vec<_> = answers
        .iter()
        .map(|answer| (answer.header("cseq"), answer.status))
        .collect();
    assert_eq!(
        seen,
        [("1", 200), ("2", 200), ("3", 200), ("4", 404), ("5", 454)]
    );
}

#[test]
fn a_new_session_s_numbers_cannot_be_guessed() {
    let stand = Stand::new();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let mut client: Client = stand.connect();
        client.setup_tcp(&stand.url()).unwrap();
        let answer = play(&mut client, &stand.url(), "npt=0-");
        let info = rtp_info(answer.header("rtp-info")).unwrap();
        let session = client.session.clone().unwrap();
        assert!(
            session.len() >= 16 && session.bytes().all(|byte| byte.is_ascii_alphanumeric()),
            "{session}"
        );
        seen.push((session, info[0].seq, info[0].rtptime, info[1].rtptime));
    }
    for (n, one) in seen.iter().enumerate() {
        for other in &seen[n + 1..] {
            assert!(
                one.0 != other.0 && one.2 != other.2 && one.3 != other.3,
                "{seen:?}"
            );
        }
    }
}

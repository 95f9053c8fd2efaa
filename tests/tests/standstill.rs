//! The server stands still and goes on: what arrived meanwhile is read before any session expires.

use std::collections::BTreeSet;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use reelway_tests::rtsp::{Client, UdpTrack};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait::{self, Deadline};
use reelway_tests::{films, http};

const FILM: &str = "seeks";

/// Longer than all timeouts configured below, and than the 30 s that a request over HTTP may take.
const STANDSTILL: Duration = Duration::from_secs(33);

/// The IDs of all sessions.
fn sessions(server: &Server) -> BTreeSet<String> {
    let list = server.get("/api/sessions").json();
    let all = list["sessions"].as_array().expect("sessions").iter();
    all.map(|session| session["id"].as_str().expect("an id").to_owned())
        .collect()
}

/// Sends an empty receiver report (RFC 3550 section 6.4.2) for each track.
fn report(tracks: &[UdpTrack], server: &Server) {
    let packet = [0x80, 201, 0, 1, 1, 2, 3, 4];
    for track in tracks {
        let to = (server.rtsp.ip(), server.rtp + 1);
        track.rtcp.send_to(&packet, to).expect("a report");
    }
}

/// Discards the packets that have arrived; returns their number.
fn drain(tracks: &[UdpTrack]) -> usize {
    let mut packets = 0;
    for track in tracks {
        track.rtp.set_nonblocking(true).expect("a socket");
        while track.rtp.recv(&mut [0; 2048]).is_ok() {
            packets += 1;
        }
    }
    packets
}

#[test]
fn viewers_who_spoke_while_the_server_stood_still_go_on() {
    let library = films::library(&[FILM]);
    let server = Options::new(library.path())
        .set("rtsp.timeout", 6)
        .set("rtsp.paused_timeout", 6)
        .set("http.timeout", 5)
        .set("http.segment", 1)
        .start();
    server.wait_indexed();
    let url = server.rtsp_url(FILM);
    let play = |client: &mut Client| {
        let answer = client.request("PLAY", &url, &[]).expect("PLAY");
        assert_eq!(answer.status, 200);
    };

    let mut over_udp = Vec::new();
    for _ in 0..10 {
        let mut client = Client::connect(server.rtsp).expect("a connection");
        let tracks = client.setup_udp(&url).expect("SETUP");
        play(&mut client);
        over_udp.push((client, tracks));
    }
    let mut over_tcp = Client::connect(server.rtsp).expect("a connection");
    over_tcp.setup_tcp(&url).expect("SETUP");
    play(&mut over_tcp);
    let mut paused = Client::connect(server.rtsp).expect("a connection");
    paused.setup_tcp(&url).expect("SETUP");
    play(&mut paused);
    assert_eq!(
        paused.request("PAUSE", &url, &[]).expect("PAUSE").status,
        200
    );

    let ask = |stream: &mut TcpStream, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.http);
        stream.write_all(request.as_bytes()).expect("a request");
    };
    let mut hls = TcpStream::connect(server.http).expect("a connection");
    hls.set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a socket");
    let mut answers = BufReader::new(hls.try_clone().expect("a socket"));
    let mut fetch = |path: &str| {
        ask(&mut hls, path);
        let answer = http::read(&mut answers, false).expect("an answer");
        assert_eq!(answer.status, 200, "{path}");
        answer.text()
    };
    let named = |text: &str, wanted: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.filter(|line| line.contains(wanted));
        lines.map(str::to_owned).collect()
    };
    let main = fetch(&format!("/{FILM}/hls/main.m3u8"));
    let media = fetch(&format!("/{FILM}/hls/{}", named(&main, ".m3u8")[0]));
    let segments = named(&media, ".m4s");
    let address = |number: usize| format!("/{FILM}/{}", segments[number].trim_start_matches("../"));
    fetch(&address(0));

    // The first half of a request.
    let mut slow = TcpStream::connect(server.rtsp).expect("a connection");
    slow.set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a socket");
    slow.write_all(b"OPTIONS * RTSP/1.0\r\nCSe")
        .expect("a beginning");

    let before = sessions(&server);
    assert_eq!(before.len(), 13);
    for (_, tracks) in &over_udp {
        report(tracks, &server);
    }
    server.signal("STOP");
    let deadline = Deadline::after(STANDSTILL);
    while !deadline.over() {
        std::thread::sleep(Duration::from_secs(5).min(deadline.left()));
        for (_, tracks) in &over_udp {
            report(tracks, &server);
        }
    }
    slow.write_all(b"q: 1\r\n\r\n").expect("the rest");
    ask(&mut hls, &address(1));
    paused
        .send("GET_PARAMETER", &url, &[])
        .expect("a sign of life");
    for (_, tracks) in &over_udp {
        drain(tracks);
    }
    server.signal("CONT");

    let answer = http::read(&mut answers, false).expect("an answer to what was asked meanwhile");
    assert_eq!(answer.status, 200);
    let answer = paused.response(Duration::from_secs(10)).expect("an answer");
    assert_eq!(answer.status, 200);
    let mut first = [0; 12];
    slow.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"RTSP/1.0 200");

    // All sessions go on for longer than the timeout; the film continues where it stopped.
    let mut packets = vec![0; over_udp.len()];
    let deadline = Deadline::after(Duration::from_secs(8));
    while !deadline.over() {
        for ((_, tracks), packets) in over_udp.iter().zip(&mut packets) {
            report(tracks, &server);
            *packets += drain(tracks);
        }
        while let Ok(Some(_)) = over_tcp.frame(Duration::from_millis(10)) {}
        let answer = paused
            .request("GET_PARAMETER", &url, &[])
            .expect("an answer");
        assert_eq!(answer.status, 200);
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(sessions(&server), before, "{}", server.log());
    assert!(packets.iter().all(|packets| *packets > 50), "{packets:?}");
    let position = |server: &Server| {
        let list = server.get("/api/sessions").json();
        let all = list["sessions"].as_array().expect("sessions").clone();
        let playing = all.iter().filter(|of| of["protocol"] == "rtsp/udp");
        playing
            .map(|of| of["position"].as_f64().expect("a position"))
            .fold(0.0, f64::max)
    };
    assert!(position(&server) < 25.0, "the film stood as well");
    assert!(server.log().contains("timeouts are extended"));

    // Viewers that are silent from now on expire.
    let silent = wait::until(Duration::from_secs(12), || {
        let left = sessions(&server);
        (left.len() <= 3).then_some(())
    });
    assert!(silent.is_some(), "{}", server.log());
}

//! Attackers over RTSP and HTTP: every limit holds, all clients get a response or are disconnected
//! in time, memory stays bounded, and an honest viewer notices nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use reelway_tests::films;
use reelway_tests::network::{Network, SERVER};
use reelway_tests::rtsp::{Client, is_timeout};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait::{self, Deadline};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Checks that an honest viewer gets responses over both protocols.
#[track_caller]
fn still_serves(server: &Server) {
    let mut client = Client::connect(server.rtsp).expect("RTSP connects");
    let answer = client
        .request("DESCRIBE", &server.rtsp_url("progressive"), &[])
        .expect("RTSP answers");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(server.get("/progressive/hls/main.m3u8").status, 200);
}

/// Connects from this loopback address.
fn connect_from(source: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(IpAddr::V4(Ipv4Addr::from(source)), 0).into())?;
    socket.connect_timeout(&to.into(), seconds(5))?;
    Ok(socket.into())
}

/// Whether the server has closed the connection; discards what it sent before.
fn closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if is_timeout(&error) => return false,
            Err(_) => return true,
        }
    }
}

fn server() -> (Server, tempfile::TempDir) {
    let library = films::library(&["progressive"]);
    let server = Server::start(library.path());
    (server, library)
}

#[test]
fn slow_senders_are_closed_in_time() {
    let (server, _library) = server();
    let beginnings: [(&[u8], SocketAddr); 3] = [
        (
            b"OPTIONS rtsp://localhost/ RTSP/1.0\r\nCSeq: 1\r\nX-Slow: ",
            server.rtsp,
        ),
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
            server.http,
        ),
        (b"$\x00\xff\xff", server.rtsp),
    ];
    let mut slow: Vec<(usize, TcpStream)> = Vec::new();
    for _ in 0..60 {
        for (kind, (beginning, to)) in beginnings.iter().enumerate() {
            let mut stream = TcpStream::connect(to).expect("a connection");
            stream.write_all(beginning).expect("a beginning");
            slow.push((kind, stream));
        }
    }
    // From its first byte to its last, a request may take 10 s over RTSP and 30 s over HTTP.
    let deadline = Deadline::after(seconds(40));
    while !slow.is_empty() && !deadline.over() {
        slow.retain_mut(|(_, stream)| {
            let sent = stream
                .set_nonblocking(true)
                .and_then(|()| stream.write_all(b"a"));
            sent.is_ok() && !closed(stream)
        });
        still_serves(&server);
        std::thread::sleep(Duration::from_millis(500));
    }
    let left: Vec<usize> = (0..3)
        .map(|kind| slow.iter().filter(|slow| slow.0 == kind).count())
        .collect();
    assert_eq!(
        left,
        [0, 0, 0],
        "still open after 40 s (RTSP, HTTP, interleaved)"
    );
}

#[test]
fn ten_thousand_idle_connections_are_borne_and_closed_in_time() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the limit");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("the limit");
    let (server, _library) = server();
    for (to, within) in [(server.rtsp, seconds(20)), (server.http, seconds(45))] {
        let mut idle = Vec::new();
        for n in 0..10_000u32 {
            let source = [127, 0, 1, 1 + (n / 2500) as u8];
            idle.push(
                connect_from(source, to).unwrap_or_else(|error| panic!("connection {n}: {error}")),
            );
        }
        still_serves(&server);
        // The connections were accepted, and not closed at once. The first ones may have timed out
        // already.
        let young = idle.iter_mut().rev().take(100);
        let open = young.filter_map(|stream| (!closed(stream)).then_some(()));
        assert_eq!(open.count(), 100, "of the last hundred");
        let (resident, _) = server.memory();
        assert!(
            resident < 300 << 20,
            "{resident} bytes for 10,000 idle connections"
        );
        let deadline = Deadline::after(within);
        while !idle.is_empty() && !deadline.over() {
            idle.retain_mut(|stream| !closed(stream));
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(
            idle.is_empty(),
            "{} of 10,000 idle connections to {to} are still open",
            idle.len()
        );
    }
}

#[test]
fn one_address_cannot_take_all_connections() {
    let library = films::library(&["progressive"]);
    let options = Options::new(library.path())
        .set("rtsp.max_connections_per_peer", 50)
        .set("http.max_connections_per_peer", 50);
    let server = options.start();
    server.wait_indexed();
    for to in [server.rtsp, server.http] {
        let mut greedy: Vec<TcpStream> = (0..200)
            .map(|_| connect_from([127, 0, 2, 1], to).expect("a connection"))
            .collect();
        let open = wait::until(seconds(5), || {
            greedy.retain_mut(|stream| !closed(stream));
            (greedy.len() <= 50).then_some(greedy.len())
        });
        assert!(
            open.is_some_and(|open| open > 0),
            "{} of 200 connections of one address to {to} stay open",
            greedy.len()
        );
        still_serves(&server);
    }
}

/// Writes `piece` repeatedly until the server closes the connection or stops reading; returns the
/// number of bytes written.
fn pour(stream: &mut TcpStream, piece: &[u8]) -> u64 {
    stream
        .set_write_timeout(Some(seconds(15)))
        .expect("a socket");
    stream
        .set_read_timeout(Some(Duration::from_millis(1)))
        .expect("a socket");
    let mut poured = 0;
    let mut answer = [0; 4096];
    while poured < 1 << 30 {
        match stream.write(piece) {
            Ok(count) => poured += count as u64,
            Err(_) => break,
        }
        // A response is fine: what is written after it is not read.
        match stream.read(&mut answer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    poured
}

#[test]
fn requests_of_a_gigabyte_are_refused_early() {
    let (server, _library) = server();
    let a = vec![b'a'; 64 << 10];
    let lines: Vec<u8> = b"X-Header: value\r\n".repeat(4000);
    let requests: [(&str, SocketAddr, &[u8]); 11] = [
        ("OPTIONS rtsp://", server.rtsp, &a),
        ("aaaa", server.rtsp, &a),
        ("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nX: ", server.rtsp, &a),
        ("OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n", server.rtsp, &lines),
        (
            "SET_PARAMETER * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 1073741824\r\n\r\n",
            server.rtsp,
            &a,
        ),
        (
            "SET_PARAMETER * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
            server.rtsp,
            &a,
        ),
        ("GET /", server.http, &a),
        ("GET / HTTP/1.1\r\nHost: localhost\r\nX: ", server.http, &a),
        ("GET / HTTP/1.1\r\nHost: localhost\r\n", server.http, &lines),
        (
            "POST /api/films HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n",
            server.http,
            &a,
        ),
        (
            "DELETE /api/sessions/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n",
            server.http,
            &a,
        ),
    ];
    for (beginning, to, piece) in requests {
        let mut stream = TcpStream::connect(to).expect("a connection");
        stream.write_all(beginning.as_bytes()).expect("a beginning");
        let poured = pour(&mut stream, piece);
        // Bytes in the buffers of two sockets are counted, too.
        assert!(
            poured < 24 << 20,
            "{poured} bytes after {beginning:?} were taken"
        );
        still_serves(&server);
    }
    let (_, most) = server.memory();
    assert!(most < 160 << 20, "{most} bytes at most");
}

/// The number of sessions that the server reports.
fn sessions(server: &Server) -> usize {
    let total = server.get("/api/sessions").json()["total"].as_u64();
    total.expect("a number") as usize
}

#[test]
fn sessions_that_are_set_up_and_left_expire() {
    let library = films::library(&["progressive", "seeks"]);
    let server = Options::new(library.path())
        .set("rtsp.timeout", 2)
        .set("http.timeout", 5)
        .start();
    server.wait_indexed();
    let url = server.rtsp_url("progressive");
    let mut open = Vec::new();
    for _ in 0..30 {
        let mut client = Client::connect(server.rtsp).expect("a connection");
        client.setup_udp(&url).expect("SETUP");
        let mut gone = Client::connect(server.rtsp).expect("a connection");
        gone.setup_udp(&url).expect("SETUP");
        let mut gone_over_tcp = Client::connect(server.rtsp).expect("a connection");
        gone_over_tcp.setup_tcp(&url).expect("SETUP");
        open.push(client);
        assert_eq!(server.get("/seeks/hls/main.m3u8").status, 200);
    }
    let left = wait::until(seconds(20), || (sessions(&server) == 0).then_some(()));
    assert!(
        left.is_some(),
        "{} sessions that nobody cares for are still there",
        sessions(&server)
    );
    still_serves(&server);
}

#[test]
fn one_connection_cannot_set_up_sessions_without_end() {
    let (server, _library) = server();
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let (_, media) = client
        .describe(&server.rtsp_url("progressive"))
        .expect("DESCRIBE");
    let mut refused = 0;
    for n in 0..2000u16 {
        client.session = None;
        let transport = format!(
            "RTP/AVP;unicast;client_port={}-{}",
            30000 + 2 * n,
            30001 + 2 * n
        );
        match client.request("SETUP", &media[0], &[("Transport", &transport)]) {
            Ok(answer) => refused += usize::from(answer.status != 200),
            Err(_) => {
                refused = 2000; // closing is fine, too
                break;
            }
        }
    }
    assert!(
        refused > 1900,
        "only {refused} of 2000 sessions of one connection were refused"
    );
    assert!(sessions(&server) <= 64, "{} sessions", sessions(&server));
    still_serves(&server);
}

#[test]
fn a_viewer_whose_cable_is_pulled_is_given_up() {
    let network = Network::new();
    let library = films::library(&["load"]);
    let options = Options::new(library.path()).namespace(network.server(), SERVER);
    let options = options.set("rtsp.timeout", 3).set("rtsp.max_lag", 2);
    let server = network.as_server(|| {
        let server = options.start();
        server.wait_indexed();
        server
    });
    let url = server.rtsp_url("load");
    // One viewer over TCP and one over UDP.
    let viewers = network.as_viewer(|| {
        let mut tcp = Client::connect(server.rtsp).expect("a connection");
        tcp.setup_tcp(&url).expect("SETUP");
        tcp.request("PLAY", &url, &[]).expect("PLAY");
        let mut udp = Client::connect(server.rtsp).expect("a connection");
        let tracks = udp.setup_udp(&url).expect("SETUP");
        udp.request("PLAY", &url, &[]).expect("PLAY");
        (tcp, udp, tracks)
    });
    let count = || network.as_server(|| sessions(&server));
    assert_eq!(count(), 2);
    network.cut();
    let gone = wait::until(seconds(20), || (count() == 0).then_some(()));
    assert!(
        gone.is_some(),
        "{} viewers behind the cut cable are still there",
        count()
    );
    drop(viewers);
}

#[test]
fn readers_that_stopped_reading_over_http_take_little_memory() {
    let library = films::library(&["load", "progressive"]);
    let server = Server::start(library.path());
    let (before, _) = server.memory();
    let mut stopped = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(server.http).expect("a connection");
        let request = format!("GET /load/file HTTP/1.1\r\nHost: {}\r\n\r\n", server.http);
        stream.write_all(request.as_bytes()).expect("a request");
        stopped.push(stream);
    }
    // Each of them is served: the beginning of the response is in its socket.
    for (number, stream) in stopped.iter().enumerate() {
        let mut answer = [0; 12];
        stream.set_read_timeout(Some(seconds(20))).expect("a limit");
        let peeked = wait::until(seconds(20), || {
            (stream.peek(&mut answer).ok()? == answer.len()).then_some(())
        });
        assert!(peeked.is_some(), "reader {number} has no answer");
        assert_eq!(&answer, b"HTTP/1.1 200", "reader {number}");
    }
    std::thread::sleep(seconds(3));
    still_serves(&server);
    let (_, most) = server.memory();
    // The pool is 32 MiB; then there are 64 KiB per viewer, and the needs of the process.
    let limit = before + (32 << 20) + 200 * (64 << 10) + (32 << 20);
    assert!(
        most < limit,
        "{most} bytes with 200 stopped readers, {limit} allowed"
    );
}

/// The number of the server's open descriptors, which include its UDP sockets.
fn descriptors(server: &Server) -> usize {
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.pid()));
    open.expect("the server's descriptors").count()
}

/// The least number of sessions that each client opens, however slow the machine is.
const LEAST_SESSIONS: usize = 30;

/// Opens and closes sessions over UDP from `source` until the time is over; returns how many
/// played.
fn come_and_go(server: &Server, source: [u8; 4], time: Duration) -> usize {
    let url = server.rtsp_url("progressive");
    let media = Client::connect(server.rtsp)
        .and_then(|mut client| client.describe(&url))
        .expect("DESCRIBE")
        .1;
    // Nobody reads what is received.
    let sink = UdpSocket::bind((Ipv4Addr::from(source), 0)).expect("a port");
    let port = sink.local_addr().expect("an address").port() & !1;
    let transport = format!("RTP/AVP;unicast;client_port={port}-{}", port + 1);
    let (deadline, mut sessions) = (Deadline::after(time), 0);
    let latest = Deadline::after(time + seconds(60));
    while !deadline.over() || sessions < LEAST_SESSIONS {
        assert!(!latest.over(), "only {sessions} sessions");
        let stream = connect_from(source, server.rtsp).expect("a connection");
        let mut client = Client::from_stream(stream);
        let mut ask = |method, url: &str, headers: &[(&str, &str)]| {
            let answer = client.request(method, url, headers).expect("an answer");
            assert_eq!(answer.status, 200, "{method}: {answer:?}");
        };
        ask("SETUP", &media[0], &[("Transport", &transport)]);
        ask("PLAY", &url, &[]);
        // One in four leaves without TEARDOWN.
        if sessions % 4 < 3 {
            ask("TEARDOWN", &url, &[]);
        }
        sessions += 1;
    }
    sessions
}

/// With `REELWAY_LONG=60` it takes a minute.
#[test]
fn sessions_opened_and_closed_as_fast_as_it_goes_leave_nothing_behind() {
    let long = std::env::var("REELWAY_LONG").ok();
    let time = long
        .and_then(|text| text.parse().ok())
        .map_or(Duration::from_secs(1), Duration::from_secs);
    let library = films::library(&["progressive"]);
    let server = Options::new(library.path())
        .set("log.level", "\"warn\"")
        .set("rtsp.timeout", 1)
        .start();
    server.wait_indexed();
    let all_gone = || {
        let gone = wait::until(seconds(20), || (sessions(&server) == 0).then_some(()));
        assert!(gone.is_some(), "{} sessions are left", sessions(&server));
    };
    let from = |number: u8| [127, 0, 1, number];
    // Whatever the first sessions allocate: caches, threads, allocator.
    come_and_go(&server, from(1), Duration::from_millis(300));
    all_gone();
    let (before, (memory, _)) = (descriptors(&server), server.memory());
    let count: usize = std::thread::scope(|scope| {
        let server = &server;
        let clients: Vec<_> = (1..=4)
            .map(|number| scope.spawn(move || come_and_go(server, from(number), time)))
            .collect();
        let counts = clients.into_iter().map(|client| client.join());
        counts.map(|count| count.expect("a client")).sum()
    });
    all_gone();
    let gone = wait::until(seconds(10), || {
        (descriptors(&server) <= before).then_some(())
    });
    let (after, (grown, _)) = (descriptors(&server), server.memory());
    println!(
        "{count} sessions in {time:?}: {before} and {after} descriptors, {memory} and {grown} bytes"
    );
    assert!(gone.is_some(), "{before} descriptors, then {after}");
    // A leak of one kilobyte per session would show after a minute, one of descriptors or sessions
    // at once.
    assert!(
        grown < memory + (24 << 20),
        "{memory} bytes, then {grown}, after {count} sessions"
    );
    still_serves(&server);
}

//! Hostile clients: each is limited, answered or closed in time, and other viewers notice nothing.

mod shell;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use reelway_tests::wait::until;
use shell::{Stand, frames, play};

const SECOND: Duration = Duration::from_secs(1);

fn open(stand: &Stand) -> TcpStream {
    let stream = TcpStream::connect(stand.address).unwrap();
    stream.set_read_timeout(Some(10 * SECOND)).unwrap();
    stream
}

/// Returns everything received until the server closes the connection, which it must do.
fn to_the_end(mut stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            // Caused by a ring of the server, in this same process, that is being released.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => panic!("not closed: {error}"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a new connection is accepted and served.
fn is_served(stand: &Stand) -> bool {
    let answer = stand.connect().request("OPTIONS", "*", &[]);
    answer.is_ok_and(|answer| answer.status == 200)
}

#[test]
fn a_request_that_takes_too_long_is_answered_and_its_connection_closed() {
    let stand = Stand::with(|config| config.message_timeout = SECOND / 2);
    let began = reelway_clock::now();
    let silent = open(&stand);
    // Sends a byte at a time until there is an answer.
    let mut slow = open(&stand);
    slow.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let request = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nUser-Agent: ".iter();
    let answered = request.chain(&[b'x'; 1000]).any(|byte| {
        let sent = slow.write_all(&[*byte]);
        sent.is_err() || slow.peek(&mut [0]).is_ok()
    });
    assert!(answered, "a byte at a time for 20 s was listened to");
    slow.set_read_timeout(Some(10 * SECOND)).unwrap();
    assert!(to_the_end(&slow).starts_with("RTSP/1.0 408 "));
    assert!(to_the_end(&silent).starts_with("RTSP/1.0 408 "));
    assert!(reelway_clock::now().since(began) < 5 * SECOND);

    // An incomplete frame times out too, even after a valid request.
    let mut frame = open(&stand);
    frame
        .write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n$\x00\xff")
        .unwrap();
    let text = to_the_end(&frame);
    assert!(text.contains("200 OK") && text.contains("408 "), "{text}");
}

#[test]
fn a_long_frame_that_is_passed_over_is_waited_for_no_longer_once_it_has_come() {
    let stand = Stand::with(|config| config.message_timeout = 2 * SECOND);
    let mut stream = open(&stand);
    let mut buffer = [0; 4096];
    for _ in 0..2 {
        let request = b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n";
        stream.write_all(request).unwrap();
        let read = stream.read(&mut buffer).unwrap();
        assert!(buffer[..read].starts_with(b"RTSP/1.0 200 "));
        // Longer than any report and than the read buffer.
        let frame = [&b"$\x00\xea\x60"[..], &[0; 60_000]].concat();
        stream.write_all(&frame).unwrap();
        // No answer may follow, for longer than the message timeout.
        stream.set_read_timeout(Some(3 * SECOND)).unwrap();
        let said = stream.peek(&mut buffer).map_err(|error| error.kind());
        assert_eq!(said, Err(ErrorKind::WouldBlock));
        stream.set_read_timeout(Some(10 * SECOND)).unwrap();
    }
}

#[test]
fn a_request_of_a_gigabyte_is_refused_before_it_is_read() {
    let stand = Stand::new();
    let mut announced = open(&stand);
    announced
        .write_all(b"SET_PARAMETER * RTSP/1.0\r\nCSeq: 3\r\nContent-Length: 1073741824\r\n\r\n")
        .unwrap();
    let mut sent = 0u64;
    let piece = vec![b'x'; 1 << 20];
    announced.set_write_timeout(Some(5 * SECOND)).unwrap();
    while sent < 1 << 30 && announced.write_all(&piece).is_ok() {
        sent += piece.len() as u64;
    }
    assert!(sent < 256 << 20, "{} MiB were taken", sent >> 20);

    let mut polite = open(&stand);
    polite
        .write_all(b"SET_PARAMETER * RTSP/1.0\r\nCSeq: 3\r\nContent-Length: 1073741824\r\n\r\n")
        .unwrap();
    let text = to_the_end(&polite);
    assert!(
        text.starts_with("RTSP/1.0 413 ") && text.contains("CSeq: 3\r\n"),
        "{text}"
    );

    for (endless, status) in [("", "414"), ("OPTIONS * RTSP/1.0\r\nCSeq: 9\r\nX: ", "413")] {
        let mut stream = open(&stand);
        stream.write_all(endless.as_bytes()).unwrap();
        // Just beyond the limit, so that the answer is not lost in a reset.
        let _ = stream.write_all(&vec![b'A'; 24 * 1024]);
        let text = to_the_end(&stream);
        assert!(text.starts_with(&format!("RTSP/1.0 {status} ")), "{text}");
    }
}

#[test]
fn ten_thousand_who_only_connect_are_bounded_and_room_is_made_again() {
    let descriptors = reelway_sys::limits::raise_descriptors().unwrap();
    // This process holds both ends of the connections.
    let crowd = (10_000 * descriptors.min(20_000) / 20_000).saturating_sub(500) as usize;
    let places = crowd / 3;
    let stand = Stand::with(|config| {
        config.connections = places;
        config.connections_per_peer = usize::MAX;
        config.message_timeout = 8 * SECOND;
    });
    let mut viewer = stand.connect();
    viewer.setup_tcp(&stand.url()).unwrap();
    play(&mut viewer, &stand.url(), "");
    let idle: Vec<TcpStream> = (0..crowd)
        .map_while(|_| TcpStream::connect(stand.address).ok())
        .collect();
    assert_eq!(idle.len(), crowd);
    for stream in &idle {
        stream.set_nonblocking(true).unwrap();
    }
    // The others are refused, some of them with an answer.
    let is_open = |mut stream: &TcpStream| {
        let read = stream.read(&mut [0; 256]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let open = until(10 * SECOND, || {
        let open = idle.iter().filter(|stream| is_open(stream)).count();
        (open <= places).then_some(open)
    });
    let open = open.unwrap_or_else(|| panic!("more than {places} places"));
    assert!(open >= places / 2, "{open} of {places} places");
    assert!(
        frames(&mut viewer, SECOND).len() > 20,
        "who watches goes on watching"
    );
    // The idle connections lose their places, and others are accepted.
    let newcomer = until(20 * SECOND, || is_served(&stand).then_some(()));
    assert!(newcomer.is_some(), "a place");
}

#[test]
fn one_address_does_not_take_all_places() {
    let stand = Stand::with(|config| config.connections_per_peer = 5);
    // Connections are accepted in the order in which they connect.
    let mine: Vec<TcpStream> = (0..5).map(|_| open(&stand)).collect();
    assert!(to_the_end(&open(&stand)).starts_with("RTSP/1.0 503 "));
    drop(mine);
    assert!(until(5 * SECOND, || is_served(&stand).then_some(())).is_some());
}

#[test]
fn who_asks_and_does_not_read_is_closed() {
    let stand = Stand::new();
    let mut rude = open(&stand);
    rude.set_write_timeout(Some(2 * SECOND)).unwrap();
    let requests = format!("DESCRIBE {} RTSP/1.0\r\nCSeq: 1\r\n\r\n", stand.url()).repeat(100);
    let mut sent = 0;
    let closed = loop {
        match rude.write(requests.as_bytes()) {
            Ok(written) => sent += written,
            Err(error) => break error,
        }
        assert!(sent < 64 << 20, "{sent} bytes of requests were taken");
    };
    assert!(
        matches!(
            closed.kind(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
        ),
        "not closed: {closed} after {sent} bytes"
    );
    assert_eq!(
        stand.connect().request("OPTIONS", "*", &[]).unwrap().status,
        200
    );
}

#[test]
fn half_open_sessions_go() {
    let stand = Stand::with(|config| {
        config.session_timeout = SECOND;
        config.idle_timeout = SECOND;
    });
    let mut clients = Vec::new();
    for n in 0..40 {
        let mut client = stand.connect();
        if n % 2 == 0 {
            client.setup_udp(&stand.url()).unwrap();
        } else {
            client.setup_tcp(&stand.url()).unwrap();
        }
        clients.push(client);
    }
    // Half of them shut down their write side only.
    for client in clients.iter().take(20) {
        client.stream().shutdown(Shutdown::Write).unwrap();
    }
    stand.wait_for_sessions(0, 8 * SECOND);
    for client in &clients {
        client.stream().set_read_timeout(Some(5 * SECOND)).unwrap();
        to_the_end(client.stream());
    }
}

#[test]
fn noise_is_answered_or_closed_and_harms_nobody() {
    let stand = Stand::with(|config| config.message_timeout = SECOND);
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let pieces: [&[u8]; 12] = [
        b"OPTIONS * RTSP/1.0\r\n",
        b"SETUP ",
        b"rtsp://h/demo/track=1 ",
        b"RTSP/1.0\r\n",
        b"CSeq: 1\r\n",
        b"\r\n",
        b"$\0\0\x04",
        b"$\xff\xff\xff",
        b"Transport: RTP/AVP/TCP;interleaved=0-1\r\n",
        b"Session: x\r\n",
        b"\0\xff\xfe",
        b"Content-Length: 3\r\n",
    ];
    for _ in 0..300 {
        let mut stream = open(&stand);
        for _ in 0..random() % 20 {
            let piece = pieces[(random() % 12) as usize];
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        if random() % 2 == 0 {
            let _ = stream.shutdown(Shutdown::Write);
            let mut left = Vec::new();
            let _ = stream.read_to_end(&mut left);
        }
    }
    let address: SocketAddr = stand.address;
    assert!(TcpStream::connect(address).is_ok());
    let mut client = stand.connect();
    client.setup_tcp(&stand.url()).unwrap();
    play(&mut client, &stand.url(), "");
    assert!(!frames(&mut client, SECOND / 2).is_empty());
}

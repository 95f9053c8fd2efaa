//! The API with ten thousand sessions and clients that do not read the responses: memory grows by a
//! bounded amount, and the threads that serve all clients do no long work.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::http;
use reelway_tests::rtsp::Client;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;
use serde_json::Value;

const SESSIONS: usize = 10_000;
/// The most by which memory may grow under an attack.
const GROWTH: u64 = 50 << 20;
/// The most bytes that one poll of the reactor may serialise or compress.
const BYTES_OF_A_POLL: f64 = 4096.0;

/// Returns this many loopback addresses.
fn addresses(count: u8) -> Vec<IpAddr> {
    (1..=count)
        .map(|last| Ipv4Addr::new(127, 0, 0, last).into())
        .collect()
}

/// Connects from an address of this machine, with a small receive window.
fn connect(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small window");
    let from = SocketAddr::new(from, 0);
    socket.bind(&from.into()).expect("an address of loopback");
    socket.connect(&to.into()).expect("a connection");
    let stream = TcpStream::from(socket);
    let limit = Some(Duration::from_secs(30));
    stream.set_read_timeout(limit).expect("a timeout");
    stream
}

/// Begins `count` HLS viewers.
fn begin_sessions(server: &Server, count: usize) {
    let begin = |from: IpAddr, count: usize| {
        let stream = connect(from, server.http);
        let mut answers = BufReader::new(stream.try_clone().expect("a handle"));
        let mut requests = stream;
        for _ in 0..count {
            write!(
                requests,
                "GET /bunny/hls/main.m3u8 HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            .expect("a request");
            let answer = http::read(&mut answers, false).expect("an answer");
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
    };
    let all = addresses(50);
    std::thread::scope(|scope| {
        for from in all.chunks(13) {
            let each = count / all.len();
            scope.spawn(move || from.iter().for_each(|from| begin(*from, each)));
        }
    });
    assert_eq!(server.get("/api/sessions").json()["total"], count);
}

/// Sends requests whose responses nobody reads, except for the status much later.
fn ask_and_do_not_read(
    server: &Server,
    from: &[IpAddr],
    count: usize,
    path: &str,
) -> Vec<TcpStream> {
    let ask = |number: usize| {
        let mut stream = connect(from[number % from.len()], server.http);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: identity\r\n\r\n"
        )
        .expect("a request");
        stream
    };
    (0..count).map(ask).collect()
}

fn status(stream: &TcpStream) -> u16 {
    let mut begin = [0; 12];
    let arrived = wait::until(Duration::from_secs(20), || {
        let peeked = stream.peek(&mut begin).expect("an answer");
        (peeked >= begin.len()).then_some(())
    });
    assert!(arrived.is_some(), "no answer came");
    let text = std::str::from_utf8(&begin[9..]).expect("a status");
    text.parse().expect("a status")
}

/// The longest of `count` response times of an RTSP connection.
fn slowest_answer(server: &Server, count: usize) -> Duration {
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let url = server.rtsp_url("bunny");
    let once = |_| {
        let began = reelway_clock::now();
        client.request("OPTIONS", &url, &[]).expect("OPTIONS");
        reelway_clock::now().since(began)
    };
    (0..count).map(once).max().unwrap_or_default()
}

/// Resets the server's peak memory (proc(5), `clear_refs`).
fn forget_peak(server: &Server) {
    let path = format!("/proc/{}/clear_refs", server.pid());
    std::fs::write(path, "5").expect("our own process");
}

/// Reads all sessions from the first events of the stream.
fn read_list(server: &Server, from: IpAddr) -> Vec<Value> {
    let mut stream = connect(from, server.http);
    write!(
        stream,
        "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    .expect("a request");
    let (mut list, mut kind) = (Vec::new(), String::new());
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        if let Some(event) = line.strip_prefix("event: ") {
            kind = event.to_owned();
        } else if let Some(data) = line.strip_prefix("data: ")
            && kind == "sessions"
        {
            let data: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(data["from"], list.len());
            list.extend(data["sessions"].as_array().expect("sessions").clone());
            if data["total"] == list.len() {
                return list;
            }
        }
    }
    panic!("the events ended after {} sessions", list.len());
}

#[test]
fn clients_that_do_not_read_cost_little_memory_and_no_time_of_the_reactor() {
    let server = Options::new(films::film("bunny").path)
        // Fifty addresses with one connection each have all viewers.
        .set("sessions.unplayed_per_connection", SESSIONS)
        .set("sessions.max", SESSIONS + 100)
        .set("http.timeout", 3600)
        .set("log.level", "\"warn\"")
        .start();
    server.wait_indexed();
    begin_sessions(&server, SESSIONS);
    eprintln!(
        "slowest of 200 OPTIONS before: {:?}",
        slowest_answer(&server, 200)
    );

    // Measured before any attack, so that what an attack leaves behind counts as well.
    let before = server.memory().0;
    for (path, most_of_an_address) in [("/api/sessions?per_page=200", 1000), ("/api/events", 512)] {
        for from in [addresses(1), addresses(64)] {
            for count in [300, 600] {
                forget_peak(&server);
                let attackers = ask_and_do_not_read(&server, &from, count, path);
                let slowest = slowest_answer(&server, 200);
                let got_in = attackers.iter().filter(|one| status(one) == 200).count();
                let grown = server.memory().1.saturating_sub(before);
                eprintln!(
                    "{path}: {got_in} of {count} from {} addresses got in; memory grew by {:.1} MiB from {} MiB; slowest of 200 OPTIONS {slowest:?}",
                    from.len(),
                    grown as f64 / f64::from(1 << 20),
                    before >> 20
                );
                assert_eq!(got_in, count.min(most_of_an_address * from.len()));
                assert!(grown <= GROWTH, "memory grew by {} KiB", grown >> 10);
                // Meanwhile, a client that reads gets everything.
                if path == "/api/events" {
                    let list = read_list(&server, Ipv4Addr::new(127, 0, 0, 99).into());
                    assert_eq!(list.len(), SESSIONS);
                }
                drop(attackers);
                let gone = wait::until(Duration::from_secs(10), || {
                    (server.metric("reelway_http_event_listeners") == 0.0).then_some(())
                });
                assert!(gone.is_some(), "listeners that went are still counted");
            }
        }
    }

    let bytes = server.metric("reelway_reactor_poll_most_bytes");
    let longest = server.metric("reelway_reactor_poll_longest_cpu_seconds");
    eprintln!(
        "a poll serialised or compressed {bytes} bytes at most; the longest took {longest} s of CPU"
    );
    assert!(bytes <= BYTES_OF_A_POLL, "{bytes} bytes in a poll");
}

#[test]
fn listeners_and_clients_that_take_nothing_are_disconnected() {
    let server = Options::new(films::film("bunny").path)
        // Fifty addresses with one connection each have all viewers.
        .set("sessions.unplayed_per_connection", SESSIONS)
        .set("http.timeout", 3600)
        .set("log.level", "\"warn\"")
        .start();
    server.wait_indexed();
    begin_sessions(&server, 5000);
    let listeners = ask_and_do_not_read(&server, &addresses(1), 20, "/api/events");
    assert!(listeners.iter().all(|one| status(one) == 200));
    // A piece has 10 s.
    let closed = wait::until(Duration::from_secs(30), || {
        (server.metric("reelway_http_event_listeners") == 0.0).then_some(())
    });
    assert!(closed.is_some(), "listeners that take nothing are kept");
    assert!(server.metric("reelway_http_connections_stalled_total") >= 20.0);
}

#[test]
fn sessions_are_paged_and_filtered() {
    let library = films::library(&["bunny", "seeks"]);
    let server = Options::new(library.path()).start();
    server.wait_indexed();
    for title in ["bunny", "seeks", "bunny"] {
        server.get(&format!("/{title}/hls/main.m3u8"));
    }
    server.get("/seeks/dash/main.mpd");
    let list = |query: &str| server.get(&format!("/api/sessions{query}")).json();
    let titles = |list: &Value| -> Vec<String> {
        let sessions = list["sessions"].as_array().expect("sessions").iter();
        let title = |session: &Value| session["title"].as_str().expect("a title").to_owned();
        sessions.map(title).collect()
    };
    let all = list("");
    let shape: HashMap<_, _> = ["total", "page", "per_page"]
        .map(|key| (key, all[key].as_u64()))
        .into();
    assert_eq!(
        (shape["total"], shape["page"], shape["per_page"]),
        (Some(4), Some(1), Some(50))
    );
    assert_eq!(titles(&all), ["bunny", "seeks", "bunny", "seeks"]);
    let page = list("?per_page=3&page=2");
    assert_eq!((&page["total"], titles(&page).len()), (&Value::from(4), 1));
    assert_eq!(list("?title=bunny")["total"], 2);
    assert_eq!(titles(&list("?protocol=dash")), ["seeks"]);
    assert_eq!(list("?title=bunny&protocol=dash")["total"], 0);
    assert_eq!(list("?sort=-started")["sessions"][0]["protocol"], "dash");
    assert_eq!(list("?per_page=9999")["per_page"], 200);
    for wrong in ["?protocol=smoke", "?page=x", "?sort=colour"] {
        assert_eq!(
            server.get(&format!("/api/sessions{wrong}")).status,
            400,
            "{wrong}"
        );
    }
}

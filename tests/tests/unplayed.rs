//! Attackers that create sessions and never play: they are admitted as often as they like, and keep
//! nobody out.
//!
//! The attacker is a thread of this process with its own sockets; the honest viewers are ffmpeg
//! processes.

use std::io::{BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reelway_tests::server::{Options, Server};
use reelway_tests::{films, http, players, rtsp, wait};

const FILM: &str = "seeks";

/// Connects from one of 64 loopback addresses, none of which is 127.0.0.1.
fn connect_from(number: usize, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    let source = Ipv4Addr::new(127, 0, 0, 2 + (number % 64) as u8);
    socket.bind(&SocketAddr::new(IpAddr::V4(source), 0).into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(5))?;
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    Ok(stream)
}

/// The counters of an attack.
#[derive(Default)]
struct Attack {
    over: AtomicBool,
    tried: AtomicUsize,
    let_in: AtomicUsize,
}

impl Attack {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    fn count(&self, is_in: bool) {
        self.tried.fetch_add(1, Ordering::Relaxed);
        self.let_in.fetch_add(is_in.into(), Ordering::Relaxed);
    }

    /// Waits until the attacker was admitted this many times.
    #[track_caller]
    fn reaches(&self, number: usize) {
        let reached = wait::until(Duration::from_secs(60), || {
            (self.let_in.load(Ordering::Relaxed) >= number).then_some(())
        });
        let (tried, let_in) = (
            self.tried.load(Ordering::Relaxed),
            self.let_in.load(Ordering::Relaxed),
        );
        assert!(
            reached.is_some(),
            "let in {let_in} of {tried}, {number} wanted"
        );
    }
}

/// Ends the attack when the test ends, even if it fails.
struct Ends<'a>(&'a Attack);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// Plays two seconds of the film with ffmpeg; returns its output if it failed.
fn watch(url: &str, before: &[&str]) -> Result<(), String> {
    let mut words: Vec<&str> = before.to_vec();
    words.extend(["-i", url, "-t", "2", "-c", "copy", "-f", "null", "-"]);
    let ran = players::run(players::ffmpeg(words), Duration::from_secs(30));
    match ran.status.is_some_and(|status| status.success()) {
        true => Ok(()),
        false => Err(ran.tail()),
    }
}

/// Checks that honest viewers, one after another, over RTSP (UDP and TCP) and HLS, can play.
#[track_caller]
fn honest_viewers_play(server: &Server) {
    let url = server.rtsp_url(FILM);
    let playlist = server.http_url(&format!("{FILM}/hls/main.m3u8"));
    for round in 0..2 {
        for (url, before) in [
            (&url, &["-rtsp_transport", "tcp"][..]),
            (&url, &["-rtsp_transport", "udp"][..]),
            (&playlist, &[][..]),
        ] {
            let watched = watch(url, before);
            assert_eq!(watched, Ok(()), "round {round}: {url} {before:?}");
        }
    }
}

/// Requests playlists as fast as the server responds, a hundred on each connection.
fn ask_for_playlists(attack: &Attack, server: SocketAddr, addresses: usize) {
    let mut number = 0;
    while attack.goes_on() {
        let stream = connect_from(number % addresses, server).expect("a connection");
        let mut answers = BufReader::new(stream.try_clone().expect("a socket"));
        let mut stream = stream;
        for _ in 0..100 {
            let request = format!("GET /{FILM}/hls/main.m3u8 HTTP/1.1\r\nHost: {server}\r\n\r\n");
            stream.write_all(request.as_bytes()).expect("a request");
            let answer = http::read(&mut answers, false).expect("an answer");
            attack.count(answer.status == 200);
            if !attack.goes_on() {
                return;
            }
        }
        number += 1;
    }
}

/// SETs UP and never plays. With `stays`, the last 64 connections stay open; otherwise each is
/// closed at once.
fn set_up_only(attack: &Attack, server: SocketAddr, addresses: usize, stays: bool) {
    let mut standing = std::collections::VecDeque::new();
    let url = format!("rtsp://{server}/{FILM}/track=1");
    let transport = [("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1")];
    let mut number = 0;
    while attack.goes_on() {
        let stream = connect_from(number % addresses, server).expect("a connection");
        let mut client = rtsp::Client::from_stream(stream);
        let answer = client
            .request("SETUP", &url, &transport)
            .expect("an answer");
        attack.count(answer.status == 200);
        if stays {
            standing.push_back(client);
            if standing.len() > 64 {
                standing.pop_front();
            }
            // Some 20 per second: the test's link has room for fewer.
            std::thread::sleep(Duration::from_millis(50));
        } else {
            // Saves ports: each stays in use for a minute after its connection.
            std::thread::sleep(Duration::from_millis(2));
        }
        number += 1;
    }
}

/// Runs an attack while honest viewers do something; returns the attempts and the admissions.
fn under(attacker: impl Fn(&Attack) + Sync, honest: impl FnOnce(&Attack)) -> (usize, usize) {
    let attack = Attack::default();
    std::thread::scope(|scope| {
        let ends = Ends(&attack);
        scope.spawn(|| attacker(&attack));
        honest(&attack);
        drop(ends);
    });
    (
        attack.tried.load(Ordering::Relaxed),
        attack.let_in.load(Ordering::Relaxed),
    )
}

fn server(options: impl FnOnce(Options) -> Options) -> (Server, tempfile::TempDir) {
    let library = films::library(&[FILM]);
    let server = options(Options::new(library.path())).start();
    server.wait_indexed();
    (server, library)
}

#[test]
fn thousands_of_playlists_that_nobody_plays_keep_nobody_out() {
    for addresses in [1, 64] {
        let (server, _library) = server(|options| options.set("sessions.max", 400));
        let (tried, let_in) = under(
            |attack| ask_for_playlists(attack, server.http, addresses),
            |attack| {
                attack.reaches(4_000);
                honest_viewers_play(&server);
            },
        );
        eprintln!("{addresses} addresses: {let_in} playlists of {tried}");
        assert!(
            let_in >= 10 * 400,
            "of {tried} from {addresses} addresses {let_in} were let in: to refuse is no answer"
        );
    }
}

#[test]
fn setups_on_connections_that_are_closed_at_once_leave_nothing_behind() {
    for addresses in [1, 64] {
        let (server, _library) = server(|options| options.set("sessions.max", 100));
        let (tried, let_in) = under(
            |attack| set_up_only(attack, server.rtsp, addresses, false),
            |attack| {
                attack.reaches(500);
                honest_viewers_play(&server);
            },
        );
        eprintln!("{addresses} addresses: {let_in} SETUPs of {tried}");
        assert!(let_in >= 500);
        let gone = wait::until(Duration::from_secs(5), || {
            let node = server.get("/api/node").json();
            (node["sessions"]["by_protocol"].get("rtsp/tcp").is_none()).then_some(())
        });
        assert!(gone.is_some(), "{}", server.get("/api/node").text());
    }
}

#[test]
fn unplayed_setups_do_not_close_a_limited_link() {
    for addresses in [1, 64] {
        let (server, _library) = server(|options| options.flag("--capacity", "net=8Mbit"));
        let (tried, let_in) = under(
            |attack| set_up_only(attack, server.rtsp, addresses, true),
            |attack| {
                // Several times as many as the link has room for.
                attack.reaches(3 * 64);
                honest_viewers_play(&server);
            },
        );
        eprintln!("{addresses} addresses: {let_in} SETUPs of {tried}");
        assert!(let_in >= 3 * 64);
    }
}

#[test]
fn a_foreign_page_that_asks_for_playlists_as_images_is_refused() {
    let (server, _library) = server(|options| options);
    let path = format!("/{FILM}/hls/main.m3u8");
    let of_page = |mode, dest| {
        let headers = [
            ("Sec-Fetch-Site", "cross-site"),
            ("Sec-Fetch-Mode", mode),
            ("Sec-Fetch-Dest", dest),
        ];
        http::request(server.http, "GET", &path, &headers).expect("an answer")
    };
    assert_eq!(of_page("no-cors", "image").status, 403);
    assert_eq!(server.get("/api/node").json()["sessions"]["total"], 0);
    assert_eq!(of_page("cors", "empty").status, 200, "a player's script");
    assert_eq!(of_page("no-cors", "video").status, 200, "a video element");
}

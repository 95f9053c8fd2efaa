//! Downloads of files: as fast as TCP allows if nothing is limited, otherwise as fast as unbooked
//! capacity allows, and at the film's pace if it is configured.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Barrier;
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::http;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait::Deadline;

/// The film's duration in seconds.
const SECONDS: f64 = 60.0;

fn server(options: impl FnOnce(Options) -> Options) -> (Server, tempfile::TempDir, u64) {
    let library = films::library(&["load"]);
    let server = options(Options::new(library.path()).set("http.ahead", 1)).start();
    server.wait_indexed();
    let film = std::fs::metadata(library.path().join("load.mp4"));
    let len = film.expect("the film").len();
    (server, library, len)
}

/// Downloads with curl: returns the number of bytes, and bytes per second.
fn curl(server: &Server, more: &[&str]) -> (u64, f64) {
    let output = Command::new("curl")
        .args([
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{size_download} %{speed_download}",
        ])
        .args(more)
        .arg(server.http_url("load/file"))
        .output()
        .expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers = text.split_once(' ').expect("two numbers");
    let wrong = "a number";
    (
        numbers.0.parse().expect(wrong),
        numbers.1.parse().expect(wrong),
    )
}

/// The speed of a download in bytes per second, over some seconds after all `fetchers` have begun.
fn speed(server: &Server, name: &str, fetchers: &Barrier) -> f64 {
    let headers = [("User-Agent", name)];
    let mut stream = http::begin(server.http, "GET", "/load/file", &headers, 0).expect("a request");
    let mut bytes = vec![0; 64 << 10];
    let mut read = || stream.read(&mut bytes).expect("the film");
    read();
    fetchers.wait();
    let (began, until) = (
        reelway_clock::now(),
        Deadline::after(Duration::from_secs(6)),
    );
    let mut came = 0;
    while !until.over() {
        let read = read();
        assert!(read > 0, "the download ended");
        came += read;
    }
    came as f64 / reelway_clock::now().since(began).as_secs_f64()
}

#[test]
fn where_nothing_is_limited_curl_gets_a_film_as_fast_as_tcp_takes_it() {
    let (server, library, len) = server(|options| options);
    let (bytes, speed) = curl(&server, &["--max-time", "30"]);
    println!(
        "{:.1} MB/s, {:.0} times the film's rate",
        speed / 1e6,
        speed * SECONDS / len as f64
    );
    assert_eq!(bytes, len);
    assert!(
        speed > 10.0 * len as f64 / SECONDS,
        "{speed} bytes a second"
    );
    // The bytes are the film's.
    let film = std::fs::read(library.path().join("load.mp4")).expect("the film");
    assert!(server.get("/load/file").body == film);
    let range = [("Range", "bytes=1000001-9000000")];
    let part = http::request(server.http, "GET", "/load/file", &range).expect("an answer");
    assert!(part.status == 206 && part.body == film[1_000_001..=9_000_000]);
}

#[test]
fn where_downloads_are_paced_a_film_goes_at_its_pace() {
    let (server, _library, len) = server(|options| {
        options
            .set("http.downloads", "\"paced\"")
            .set("http.pace", 4.0)
    });
    let (bytes, _) = curl(&server, &["--max-time", "5"]);
    // One second at once, and four in each second.
    let seconds = bytes as f64 / len as f64 * SECONDS;
    assert!(
        (12.0..26.0).contains(&seconds),
        "{seconds} s of film in 5 s"
    );
}

#[test]
fn downloads_share_what_is_not_booked_and_take_no_more() {
    let (server, _library, len) = server(|options| options.flag("--capacity", "net=40Mbit"));
    let (bytes, alone) = curl(&server, &["--max-time", "50"]);
    assert_eq!(bytes, len);
    let megabits = alone * 8.0 / 1e6;
    let own = len as f64 * 8.0 / SECONDS / 1e6;
    println!("{megabits:.1} Mbit/s alone, of 40; the film's own rate is {own:.1}");
    // Less than 40: headroom, headers, a quarter of its booking as a viewer, and what it does
    // not use while it is sent a booked piece. How near it comes is tested in simulated time
    // (`reelway_viewing::Spares`); here it only has to be far above a viewer's pace.
    assert!((2.0 * own..40.0).contains(&megabits), "{megabits} Mbit/s");

    // Several downloads, distinguished by their names: together no more, and each has its share.
    let fetchers = Barrier::new(3);
    let speeds: Vec<f64> = std::thread::scope(|scope| {
        let fetch = |number: u8| {
            let (server, fetchers) = (&server, &fetchers);
            scope.spawn(move || speed(server, &format!("fetcher/{number}"), fetchers))
        };
        let threads: Vec<_> = (0..3).map(fetch).collect();
        let speeds = threads.into_iter().map(|thread| thread.join());
        speeds
            .map(|speed| speed.expect("a fetcher") * 8.0 / 1e6)
            .collect()
    });
    println!("{speeds:.1?} Mbit/s together");
    let all: f64 = speeds.iter().sum();
    assert!((4.0 * own..40.0).contains(&all), "{speeds:?} Mbit/s of 40");
    let (least, most) = (
        speeds.iter().copied().fold(f64::INFINITY, f64::min),
        speeds.iter().copied().fold(0.0, f64::max),
    );
    assert!(least > own && most < 1.5 * least, "{speeds:?} Mbit/s");
    // Viewers do not wait for them: a small piece from another position arrives at once.
    let started = reelway_clock::now();
    let range = [
        ("Range", "bytes=20000000-20000099"),
        ("User-Agent", "viewer"),
    ];
    let piece = http::request(server.http, "GET", "/load/file", &range).expect("an answer");
    assert_eq!(piece.status, 206);
    let took = reelway_clock::now().since(started);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_piece_for_a_poster_is_no_faster_than_what_is_not_booked() {
    const LIMIT: f64 = 10e6;
    let (server, _library, _) = server(|options| options.flag("--capacity", "net=10Mbit"));
    let began = reelway_clock::now();
    let piece = server.get("/load/seg/1/2.m4s?poster");
    let took = reelway_clock::now().since(began).as_secs_f64();
    assert_eq!(piece.status, 200);
    let bits = 8.0 * piece.body.len() as f64;
    println!("{bits} bits in {took:.2} s");
    assert!(bits > LIMIT, "a piece worth the name: {bits} bits");
    // A thirty-second of a second's bytes may be sent at once.
    assert!(
        bits <= LIMIT * (took + 1.0 / 32.0),
        "{bits} bits in {took} s"
    );
    let sessions = server.get("/api/sessions").json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(0));
}

/// Whether the kernel limits the server's end of a connection to a pacing rate, as `ss` shows.
fn is_held(connection: &TcpStream) -> bool {
    let here = connection.local_addr().expect("an address");
    let filter = format!("dport = :{}", here.port());
    let said = Command::new("ss").args(["-tinH", &filter]).output();
    let said = String::from_utf8(said.expect("ss (iproute2)").stdout).expect("text");
    let (_, rate) = said.split_once("pacing_rate ").expect(&said);
    // The current rate and, after a slash, its limit.
    rate.split_whitespace().next().expect(&said).contains('/')
}

#[test]
fn what_is_answered_over_the_same_connection_after_a_file_is_not_held_to_its_rate() {
    let (server, _library, _) = server(|options| options.flag("--capacity", "net=10Mbit"));
    let connection = TcpStream::connect(server.http).expect("the server");
    let patience = Some(Duration::from_secs(10));
    connection.set_read_timeout(patience).expect("a socket");
    let mut answers = BufReader::new(&connection);
    let mut get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.http);
        (&connection).write_all(request.as_bytes()).expect(path);
        let answer = http::read(&mut answers, false).expect(path);
        assert_eq!(answer.status, 200, "{path}");
        is_held(&connection)
    };
    assert!(!get("/api/films"));
    assert!(get("/load/seg/1/2.m4s?poster"));
    assert!(!get("/api/films"));
}

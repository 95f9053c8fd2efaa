//! Films on disks: read once for many viewers, the same bytes past the page cache and through it,
//! and what viewers get from a disk that returns less than requested, nothing more, or nothing for
//! a long time.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use reelway_tests::faulty::FaultyDisk;
use reelway_tests::films;
use reelway_tests::http;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

/// A film of some megabytes: a short one with padding, which is part of the file.
fn long_film() -> Vec<u8> {
    film_of(9_000_000)
}

fn film_of(padding: u32) -> Vec<u8> {
    let mut bytes = fs::read(films::film("faststart").path).expect("a film");
    bytes.extend(padding.to_be_bytes());
    bytes.extend(b"free");
    bytes.extend((8..padding).map(|at| (at * 31 + at / 255) as u8));
    bytes
}

fn server(films: &std::path::Path) -> Server {
    let server = Options::new(films).set("http.ahead", 3600).start();
    server.wait_indexed();
    server
}

/// The value of a metric.
fn figure(server: &Server, name: &str) -> u64 {
    value(&server.get("/metrics").text(), name)
}

fn value(metrics: &str, name: &str) -> u64 {
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = line.unwrap_or_else(|| panic!("no {name} in {metrics}"));
    value.parse::<f64>().expect("a number") as u64
}

#[test]
fn sixty_who_want_one_film_have_it_read_once_and_take_no_more_memory_than_they_may() {
    let library = films::library(&["tiny_sound"]);
    let film = long_film();
    fs::write(library.path().join("film.mp4"), &film).expect("a film");
    let server = server(library.path());
    std::thread::scope(|scope| {
        for _ in 0..60 {
            scope.spawn(|| assert!(server.get("/film/file").body == film));
        }
    });
    let read = figure(&server, "reelway_disk_read_bytes_total");
    assert_eq!(read, film.len() as u64, "not a byte twice");
    let (_, most) = server.memory();
    let limit = (32 << 20) + (64 << 20) + 60 * (64 << 10);
    assert!(most <= limit, "{} MiB of {}", most >> 20, limit >> 20);
}

#[test]
fn a_film_larger_than_the_pool_is_read_again_for_later_viewers_and_no_byte_is_wrong() {
    const POOL: u64 = 8 << 20;
    const VIEWERS: usize = 8;
    let dir = films::temp_dir("large");
    let path = dir.path().join("large.mp4");
    let film = film_of(30_000_000);
    fs::write(&path, &film).expect("a film");
    // The disk counts the bytes that are read, independently of the server's metric.
    let disk = FaultyDisk::with(&path).expect("a file system in user space");
    let server = Options::new(disk.dir())
        .set("http.ahead", 3600)
        .set("pool.size", POOL)
        .start();
    server.wait_indexed();
    let before = (
        figure(&server, "reelway_disk_read_bytes_total"),
        disk.given(),
    );
    let read = || {
        let server_says = figure(&server, "reelway_disk_read_bytes_total") - before.0;
        assert_eq!(
            server_says,
            disk.given() - before.1,
            "the metric, and what the disk counted"
        );
        server_says
    };
    let len = film.len() as u64;
    assert!(server.get("/large/file").body == film);
    assert_eq!(read(), len, "the first viewer needs each byte once");
    // At most the pool's size of the film is still in memory.
    assert!(server.get("/large/file").body == film);
    let twice = read();
    assert!(
        (2 * len - POOL..=2 * len).contains(&twice),
        "{twice} bytes were read for two viewers of {len}"
    );
    // Several viewers at the same time, each from a different position to the end.
    std::thread::scope(|scope| {
        for viewer in 0..VIEWERS {
            let (server, film) = (&server, &film);
            scope.spawn(move || {
                let from = film.len() / VIEWERS * viewer + 12_345 * viewer;
                let range = format!("bytes={from}-");
                let answer = http::request(server.http, "GET", "/large/file", &[("Range", &range)]);
                let answer = answer.expect("an answer");
                assert_eq!(answer.status, 206);
                assert!(answer.body == film[from..], "from byte {from} on");
            });
        }
    });
    // One of them read the whole film from the disk.
    assert!(read() >= twice + len - POOL, "{} bytes", read());
    let pool = figure(&server, "reelway_pool_bytes");
    assert!(pool <= POOL, "a pool of {pool} bytes");
}

#[test]
fn between_two_blocks_a_viewer_who_has_enough_ahead_holds_none() {
    let library = films::library(&["load"]);
    let film = fs::read(films::film("load").path).expect("a film");
    let server = Options::new(library.path())
        .set("http.ahead", 1)
        .set("http.downloads", "\"paced\"")
        .set("pool.block", "\"1MiB\"")
        .start();
    server.wait_indexed();
    // Twelve seconds that are sent in six: half a block in half a second. Blocks are requested
    // earlier if the disk is slow, but this one would have to be very slow.
    const BYTES: usize = 6_000_000;
    let range = format!("bytes=0-{}", BYTES - 1);
    std::thread::scope(|scope| {
        let viewer = scope.spawn(|| {
            let headers = [("Range", range.as_str())];
            http::send(server.http, "GET", "/load/file", &headers, &[]).expect("an answer")
        });
        let held_none = wait::until(Duration::from_secs(20), || {
            let text = server.get("/metrics").text();
            let sent = value(&text, "reelway_http_sent_bytes_total");
            let used = value(&text, "reelway_pool_used_bytes");
            (sent > BYTES as u64 / 4 && used == 0).then_some(sent)
        });
        let sent = held_none.expect("a moment in which no block is held");
        assert!(sent < BYTES as u64, "while the viewer was served");
        let answer = viewer.join().expect("a viewer");
        assert_eq!(answer.status, 206);
        assert!(answer.body == film[..BYTES]);
    });
}

#[test]
fn what_programs_write_is_served_and_what_is_put_is_read_by_programs() {
    let library = films::library(&["tiny_sound"]);
    let server = Options::new(library.path())
        .set("http.uploads", true)
        .set("http.ahead", 3600)
        .start();
    server.wait_indexed();
    let film = long_film();
    // Written through the page cache, and not flushed to the disk by anything.
    let source = library.path().join(".source");
    fs::write(&source, &film).expect("a film");
    let copied = Command::new("cp")
        .arg(&source)
        .arg(library.path().join("copied.mp4"))
        .status();
    assert!(copied.expect("cp").success());
    let served = wait::until(Duration::from_secs(20), || {
        let answer = http::get(server.http, "/copied/file").ok()?;
        (answer.status == 200).then_some(answer.body)
    });
    assert!(served.expect("the copied film") == film);
    // Written past the page cache, and read by other programs while a viewer watches it.
    let token = format!("Bearer {}", server.token());
    let headers = [("Authorization", token.as_str())];
    let put = http::send(server.http, "PUT", "/put/file", &headers, &film).expect("an answer");
    assert_eq!(put.status, 201, "{}", put.text());
    let path = library.path().join("put.mp4");
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| server.get("/put/file").body == film);
        let compared = Command::new("cmp")
            .arg(&source)
            .arg(&path)
            .output()
            .expect("cmp");
        assert!(compared.status.success(), "{compared:?}");
        let probed = Command::new("ffprobe")
            .args(["-v", "error", "-show_entries", "format=format_name"])
            .arg(&path)
            .output()
            .expect("ffprobe");
        assert!(probed.status.success(), "{probed:?}");
        assert!(watching.join().expect("a viewer"));
    });
    // Then moved to another name.
    let moved = Command::new("mv")
        .arg(&path)
        .arg(library.path().join("moved.mp4"))
        .status();
    assert!(moved.expect("mv").success());
    let served = wait::until(Duration::from_secs(20), || {
        let answer = http::get(server.http, "/moved/file").ok()?;
        (answer.status == 200).then_some(answer.body)
    });
    assert!(served.expect("the moved film") == film);
}

/// A disk with the long film, and another one with a film of its own.
fn disks() -> (FaultyDisk, tempfile::TempDir, Vec<u8>, Server) {
    let film = long_film();
    let dir = films::temp_dir("long");
    let path = dir.path().join("long.mp4");
    fs::write(&path, &film).expect("a film");
    let faulty = FaultyDisk::with(&path).expect("a file system in user space");
    let good = films::library(&["faststart"]);
    let server = Options::new(faulty.dir())
        .films(good.path())
        .set("http.ahead", 3600)
        .start();
    server.wait_indexed();
    (faulty, good, film, server)
}

/// Returns the bytes of the long film that arrive until the connection ends, whether all or only a
/// part.
fn body(server: SocketAddr) -> Vec<u8> {
    use std::io::{BufRead, BufReader, Write};
    let mut stream = TcpStream::connect(server).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a limit");
    write!(
        stream,
        "GET /long/file HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n"
    )
    .expect("a request");
    let mut reader = BufReader::new(stream);
    let mut line = String::from("-");
    while !line.trim_end().is_empty() {
        line.clear();
        reader.read_line(&mut line).expect("a header");
    }
    let mut bytes = Vec::new();
    // However the connection ends, the bytes that have arrived are checked.
    let _ = reader.read_to_end(&mut bytes);
    bytes
}

#[test]
fn a_disk_that_gives_less_at_once_than_it_is_asked_for_costs_no_byte() {
    let (faulty, _good, film, server) = disks();
    faulty.give_at_once(10_000);
    assert!(server.get("/long/file").body == film);
}

#[test]
fn a_film_shorter_than_its_length_ends_with_the_reason() {
    let (faulty, _good, film, server) = disks();
    faulty.end_at(4_000_000);
    let got = body(server.http);
    assert!(
        got.len() <= 4_000_000 && got == film[..got.len()],
        "{} bytes",
        got.len()
    );
    server.wait_for_log(
        &["long.mp4", "ends before it should"],
        Duration::from_secs(20),
    );
    assert_eq!(server.get("/faststart/file").status, 200);
}

#[test]
fn a_disk_that_stalls_holds_up_only_its_own_viewers_who_go_on_when_it_does() {
    let (faulty, good, film, server) = disks();
    faulty.stall_from(2_000_000);
    let other = fs::read(good.path().join("faststart.mp4")).expect("a film");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| body(server.http) == film))
            .collect();
        let stalled = wait::until(Duration::from_secs(20), || {
            (figure(&server, "reelway_pool_used_bytes") > 0).then_some(())
        });
        assert!(stalled.is_some(), "they wait");
        for _ in 0..20 {
            assert!(server.get("/faststart/file").body == other);
        }
        assert!(!waiting.iter().any(|viewer| viewer.is_finished()));
        faulty.stall_from(u64::MAX);
        for viewer in waiting {
            assert!(viewer.join().expect("a viewer"));
        }
    });
}

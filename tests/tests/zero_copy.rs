//! With `http.zero_copy`, film data that is sent more than once is given to connections without a
//! copy, and nobody gets bytes of another film: whatever others fetch meanwhile, and however late
//! the bytes are read.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use reelway_tests::http;
use reelway_tests::network::{Network, SERVER, VIEWER};
use reelway_tests::optimist;
use reelway_tests::server::{Options, Server};
use reelway_tests::{films, wait};

/// The number of films, which together exceed the memory for copies.
const FILMS: usize = 12;
/// The approximate padding of each in bytes.
const BYTES: u32 = 5 << 20;

/// A film followed by bytes that no other film has at the same position.
fn film(number: usize) -> Vec<u8> {
    let mut bytes = fs::read(films::film("faststart").path).expect("a film");
    bytes.extend(BYTES.to_be_bytes());
    bytes.extend(b"free");
    let seed = (number as u32).wrapping_mul(0x9E37_79B9);
    bytes.extend((8..BYTES).map(|at| ((at ^ seed).wrapping_mul(0x85EB_CA6B) >> 24) as u8));
    bytes
}

/// Starts a server of these films that sends them as fast as clients read.
fn server(change: impl FnOnce(Options) -> Options) -> (Server, tempfile::TempDir, Vec<Vec<u8>>) {
    let dir = films::library(&[]);
    let films: Vec<Vec<u8>> = (0..FILMS).map(film).collect();
    for (number, film) in films.iter().enumerate() {
        fs::write(dir.path().join(format!("film{number}.mp4")), film).expect("a film");
    }
    let options = Options::new(dir.path())
        .set("pool.size", "'256MiB'")
        .set("http.zero_copy", true)
        .set("http.ahead", 3600);
    let server = change(options).start();
    server.wait_indexed();
    (server, dir, films)
}

/// The number of bytes given to connections without a copy.
fn uncopied(server: &Server) -> f64 {
    server.metric("reelway_http_uncopied_bytes_total")
}

/// A client that requests a film, reads a little, and then nothing for a while.
struct Slow {
    from: BufReader<TcpStream>,
}

impl Slow {
    fn ask(server: SocketAddr, film: usize) -> Slow {
        let mut stream = TcpStream::connect(server).expect("a connection");
        let limit = Duration::from_secs(30);
        stream.set_read_timeout(Some(limit)).expect("a limit");
        let request =
            format!("GET /film{film}/file HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("a request");
        Slow {
            from: BufReader::new(stream),
        }
    }

    fn read(mut self) -> Vec<u8> {
        http::read(&mut self.from, false).expect("an answer").body
    }
}

/// Fetches every film this many times, four at the same time.
fn fetch_all(server: &Server, films: &[Vec<u8>], times: usize) {
    std::thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                for turn in 0..times * films.len() / 4 {
                    let number = (turn * 4 + worker) % films.len();
                    let body = server.get(&format!("/film{number}/file")).body;
                    assert!(body == films[number], "film {number}");
                }
            });
        }
    });
}

#[test]
fn who_reads_late_gets_their_own_film_whatever_others_have_fetched_meanwhile() {
    let (server, _dir, films) = server(|options| options);
    fetch_all(&server, &films, 4);
    assert!(uncopied(&server) > 0.0, "film was given without a copy");
    // Slow clients may come to hold all the copies there is memory for: then others get none.
    let before = uncopied(&server);
    // Each has its first bytes in the kernel, and reads none of them.
    let slow: Vec<(usize, Slow)> = (0..3 * FILMS)
        .map(|nth| (nth % FILMS, Slow::ask(server.http, nth % FILMS)))
        .collect();
    fetch_all(&server, &films, 12);
    assert!(
        uncopied(&server) > before,
        "film was given without a copy again"
    );
    for (number, slow) in slow {
        assert!(slow.read() == films[number], "film {number}, read late");
    }
}

/// Data in a network card's queue was sent long ago, and its memory must not be reused for another
/// film.
#[test]
fn what_waits_in_a_long_queue_is_of_the_film_that_was_asked_for() {
    let network = Network::new();
    let (server, _dir, films) =
        network.as_viewer(|| server(|options| options.namespace(network.server(), SERVER)));
    network.on_server("tc qdisc add dev wire root tbf rate 300mbit burst 256kb latency 2000ms");
    network.as_viewer(|| fetch_all(&server, &films, 8));
    let uncopied = network.as_viewer(|| uncopied(&server));
    assert!(uncopied > 0.0, "film was given without a copy");
}

/// A receiver that acknowledges data before it arrives makes the server believe that its memory is
/// free, while the data waits in a queue.
#[test]
fn who_acknowledges_what_has_not_come_gets_bytes_of_their_film_or_none() {
    let network = Network::new();
    let (server, _dir, films) =
        network.as_viewer(|| server(|options| options.namespace(network.server(), SERVER)));
    network.as_server(|| fetch_all(&server, &films, 4));
    network.on_server("tc qdisc add dev wire root tbf rate 100mbit burst 256kb latency 300ms");
    // The client's kernel does not know its connections.
    network.on_viewer("nft add table ip quiet");
    network.on_viewer("nft add chain ip quiet out { type filter hook output priority 0 ; }");
    network.on_viewer("nft add rule ip quiet out tcp flags rst drop");
    // One packet in a hundred is lost, but none that begins a response ("HTTP").
    network.on_viewer("nft add chain ip quiet in { type filter hook input priority 0 ; }");
    let lost = "ip length > 1000 @th,160,32 != 0x48545450 numgen random mod 100 == 0 drop";
    network.on_viewer(&format!("nft add rule ip quiet in {lost}"));
    let (SocketAddr::V4(address), IpAddr::V4(viewer)) = (server.http, VIEWER) else {
        unreachable!("addresses of version 4");
    };
    let before = network.as_server(|| uncopied(&server));
    let (mut whole, mut came) = (0, 0);
    std::thread::scope(|scope| {
        // Meanwhile other clients need the memory of what was sent.
        let others = scope.spawn(|| network.as_server(|| fetch_all(&server, &films, 6)));
        for (number, film) in films.iter().enumerate().take(FILMS / 2) {
            let from = SocketAddrV4::new(viewer, 50_000 + number as u16);
            let path = format!("/film{number}/file");
            let get = || optimist::get(from, address, &path, Duration::from_secs(5));
            let mut pieces = network.as_viewer(get);
            pieces.sort();
            let head = &pieces[0].1;
            let head = head.windows(4).position(|end| end == b"\r\n\r\n");
            let body = head.expect("an answer's head") + 4;
            pieces.dedup();
            for (at, piece) in pieces.iter().filter(|(at, _)| *at > 0) {
                let expected = &film[at - body..][..piece.len()];
                assert!(piece == expected, "film {number} from {}", at - body);
                came += piece.len();
            }
            whole += film.len();
        }
        others.join().expect("the others' films");
    });
    assert!(network.as_server(|| uncopied(&server)) > before);
    // Lost data was not sent again: the server's kernel considered it received.
    assert!(
        came < whole && came > whole / 2,
        "{came} bytes of {whole} came"
    );
}

#[test]
fn edges_are_sent_films_without_a_copy_too() {
    let (origin, _dir, films) = server(|options| options);
    let edges: Vec<Server> = (0..3)
        .map(|_| Options::edge(&origin.http_url("")).start())
        .collect();
    for edge in &edges {
        edge.wait_indexed();
        for number in [2, 3] {
            let body = edge.get(&format!("/film{number}/file")).body;
            assert!(body == films[number], "film {number}");
        }
    }
    assert!(
        uncopied(&origin) > 0.0,
        "edges were given film without a copy"
    );
}

#[test]
fn a_film_that_is_replaced_is_not_sent_from_a_copy_of_the_old_one() {
    let (server, dir, films) = server(|options| options);
    fetch_all(&server, &films, 4);
    let (draft, path) = (dir.path().join("draft"), dir.path().join("film3.mp4"));
    let new = film(FILMS);
    fs::write(&draft, &new).expect("a draft");
    fs::rename(&draft, &path).expect("another film");
    let noticed = wait::until(Duration::from_secs(20), || {
        let answer = http::get(server.http, "/film3/file").ok()?;
        (answer.status == 200 && answer.body == new).then_some(())
    });
    noticed.expect("the new film");
    for _ in 0..6 {
        assert!(server.get("/film3/file").body == new);
    }
}

#[test]
fn after_a_purge_a_film_is_sent_as_it_is_on_disk() {
    let (server, dir, mut films) = server(|options| options);
    fetch_all(&server, &films, 4);
    // Changed without a trace: the file's identity, size and time are as before.
    let file = fs::File::options()
        .write(true)
        .open(dir.path().join("film5.mp4"));
    let file = file.expect("the film");
    let modified = file.metadata().and_then(|file| file.modified());
    let at = films[5].len() - 1_000_000;
    films[5][at..].fill(7);
    file.write_all_at(&films[5][at..], at as u64)
        .expect("other bytes");
    file.set_modified(modified.expect("a time"))
        .expect("its time");
    let token = format!("Bearer {}", server.token());
    let headers = [("Authorization", token.as_str())];
    let purged = http::send(server.http, "DELETE", "/api/cache/film5", &headers, &[]);
    let purged = purged.expect("an answer");
    assert!(purged.status < 300, "{}", purged.text());
    let comes = wait::until(Duration::from_secs(20), || {
        let answer = http::get(server.http, "/film5/file").ok()?;
        (answer.status == 200 && answer.body == films[5]).then_some(())
    });
    comes.expect("the film as it is now");
    fetch_all(&server, &films, 4);
}

#[test]
fn connections_that_are_cut_off_disturb_nobody() {
    let (server, _dir, films) = server(|options| options);
    fetch_all(&server, &films, 4);
    for round in 0..20 {
        let cut: Vec<Slow> = (0..FILMS)
            .map(|film| Slow::ask(server.http, film))
            .collect();
        let mut first = [0; 1000];
        for mut slow in cut {
            slow.from.read_exact(&mut first).expect("the first bytes");
            // With bytes unread, the kernel resets the connection.
        }
        let number = round % FILMS;
        assert!(server.get(&format!("/film{number}/file")).body == films[number]);
    }
    assert_eq!(server.metric("reelway_http_connections_stalled_total"), 0.0);
    // None of them was mistaken for a kernel that rejects the system call.
    let before = uncopied(&server);
    fetch_all(&server, &films, 1);
    assert!(uncopied(&server) > before, "{}", server.log());
}

/// The number of the system call that is rejected.
const VMSPLICE: u32 = 278;

#[test]
fn where_the_kernel_refuses_it_film_is_copied_and_that_is_said_once() {
    let (server, _dir, films) = server(|options| options.without_call(VMSPLICE));
    fetch_all(&server, &films, 5);
    assert_eq!(uncopied(&server), 0.0);
    let said = server.log().matches("without a copy").count();
    assert_eq!(said, 1, "{}", server.log());
}

#[test]
fn a_pool_too_small_for_copies_has_none() {
    let (server, _dir, films) = server(|options| options.set("pool.size", "'64MiB'"));
    fetch_all(&server, &films, 5);
    assert_eq!(uncopied(&server), 0.0);
}

#[test]
fn by_default_film_is_copied() {
    let dir = films::library(&["faststart"]);
    let server = Options::new(dir.path())
        .set("pool.size", "'256MiB'")
        .start();
    server.wait_indexed();
    let film = fs::read(films::film("faststart").path).expect("the film");
    for _ in 0..5 {
        assert!(server.get("/faststart/file").body == film);
    }
    assert_eq!(uncopied(&server), 0.0);
}

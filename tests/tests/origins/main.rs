//! Remote films on real servers: they play byte for byte as on their origins. If an origin fails,
//! viewers get the right bytes, or an end with its reason; never wrong bytes.

mod edges;
mod group;
mod growing;
mod redirects;
mod siblings;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use reelway_tests::elsewhere::{Elsewhere, Spoil, Spoiler, nginx, nginx_that, s3};
use reelway_tests::server::{Options, Server};
use reelway_tests::{films, wait};

/// An offset that is certainly within a film's media: bytes before it are read when it is indexed.
const LATER: u64 = 1 << 20;

/// A film of some megabytes: players skip most of it, but as a file it is delivered whole.
fn long_film() -> Vec<u8> {
    film_with(5_000_000)
}

/// A film followed by this many bytes that no player reads.
fn film_with(padding: u32) -> Vec<u8> {
    let mut bytes = fs::read(films::film("faststart").path).expect("a film");
    bytes.extend(padding.to_be_bytes());
    bytes.extend(b"free");
    bytes.extend((8..padding).map(|at| (at * 31 + at / 255) as u8));
    bytes
}

/// A folder with a short film, and with the long film in a subfolder.
fn folder() -> (tempfile::TempDir, Vec<u8>) {
    let dir = films::library(&["faststart"]);
    let film = long_film();
    fs::create_dir(dir.path().join("a folder")).expect("a folder");
    fs::write(dir.path().join("a folder/long.mp4"), &film).expect("a film");
    // nginx runs as a user of its own.
    open_to_all(dir.path());
    (dir, film)
}

fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("our directory");
}

const LONG: &str = "/a%20folder/long/file";

/// Starts a server whose only films are those of this source, in the syntax of `[[source]]`.
fn edge(source: &str) -> Server {
    Options::nothing()
        .set("source", format!("[{{ {source} }}]"))
        .set("http.ahead", 3600)
        .start()
}

fn edge_of(source: &str) -> Server {
    let server = edge(source);
    server.wait_indexed();
    server
}

/// Returns the bytes of a response's body that arrive, whether all or only a part.
fn body(server: SocketAddr, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a limit");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        if line.trim_end().is_empty() {
            break;
        }
    }
    let mut bytes = Vec::new();
    // However the connection ends, the bytes that have arrived are checked.
    let _ = reader.read_to_end(&mut bytes);
    bytes
}

#[test]
fn the_films_of_a_web_server_are_those_of_its_folder() {
    let (dir, film) = folder();
    let origin = nginx(dir.path());
    let edge = edge_of(&format!("url = 'http://{}/', at = 'web'", origin.at));
    let short = fs::read(films::film("faststart").path).expect("a film");
    assert!(edge.get("/web/faststart/file").body == short);
    assert!(edge.get("/web/a%20folder/long/file").body == film);
    let playlist = edge.get("/web/faststart/hls/main.m3u8");
    assert_eq!(playlist.status, 200);
    // The list has the remote films, and none of them can be uploaded or deleted here.
    assert_eq!(edge.get("/api/films").json()["total"], 2);
}

/// Waits until it is known why a film cannot be played, and returns the reason.
fn reason(server: &Server, title: &str) -> String {
    let path = format!("/api/films/{title}");
    let reason = wait::until(Duration::from_secs(20), || {
        let film = server.get(&path).json();
        film["reason"].as_str().map(str::to_owned)
    });
    reason.expect("a reason")
}

/// Starts a web server that redirects all requests to another.
fn redirecting(to: &Elsewhere) -> Elsewhere {
    nginx_that(&format!("return 302 http://{}$request_uri;", to.at))
}

#[test]
fn redirects_to_other_hosts_are_followed_only_where_the_source_allows_it_and_without_credentials() {
    let (dir, film) = folder();
    let other = nginx(dir.path());
    let front = redirecting(&other);
    let source = format!(
        "url = 'http://ann:s3cret@{}/a%20folder/', films = ['long.mp4']",
        front.at
    );
    let before = other.asked();
    let edge = edge(&source);
    let host = other.at.to_string();
    let said = reason(&edge, "long");
    assert!(
        said.contains(&host) && said.contains("redirects = "),
        "{said}"
    );
    assert!(!said.contains("s3cret"), "{said}");
    assert_ne!(edge.get("/long/file").status, 200);
    drop(edge);
    assert_eq!(other.asked(), before, "it was asked all the same");

    for credentials in ["", ", token = 'also-s3cret'"] {
        let user = if credentials.is_empty() {
            "ann:s3cret@"
        } else {
            ""
        };
        let allowed = edge_of(&format!(
            "url = 'http://{user}{}/a%20folder/', films = ['long.mp4'], redirects = ['{host}']{credentials}",
            front.at
        ));
        assert!(allowed.get("/long/file").body == film);
    }
    let (to_front, to_other) = (front.asked(), other.asked());
    assert!(
        to_front.contains("[Basic ") && to_front.contains("[Bearer also-s3cret]"),
        "{to_front}"
    );
    let media = to_other.lines().filter(|line| line.contains("long.mp4"));
    assert!(media.clone().count() > 0, "{to_other}");
    for line in media {
        assert!(
            line.ends_with("[-]"),
            "credentials went to another host: {line}"
        );
    }
}

#[test]
fn a_redirect_of_a_bucket_to_another_host_is_not_followed() {
    let other = nginx(films::library(&["faststart"]).path());
    let before = other.asked();
    let front = redirecting(&other);
    let source = format!(
        "url = 's3://films', films = ['faststart.mp4'], endpoint = 'http://{}', region = 'us-east-1', \
         access_key = 'k', secret_key = 'hunter2'",
        front.at
    );
    let edge = edge(&source);
    let host = other.at.to_string();
    let said = reason(&edge, "faststart");
    assert!(
        said.contains(&host) && said.contains("redirects = "),
        "{said}"
    );
    assert_eq!(other.asked(), before, "it was asked all the same");
}

#[test]
fn the_films_of_a_bucket_are_read_with_a_key_that_is_told_nowhere() {
    let film = long_film();
    let origin = s3("films");
    origin.put("/films/archive/long.mp4", &film);
    origin.put("/films/elsewhere/other.mp4", &film[..1000]);
    let server = edge_of(&format!(
        "url = 's3://films/archive', endpoint = 'http://{}', region = 'us-east-1', \
         access_key = 'AKIDOPEN', secret_key = 'hunter2-not-told'",
        origin.at
    ));
    assert!(server.get("/long/file").body == film);
    assert_eq!(
        server.get("/other/file").status,
        404,
        "not below the prefix"
    );
    let log = server.log();
    assert!(
        !log.contains("hunter2") && !log.contains("AKIDOPEN"),
        "{log}"
    );
    // A missing bucket is reported with its address.
    let server = edge(&format!(
        "url = 's3://nothing', endpoint = 'http://{}', access_key = 'k', secret_key = 'hunter2'",
        origin.at
    ));
    let said = server.wait_for_log(&["s3://nothing"], Duration::from_secs(20));
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn a_bucket_that_refuses_lacks_or_wants_patience_is_told_and_gives_no_wrong_byte() {
    let film = long_film();
    let origin = s3("films");
    let names = ["refused", "gone", "overloaded", "slow"];
    for name in names {
        origin.put(&format!("/films/{name}.mp4"), &film);
    }
    let spoiler = Spoiler::of(origin.at);
    let edge = edge_of(&format!(
        "url = 's3://films', endpoint = 'http://{}', region = 'us-east-1', access_key = 'k', \
         secret_key = 'hunter2', patience = 2",
        spoiler.at
    ));
    let mut asked = 0;
    spoiler.spoil(move |path, first| {
        if first.is_none_or(|first| first < LATER) {
            return Spoil::Not;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        asked += usize::from(name == "slow.mp4");
        match name {
            "refused.mp4" => Spoil::Status(403),
            "gone.mp4" => Spoil::Status(404),
            "overloaded.mp4" => Spoil::Status(503),
            // Every second request fails and must be repeated.
            _ if asked % 2 == 1 => Spoil::Status(503),
            _ => Spoil::Not,
        }
    });
    std::thread::scope(|scope| {
        for name in names {
            let (edge, film) = (&edge, &film);
            scope.spawn(move || {
                let got = body(edge.http, &format!("/{name}/file"));
                assert!(got == film[..got.len()], "{name}: a wrong byte");
                assert_eq!(got.len() == film.len(), name == "slow", "{name}");
            });
        }
    });
    for (name, reason) in [("refused", "403"), ("gone", "404"), ("overloaded", "503")] {
        let said = edge.wait_for_log(&[name, reason], Duration::from_secs(20));
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn servers_that_fetch_from_each_other_list_each_film_once_and_one_that_fetches_from_itself_says_so()
{
    let dirs = ["a", "b"].map(|name| {
        let dir = films::temp_dir("mutual");
        let film = films::film("faststart").path;
        fs::copy(film, dir.path().join(name).with_extension("mp4")).expect("a film");
        dir
    });
    // Each starts before the other is reachable.
    let proxies = [
        Spoiler::of(([127, 0, 0, 1], 9).into()),
        Spoiler::of(([127, 0, 0, 1], 9).into()),
    ];
    let servers: Vec<Server> = (0..2)
        .map(|number| {
            let other = proxies[1 - number].at;
            Options::new(dirs[number].path())
                .set(
                    "source",
                    format!("[{{ url = 'http://{other}/', refresh = 1 }}]"),
                )
                .start()
        })
        .collect();
    for (proxy, server) in proxies.iter().zip(&servers) {
        proxy.leads_to(server.http);
    }
    let titles = |server: &Server| -> Vec<String> {
        let films = server.get("/api/films").json();
        let films = films["films"].as_array().expect("films").iter();
        films
            .map(|film| film["title"].as_str().expect("a title").to_owned())
            .collect()
    };
    for server in &servers {
        let both = wait::until(Duration::from_secs(20), || {
            (titles(server) == ["a", "b"]).then_some(())
        });
        assert!(both.is_some(), "{:?}: {}", titles(server), server.log());
    }
    // After some more scans, nothing has changed.
    let looks = |server: &Server| server.get("/api/films?q=a").json()["films"][0]["via"].clone();
    assert_eq!(looks(&servers[0]), serde_json::json!([]));
    let id = servers[0].get("/api/node").json()["id"].clone();
    assert_eq!(looks(&servers[1]), serde_json::json!([id]));
    for server in &servers {
        assert_eq!(titles(server), ["a", "b"]);
    }

    let itself = Spoiler::of(([127, 0, 0, 1], 9).into());
    let alone = Options::new(dirs[0].path())
        .set(
            "source",
            format!("[{{ url = 'http://{}/', refresh = 1 }}]", itself.at),
        )
        .start();
    itself.leads_to(alone.http);
    alone.wait_for_log(&["that is this server itself"], Duration::from_secs(20));
    assert_eq!(titles(&alone), ["a"]);
}

#[test]
fn a_film_that_a_source_names_is_refused_where_it_comes_from_this_very_server() {
    let dir = films::library(&["faststart"]);
    let nowhere = || Spoiler::of(([127, 0, 0, 1], 9).into());
    let (to_first, to_second) = (nowhere(), nowhere());
    let source =
        |at, film| format!("[{{ url = 'http://{at}/', films = ['{film}'], refresh = 1 }}]");
    let first = Options::new(dir.path())
        .set("source", source(to_second.at, "faststart/file/file"))
        .start();
    let second = Options::nothing()
        .set("source", source(to_first.at, "faststart/file"))
        .start();
    to_first.leads_to(first.http);
    to_second.leads_to(second.http);
    // It plays on the second server, whose response names the servers it came through.
    let film = fs::read(films::film("faststart").path).expect("a film");
    let plays = wait::until(Duration::from_secs(20), || {
        let answer = second.get("/faststart/file/file");
        (answer.status == 200).then_some(answer)
    });
    let answer = plays.unwrap_or_else(|| panic!("it does not play: {}", second.log()));
    assert!(answer.body == film);
    let id = |server: &Server| server.get("/api/node").json()["id"].clone();
    let named = |id: serde_json::Value| format!("1.1 {} (Reelway)", id.as_str().expect("an id"));
    let way = format!("{}, {}", named(id(&first)), named(id(&second)));
    assert_eq!(answer.headers["via"], way);
    // The first server finds itself among them.
    let refused = wait::until(Duration::from_secs(20), || {
        let film = first.get("/api/films/faststart/file/file").json();
        film["reason"]
            .as_str()?
            .contains("loop of sources")
            .then_some(())
    });
    assert!(refused.is_some(), "{}", first.log());
    assert!(first.get("/faststart/file").body == film, "its own film");
}

#[test]
fn an_origin_that_cuts_and_lies_costs_time_and_no_byte() {
    let (dir, film) = folder();
    let origin = nginx(dir.path());
    let spoiler = Spoiler::of(origin.at);
    let edge = edge_of(&format!("url = 'http://{}/', stall = 1", spoiler.at));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    spoiler.spoil(
        move |_, first| match (first, counted.fetch_add(1, Ordering::SeqCst) % 6) {
            (None | Some(0), _) => Spoil::Not,
            (_, 0) => Spoil::Cut(100_000),
            (_, 2) => Spoil::WrongRange,
            (_, 4) => Spoil::Status(503),
            _ => Spoil::Not,
        },
    );
    assert!(edge.get(LONG).body == film);
    assert!(
        count.load(Ordering::SeqCst) > 20,
        "spoilt answers were among them"
    );
}

#[test]
fn an_origin_that_stays_wrong_ends_the_film_with_the_reason() {
    for (spoil, reason) in [
        (Spoil::WrongRange, "Content-Range"),
        (Spoil::NoRange, "range"),
        (Spoil::Status(403), "403"),
    ] {
        let (dir, film) = folder();
        let origin = nginx(dir.path());
        let spoiler = Spoiler::of(origin.at);
        let edge = edge_of(&format!(
            "url = 'http://{}/', stall = 1, patience = 2",
            spoiler.at
        ));
        spoiler.spoil(move |_, first| match first {
            Some(LATER..) => spoil,
            _ => Spoil::Not,
        });
        let got = body(edge.http, LONG);
        assert!(got.len() < film.len(), "{spoil:?}");
        assert!(got == film[..got.len()], "{spoil:?}: a wrong byte");
        edge.wait_for_log(&["long.mp4", reason], Duration::from_secs(20));
        // The other film is not affected.
        assert_eq!(edge.get("/faststart/file").status, 200);
    }
}

#[test]
fn a_film_that_changes_at_its_origin_is_never_mixed_with_the_new_one() {
    let (dir, film) = folder();
    let origin = nginx(dir.path());
    let spoiler = Spoiler::of(origin.at);
    let edge = edge_of(&format!("url = 'http://{}/', refresh = 1", spoiler.at));
    spoiler.spoil(|path, first| match first {
        // From this offset on, it is a different film of the same length.
        Some(LATER..) if path.ends_with("long.mp4") => Spoil::Tag("\"new\""),
        _ => Spoil::Not,
    });
    let got = body(edge.http, LONG);
    assert!(
        got.len() < film.len() && got == film[..got.len()],
        "{} bytes",
        got.len()
    );
    edge.wait_for_log(
        &["long.mp4", "changed or replaced"],
        Duration::from_secs(20),
    );
    // Now the film really is a different one, and the edge notices that by itself.
    let mut other = film.clone();
    other[LATER as usize * 2] ^= 1;
    other.extend(b"\0\0\0\x08free");
    fs::write(dir.path().join("a folder/long.mp4"), &other).expect("the new film");
    spoiler.spoil(|_, _| Spoil::Not);
    let new = wait::until(Duration::from_secs(30), || {
        (body(edge.http, LONG) == other).then_some(())
    });
    assert!(new.is_some(), "{}", edge.log());
}

#[test]
fn an_origin_that_stalls_holds_up_only_its_own_viewers() {
    let (dir, film) = folder();
    let origin = nginx(dir.path());
    let spoiler = Spoiler::of(origin.at);
    let here = films::library(&["video_only"]);
    fs::write(here.path().join("here.mp4"), &film).expect("a film");
    let edge = Options::new(here.path())
        .set(
            "source",
            format!(
                "[{{ url = 'http://{}/', stall = 600, patience = 3600 }}]",
                spoiler.at
            ),
        )
        .set("http.ahead", 3600)
        .set("pool.size", "\"4MiB\"")
        .start();
    edge.wait_indexed();
    let known = wait::until(Duration::from_secs(30), || {
        (edge.get("/api/films").json()["total"] == 4).then_some(())
    });
    known.expect("films of both");
    edge.wait_indexed();
    spoiler.spoil(|_, first| match first {
        Some(LATER..) => Spoil::Stall(1000),
        _ => Spoil::Not,
    });
    // Ten viewers wait for data that does not arrive, each requesting more than they get.
    let waiting: Vec<TcpStream> = (0..10)
        .map(|n| {
            let mut stream = TcpStream::connect(edge.http).expect("a connection");
            let first = LATER + n * 400_000;
            write!(
                stream,
                "GET {LONG} HTTP/1.1\r\nHost: {}\r\nRange: bytes={first}-\r\n\r\n",
                edge.http
            )
            .expect("a request");
            stream
        })
        .collect();
    let full = wait::until(Duration::from_secs(20), || {
        edge.get("/metrics")
            .text()
            .lines()
            .any(|line| {
                line.starts_with("reelway_") && line.contains("waiting") && !line.ends_with(" 0")
            })
            .then_some(())
    });
    assert!(full.is_some(), "{}", edge.get("/metrics").text());
    // A local film that is larger than the rest of the pool is delivered whole.
    assert!(edge.get("/here/file").body == film);
    drop(waiting);
}

/// Sets another modification time for a folder's films, from which servers make other entity tags.
fn is_from_long_ago(folder: &Path) {
    for below in ["a folder/long.mp4", "faststart.mp4"] {
        let path = folder.join(below);
        let file = fs::File::options().write(true).open(path).expect("a film");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        file.set_modified(long_ago).expect("another time");
    }
}

#[test]
fn where_one_address_fails_the_film_goes_on_from_another() {
    let (dir, film) = folder();
    let (mut first, second) = (nginx(dir.path()), nginx(dir.path()));
    let edge = edge_of(&format!(
        "url = 'http://{}/', mirrors = ['http://{}/']",
        first.at, second.at
    ));
    first.kill();
    assert!(edge.get(LONG).body == film);
}

#[test]
fn a_mirror_with_other_etags_goes_on_with_the_film_after_a_restart_too() {
    let ((dir, film), (copy, _)) = (folder(), folder());
    is_from_long_ago(copy.path());
    let (mut first, second) = (nginx(dir.path()), nginx(copy.path()));
    let state = films::temp_dir("mirrored");
    let start = || {
        let source = format!(
            "[{{ url = 'http://{}/', mirrors = ['http://{}/'] }}]",
            first.at, second.at
        );
        let options = Options::nothing().set("source", source);
        let edge = options.set("http.ahead", 3600).state(state.path()).start();
        edge.wait_indexed();
        edge
    };
    drop(start());
    let edge = start();
    first.kill();
    assert!(edge.get(LONG).body == film);
}

#[test]
fn a_mirror_added_later_goes_on_with_the_films_of_a_reelway_server() {
    let ((dir, film), (copy, _)) = (folder(), folder());
    is_from_long_ago(copy.path());
    let [first, second] = [&dir, &copy].map(|dir| {
        let origin = Options::new(dir.path()).set("http.ahead", 3600).start();
        origin.wait_indexed();
        origin
    });
    let state = films::temp_dir("mirrored");
    let start = |mirrors: &str| {
        let source = format!(
            "[{{ url = 'http://{}/', mirrors = [{mirrors}] }}]",
            first.http
        );
        let options = Options::nothing().set("source", source);
        let edge = options.set("http.ahead", 3600).state(state.path()).start();
        edge.wait_indexed();
        edge
    };
    drop(start(""));
    let edge = start(&format!("'http://{}/'", second.http));
    drop(first);
    assert!(edge.get(LONG).body == film);
}

#[test]
fn films_that_the_configuration_names_are_found_at_a_mirror_if_the_first_address_is_down() {
    let (dir, film) = folder();
    let (mut first, second) = (nginx(dir.path()), nginx(dir.path()));
    first.kill();
    let edge = edge_of(&format!(
        "url = 'http://{}/', mirrors = ['http://{}/'], films = ['a folder/long.mp4']",
        first.at, second.at
    ));
    assert!(edge.get(LONG).body == film);
}

#[test]
fn a_folder_that_may_not_be_read_hides_no_other() {
    let (dir, film) = folder();
    fs::create_dir(dir.path().join("lost+found")).expect("a folder");
    let origin = nginx_that(&format!(
        "root {}; autoindex on; location ^~ /lost+found/ {{ return 403; }}",
        dir.path().display()
    ));
    let edge = edge_of(&format!("url = 'http://{}/'", origin.at));
    assert!(edge.get(LONG).body == film);
    assert_eq!(edge.get("/api/films").json()["total"], 2);
    let log = edge.log();
    assert!(log.contains("/lost+found/: access is refused"), "{log}");
}

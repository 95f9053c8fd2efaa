//! Edges: what they fetch from another Reelway, and what they keep.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_tests::elsewhere::{Spoil, Spoiler, nginx};
use reelway_tests::players::run;
use reelway_tests::server::{Options, Server, binary};
use reelway_tests::yardstick::yardstick;
use reelway_tests::{films, http, tier, wait};

use crate::group::sum;
use crate::{LONG, edge_of, folder};

/// Starts an edge of this origin with a tier, a pool that the long film fills, and small blocks.
fn small_edge(origin: SocketAddr, state: &Path) -> Server {
    let edge = Options::edge(&format!("http://{origin}/"))
        .state(state)
        .flag("--tier", "64MiB")
        .set("http.ahead", 3600)
        .set("pool.size", "'8MiB'")
        .set("pool.block", "'64KiB'")
        .start();
    edge.wait_indexed();
    edge
}

#[test]
fn the_films_of_another_reelway_are_its_own_to_the_byte() {
    let (dir, film) = folder();
    let origin = Server::start(dir.path());
    let edge = edge_of(&format!("url = 'http://{}/'", origin.http));
    assert!(edge.get(LONG).body == film);
    let servers = edge.get("/api/cache").json()["servers"].clone();
    assert_eq!(
        servers[0]["version"],
        env!("CARGO_PKG_VERSION"),
        "{servers}"
    );
    let told = |server: &Server| {
        let films = server.get("/api/films").json();
        let list = films["films"].as_array().expect("films").clone();
        list.iter()
            .map(|film| (film["title"].clone(), film["duration"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&edge), told(&origin));
}

#[test]
fn an_edge_takes_the_index_that_its_origin_has_made_and_reads_nothing_of_the_film() {
    let dir = films::library(&["faststart", "fragmented", "load"]);
    let origin = Server::start(dir.path());
    let spoiler = Spoiler::of(origin.http);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    spoiler.spoil(move |path, first| {
        let mut noted = noted.lock().expect("a list");
        noted.push((path.to_owned(), first));
        Spoil::Not
    });
    let edge = edge_of(&format!("url = 'http://{}/'", spoiler.at));
    for film in ["faststart", "fragmented", "load"] {
        let path = format!("/{film}/index");
        let index = origin.get(&path);
        assert_eq!(
            index.headers["content-type"],
            "application/vnd.reelway.index"
        );
        // This compares titles, tracks and every sample.
        assert!(edge.get(&path).body == index.body, "{film}");
    }
    let asked = asked.lock().expect("a list");
    let count =
        |wanted: fn(&(String, Option<u64>)) -> bool| asked.iter().filter(|one| wanted(one)).count();
    assert_eq!(count(|(path, _)| path.ends_with("/index")), 3, "{asked:?}");
    // One request per film, for its first byte, which reveals its length and version.
    assert_eq!(count(|(path, _)| path.ends_with("/file")), 3, "{asked:?}");
}

#[test]
fn an_index_that_is_cut_short_or_none_is_made_here() {
    for spoil in [
        Spoil::Cut(20_000),
        Spoil::Cut(0),
        Spoil::Status(503),
        Spoil::Status(404),
    ] {
        let dir = films::library(&["load"]);
        let origin = Server::start(dir.path());
        let spoiler = Spoiler::of(origin.http);
        spoiler.spoil(move |path, _| match path.ends_with("/index") {
            true => spoil,
            false => Spoil::Not,
        });
        let edge = edge_of(&format!("url = 'http://{}/', stall = 1", spoiler.at));
        let path = "/load/index";
        assert!(edge.get(path).body == origin.get(path).body, "{spoil:?}");
    }
}

#[test]
fn parts_of_an_index_are_those_of_the_whole() {
    let dir = films::library(&["load"]);
    let server = Server::start(dir.path());
    let whole = server.get("/load/index").body;
    for (first, last) in [(0, 0), (5, 40_000), (whole.len() - 19, whole.len() - 1)] {
        let range = format!("bytes={first}-{last}");
        let part = http::request(server.http, "GET", "/load/index", &[("Range", &range)]);
        let part = part.expect("an answer");
        assert_eq!(part.status, 206);
        assert!(part.body == whole[first..=last], "{range}");
    }
    let head = http::request(server.http, "HEAD", "/load/index", &[]).expect("an answer");
    assert_eq!(head.headers["content-length"], whole.len().to_string());
}

#[test]
fn what_is_in_the_tier_is_not_fetched_again_after_a_restart() {
    let (dir, film) = folder();
    // Its blocks would count among those in the tier.
    fs::remove_file(dir.path().join("faststart.mp4")).expect("the short film");
    let origin = nginx(dir.path());
    let spoiler = Spoiler::of(origin.at);
    let state = films::temp_dir("tier");
    let start = || {
        let server = Options::nothing()
            .state(state.path())
            .set("source", format!("[{{ url = 'http://{}/' }}]", spoiler.at))
            .set("http.ahead", 3600)
            .set("pool.size", "'8MiB'")
            .set("pool.block", "'64KiB'")
            .set("tier.size", "'64MiB'")
            .set("tier.admit", 1)
            .start();
        server.wait_indexed();
        server
    };
    let edge = start();
    tier::fill(&edge, LONG, &film);
    drop(edge);
    let edge = start();
    spoiler.spoil(|_, first| match first {
        Some(_) => Spoil::Status(503),
        None => Spoil::Not,
    });
    assert!(edge.get(LONG).body == film);
}

#[test]
fn an_edge_with_a_token_is_no_viewer_of_its_origin_and_a_wrong_token_is_refused() {
    let (dir, film) = folder();
    let token = "0123456789abcdefghij";
    let origin = Options::new(dir.path())
        .set("http.edge_tokens", format!("['{token}']"))
        .start();
    origin.wait_indexed();
    let file = |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        http::request(origin.http, "GET", LONG, &headers).expect("an answer")
    };
    assert_eq!(file("0123456789abcdefghik").status, 401);
    assert!(file(token).body == film);
    let edge = edge_of(&format!(
        "url = 'http://{}/', token = '{token}'",
        origin.http
    ));
    assert!(edge.get(LONG).body == film);
    let viewers = || origin.get("/api/sessions").json()["total"].clone();
    assert_eq!(viewers(), 0);
    // A client without a token is a viewer.
    let mut watching = http::begin(origin.http, "GET", LONG, &[], 0).expect("a connection");
    watching.read_exact(&mut [0; 1024]).expect("the beginning");
    assert_eq!(viewers(), 1);
}

#[test]
fn a_kept_film_is_fetched_whole_and_plays_while_its_origin_is_away() {
    let (dir, film) = folder();
    let origin = nginx(dir.path());
    let spoiler = Spoiler::of(origin.at);
    let state = films::temp_dir("kept");
    let start = || small_edge(spoiler.at, state.path());
    let edge = start();
    let cache = |words: &[&str]| {
        let mut command = Command::new(binary());
        command
            .args([
                "cache",
                "--server",
                &format!("http://{}/", edge.http),
                "--state",
            ])
            .arg(state.path())
            .args(words);
        run(command, Duration::from_secs(60))
    };
    let unknown = cache(&["keep", "nothing", "a folder/long"]);
    assert_eq!(unknown.status.and_then(|status| status.code()), Some(1));
    assert!(
        unknown.err.contains("there is no film 'nothing'"),
        "{}",
        unknown.err
    );
    let lacks = |edge: &Server| {
        let cache = edge.get("/api/cache").json();
        cache["tier"]["kept"][0]["lacking"].as_u64()
    };
    let is_whole = |edge: &Server| (lacks(edge) == Some(0)).then_some(());
    let whole = wait::until(Duration::from_secs(60), || is_whole(&edge));
    assert!(whole.is_some(), "{:?} bytes are lacking", lacks(&edge));
    assert!(tier::held(&edge) >= film.len() as f64);
    let shown = cache(&["show"]).expect("cache show");
    let shown = String::from_utf8_lossy(&shown.out).into_owned();
    assert!(shown.contains("a folder/long  complete"), "{shown}");
    let refused = cache(&["--token", "guessed", "drop", "a folder/long"]);
    assert!(
        refused.err.contains("this is not its token"),
        "{}",
        refused.err
    );
    drop(edge);
    spoiler.spoil(|_, first| match first {
        Some(_) => Spoil::Status(503),
        None => Spoil::Not,
    });
    let edge = start();
    assert!(edge.get(LONG).body == film);
    let whole = wait::until(Duration::from_secs(60), || is_whole(&edge));
    assert!(whole.is_some(), "it is kept after a restart, too");
}

#[test]
fn the_films_watched_most_are_fetched_whole_when_that_is_asked_for() {
    let (dir, film) = folder();
    let origin = nginx(dir.path());
    let state = films::temp_dir("prefill");
    // The record of a week of viewers.
    let watched =
        r#"{"a folder/long": {"hours": 9.0, "at": AT}, "gone": {"hours": 5.0, "at": AT}}"#;
    let now = reelway_clock::real().seconds().to_string();
    let watched = watched.replace("AT", &now);
    fs::write(state.path().join("popularity.json"), watched).expect("a file");
    let edge = small_edge(origin.at, state.path());
    let change = |method: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        let answer = http::request(edge.http, method, "/api/prefill", &headers);
        answer.expect("an answer").status
    };
    let prefill = || edge.get("/api/cache").json()["tier"]["prefill"].clone();
    assert_eq!(change("PUT", "guessed"), 401);
    assert_eq!(prefill()["running"], false);
    assert_eq!(change("PUT", &edge.token()), 204);
    assert_eq!(prefill()["asked"], true);
    let done = wait::until(Duration::from_secs(60), || {
        (prefill()["running"] == false).then_some(())
    });
    assert!(done.is_some(), "{}", prefill());
    assert!(tier::held(&edge) >= film.len() as f64);
    drop(origin);
    assert!(edge.get(LONG).body == film, "it plays from the disk");
    assert_eq!(change("DELETE", &edge.token()), 204);
}

#[test]
fn a_purged_film_is_fetched_anew_and_who_watches_it_goes_on() {
    let (dir, film) = folder();
    fs::remove_file(dir.path().join("faststart.mp4")).expect("the short film");
    let origin = nginx(dir.path());
    let state = films::temp_dir("purged");
    let edge = small_edge(origin.at, state.path());
    tier::fill(&edge, LONG, &film);
    let read = || tier::number(&edge, "reelway_disk_read_bytes_total");
    let before = read();
    let address = format!(
        "/api/cache/{}",
        LONG.trim_start_matches('/').trim_end_matches("/file")
    );
    let purge = |path: &str, token: &str| {
        let bearer = format!("Bearer {token}");
        http::request(edge.http, "DELETE", path, &[("Authorization", &bearer)])
            .expect("an answer")
            .status
    };
    assert_eq!(purge(&address, "guessed"), 401);
    assert_eq!(purge("/api/cache/nothing", &edge.token()), 404);
    assert!(tier::held(&edge) >= film.len() as f64);
    // A viewer is in the middle of it.
    let mut watching = http::begin(edge.http, "GET", LONG, &[], 0).expect("a connection");
    let mut first = vec![0; 256 << 10];
    watching.read_exact(&mut first).expect("the beginning");
    assert_eq!(purge(&address, &edge.token()), 204);
    assert!(tier::held(&edge) < film.len() as f64 / 2.0);
    let mut rest = Vec::new();
    watching.read_to_end(&mut rest).expect("the rest");
    first.extend(rest);
    assert!(first.ends_with(&film), "what was watched is the film");
    assert!(edge.get(LONG).body == film);
    assert!(read() - before >= film.len() as f64 / 2.0);
}

#[test]
fn a_film_may_be_purged_while_it_is_played() {
    let dir = films::library(&["faststart"]);
    let origin = nginx(dir.path());
    let edge = Options::edge(&format!("http://{}/", origin.at))
        .patient()
        .start();
    edge.wait_indexed();
    let path = films::film("faststart").path;
    let against = path.to_str().expect("UTF-8");
    let (rtsp, hls) = (
        edge.rtsp_url("faststart"),
        edge.http_url("faststart/hls/main.m3u8"),
    );
    let watched: [&[&str]; 3] = [&[&rtsp], &[&rtsp, "--tcp"], &[&hls]];
    let playing = || sum(&edge, "reelway_sessions");
    let ended = std::thread::scope(|scope| {
        let viewers = watched.map(|arguments| {
            let arguments = [arguments, &["--against", against]].concat();
            scope.spawn(move || yardstick(&arguments))
        });
        let all = wait::until(Duration::from_secs(10), || (playing() >= 3.0).then_some(()));
        assert!(all.is_some(), "{} of them play", playing());
        let bearer = format!("Bearer {}", edge.token());
        let headers = [("Authorization", bearer.as_str())];
        let mut purged = 0;
        let over = wait::until(Duration::from_secs(60), || {
            let answer = http::request(edge.http, "DELETE", "/api/cache/faststart", &headers);
            assert_eq!(answer.expect("an answer").status, 204);
            purged += 1;
            (playing() < 3.0).then_some(())
        });
        assert!(over.is_some(), "{}", edge.log());
        assert!(purged > 3, "purged {purged} times");
        viewers.map(|viewer| viewer.join().expect("a viewer"))
    });
    for (code, printed, told) in ended {
        assert_eq!((code, &told["lost"]), (0, &0.into()), "{printed}");
    }
}

#[test]
fn an_edge_that_starts_while_its_origin_is_away_plays_what_it_has() {
    let (dir, film) = folder();
    fs::remove_file(dir.path().join("faststart.mp4")).expect("the short film");
    let (nginx, reelway) = (nginx(dir.path()), Options::new(dir.path()).start());
    reelway.wait_indexed();
    for origin in [nginx.at, reelway.http] {
        let state = films::temp_dir("edge");
        let proxy = Spoiler::of(origin);
        let start = || small_edge(proxy.at, state.path());
        let edge = start();
        tier::fill(&edge, LONG, &film);
        drop(edge);
        proxy.spoil(|_, _| Spoil::Status(503));
        let edge = start();
        assert!(edge.get(LONG).body == film);
        let playlist = edge.get("/a%20folder/long/hls/main.m3u8");
        assert_eq!(playlist.status, 200, "{}", playlist.text());
        edge.wait_for_log(
            &["serving 1 film that it listed before"],
            Duration::from_secs(10),
        );
    }
}

#[test]
fn what_an_edge_holds_plays_after_an_hour_without_its_origin_and_a_restart() {
    reelway_tests::lab::run("edge-hour");
}

#[test]
fn films_of_an_origin_that_does_not_answer_leave_the_list_after_the_time_that_is_set() {
    let (dir, film) = folder();
    let origin = nginx(dir.path());
    let by_name = "films = ['a folder/long.mp4']";
    for films in ["", by_name] {
        let proxy = Spoiler::of(origin.at);
        let source = format!(
            "url = 'http://{}/', refresh = 1, stale = 2, {films}",
            proxy.at
        );
        let edge = edge_of(source.trim_end_matches(", "));
        let listed = || {
            let list = edge.get("/api/films").json()["films"].clone();
            let list = list.as_array().expect("films").iter();
            list.filter(|film| film["title"] == "a folder/long").count()
        };
        assert!(edge.get(LONG).body == film);
        let mut watching = http::begin(edge.http, "GET", LONG, &[], 0).expect("a connection");
        let mut bytes = vec![0; 256 << 10];
        watching.read_exact(&mut bytes).expect("the beginning");
        proxy.spoil(|_, _| Spoil::Status(503));
        let becomes = |count| {
            let limit = Duration::from_secs(60);
            wait::until(limit, || (listed() == count).then_some(())).is_some()
        };
        assert!(becomes(0), "{films}");
        assert_eq!(edge.get(LONG).status, 404);
        let mut rest = Vec::new();
        watching.read_to_end(&mut rest).expect("the rest");
        bytes.extend(rest);
        assert!(bytes.ends_with(&film), "what was watched is the film");
        proxy.spoil(|_, _| Spoil::Not);
        assert!(becomes(1), "{films}");
        assert!(edge.get(LONG).body == film);
    }
}

#[test]
fn an_edge_on_a_machine_without_certificates_of_authorities_fetches_by_http() {
    let (dir, film) = folder();
    let origin = Server::start(dir.path());
    let edge = Options::edge(&format!("http://{}/", origin.http))
        .env("SSL_CERT_FILE", "/dev/null")
        .start();
    edge.wait_indexed();
    assert!(edge.get(LONG).body == film);
}

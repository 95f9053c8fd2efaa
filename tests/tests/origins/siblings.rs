//! Siblings: edges of the same origin that ask each other first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reelway_tests::elsewhere::{Spoil, Spoiler, nginx};
use reelway_tests::server::{Options, Server};
use reelway_tests::{films, http};

use crate::group::{Group, meets, put, sum};
use crate::{film_with, long_film};

const LONG: &str = "/long/file";

/// A film of about thirty parts. The edges' IDs, which are random, determine to which of two edges
/// a part belongs: of three parts, one edge often has none. That one of them has none of thirty
/// happens once in 500 million times.
fn film_of_many_parts() -> Vec<u8> {
    film_with(60_000_000)
}

#[test]
fn the_origin_gives_three_cold_edges_each_byte_of_a_film_and_its_index_once() {
    let dir = films::library(&["faststart"]);
    let film = long_film();
    let origin = Options::new(dir.path()).set("http.ahead", 3600).start();
    origin.wait_indexed();
    let front = Spoiler::of(origin.http);
    let indexes = Arc::new(AtomicUsize::new(0));
    let counted = indexes.clone();
    front.spoil(move |path, _| {
        if path == "/long/index" {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Spoil::Not
    });
    let group = Group::of(3, &format!("http://{}/", front.at));
    put(dir.path(), "long", &film);
    group.have("long");
    let before = group.sum("reelway_origin_bytes_total");
    // 200 viewers or a few: it makes no difference to the origin.
    let each = if std::env::var_os("REELWAY_LONG").is_some() {
        67
    } else {
        4
    };
    group.play(each, "long", &film);
    let came = group.sum("reelway_origin_bytes_total") - before;
    let len = film.len() as f64;
    assert!(
        (len..=len * 1.02).contains(&came),
        "{came} bytes of {len} came from the origin; {} requests to siblings failed",
        group.sum("reelway_sibling_faults_total")
    );
    println!(
        "{came} bytes of {len} came from the origin for {} viewers",
        3 * each
    );
    assert_eq!(indexes.load(Ordering::SeqCst), 1, "the index came once");
    assert!(group.sum("reelway_sibling_bytes_total") >= len);
    for edge in &group.edges {
        // All downloads of one program from one address count as one viewer.
        let viewers = edge.get("/api/sessions").json()["total"].clone();
        assert_eq!(viewers, 1, "siblings are no viewers");
    }
}

#[test]
fn whatever_a_sibling_does_viewers_get_the_film() {
    let dir = films::library(&[]);
    let film = long_film();
    let origin = nginx(dir.path());
    put(dir.path(), "first", &film);
    let group = Group::of(2, &format!("http://{}/", origin.at));
    let spoils = [
        Spoil::Cut(100_000),
        Spoil::Stall(100_000),
        Spoil::WrongRange,
        Spoil::NoRange,
        Spoil::Tag("\"another\""),
        Spoil::Status(500),
        Spoil::Status(503),
        Spoil::Status(404),
        Spoil::Status(401),
    ];
    for (number, spoil) in spoils.into_iter().enumerate() {
        let title = format!("film {number}");
        put(dir.path(), &title, &film);
        group.have(&title);
        group.meet();
        let spoilt = Arc::new(AtomicUsize::new(0));
        for proxy in &group.proxies {
            let counted = spoilt.clone();
            proxy.spoil(move |path, _| match path.ends_with("/file") {
                true => {
                    counted.fetch_add(1, Ordering::SeqCst);
                    spoil
                }
                false => Spoil::Not,
            });
        }
        group.play(1, &title, &film);
        assert!(
            spoilt.load(Ordering::SeqCst) > 0,
            "{spoil:?}: no sibling was asked"
        );
    }
}

#[test]
fn a_sibling_that_is_slower_than_the_origin_is_left_out() {
    let dir = films::library(&[]);
    let film = film_of_many_parts();
    let origin = nginx(dir.path());
    put(dir.path(), "first", &film);
    let group = Group::with(2, &format!("http://{}/", origin.at), |options| {
        options
            .set("pool.size", "'8MiB'")
            .set("pool.block", "'64KiB'")
    });
    let asked = Arc::new(AtomicUsize::new(0));
    for proxy in &group.proxies {
        let counted = asked.clone();
        proxy.spoil(move |path, _| match path.ends_with("/file") {
            true => {
                counted.fetch_add(1, Ordering::SeqCst);
                Spoil::Slow(Duration::from_millis(700))
            }
            false => Spoil::Not,
        });
    }
    group.have("first");
    group.play(1, "first", &film);
    let left_out = |edge: &Server| edge.log().contains("slower than the origin; left out");
    assert!(group.edges.iter().all(left_out), "{}", group.edges[0].log());
    let before = asked.load(Ordering::SeqCst);
    put(dir.path(), "second", &film);
    group.have("second");
    group.play(1, "second", &film);
    assert_eq!(asked.load(Ordering::SeqCst), before, "it is asked no more");
}

#[test]
fn a_sibling_that_ends_and_comes_back_is_left_out_meanwhile() {
    let dir = films::library(&[]);
    let film = film_of_many_parts();
    let origin = nginx(dir.path());
    put(dir.path(), "long", &film);
    let mut group = Group::of(2, &format!("http://{}/", origin.at));
    group.have("long");
    drop(group.edges.remove(0));
    group.play(1, "long", &film);
    assert!(group.sum("reelway_sibling_faults_total") > 0.0);
    assert_eq!(group.sum("reelway_sibling_up"), 0.0);
}

#[test]
fn siblings_that_know_each_other_by_different_tokens_go_to_the_origin() {
    let dir = films::library(&[]);
    let film = long_film();
    let origin = nginx(dir.path());
    put(dir.path(), "long", &film);
    let number = AtomicUsize::new(0);
    let nowhere = ([127, 0, 0, 1], 1).into();
    let proxies: Vec<Spoiler> = (0..2).map(|_| Spoiler::of(nowhere)).collect();
    let start = |proxy: usize| {
        let token = number.fetch_add(1, Ordering::SeqCst);
        let other = &proxies[1 - proxy];
        let edge = Options::edge(&format!("http://{}/", origin.at))
            .flag("--sibling", format!("http://{}/", other.at))
            .flag("--sibling-token", format!("the token number {token}"))
            .set("http.ahead", 3600)
            .start();
        proxies[proxy].leads_to(edge.http);
        edge.wait_indexed();
        edge
    };
    let edges = [start(0), start(1)];
    for edge in &edges {
        meets(edge, 1);
    }
    let asked = Arc::new(Mutex::new(Vec::new()));
    for proxy in &proxies {
        let noted = asked.clone();
        proxy.spoil(move |path, _| {
            noted.lock().expect("a list").push(path.to_owned());
            Spoil::Not
        });
    }
    for edge in &edges {
        assert!(edge.get(LONG).body == film);
        assert_eq!(sum(edge, "reelway_sibling_bytes_total"), 0.0);
    }
    let files = || {
        let asked = asked.lock().expect("a list");
        asked.iter().filter(|path| *path == LONG).count()
    };
    assert!(files() > 0, "each part belongs to one of them");
    let said = edges.map(|edge| edge.log()).concat();
    assert!(
        said.contains("its `siblings.token` is another one"),
        "{said}"
    );
}

#[test]
fn a_film_is_found_by_its_identity_at_edges_alone() {
    let dir = films::library(&["faststart"]);
    let origin = Server::start(dir.path());
    let edge = crate::edge_of(&format!("url = 'http://{}/'", origin.http));
    let film = &edge.get("/api/films").json()["films"][0];
    let identity = film["identity"].as_str().expect("an identity");
    let found = edge.get(&format!("/api/films?identity={identity}")).json();
    assert_eq!(found["total"], 1);
    assert_eq!(found["films"][0]["title"], "faststart");
    let file = edge.get("/faststart/file");
    assert_eq!(file.headers["etag"], film["etag"].as_str().expect("a tag"));
    let other = "0".repeat(32);
    assert_eq!(
        edge.get(&format!("/api/films?identity={other}")).json()["total"],
        0
    );
    assert!(origin.get("/api/films").json()["films"][0]["identity"].is_null());
    let answer = http::request(edge.http, "GET", "/api/films?identity=", &[]).expect("an answer");
    assert_eq!(answer.json()["total"], 0);
}

//! Edges that redirect viewers to the one that has their film.

use std::fs;
use std::time::Duration;

use reelway_tests::players::{run, scripted, vlc_records};
use reelway_tests::probe::{Wanted, receive};
use reelway_tests::rtsp::Client;
use reelway_tests::server::{Options, Server};
use reelway_tests::yardstick::yardstick;
use reelway_tests::{films, http, wait};
use tempfile::TempDir;

use crate::group::{Group, sum};

/// Addresses below a film's with which viewers begin.
const BEGINNINGS: [&str; 3] = ["hls/main.m3u8", "dash/main.mpd", "file"];

/// An origin and its films.
struct Origin {
    _server: Server,
    _library: TempDir,
}

/// Starts this many edges that redirect viewers, and their origin.
fn edges(count: usize, names: &[&str], change: impl Fn(Options) -> Options) -> (Group, Origin) {
    edges_of(count, films::library(names), names, change)
}

/// The same with a library that has these films.
fn edges_of(
    count: usize,
    library: TempDir,
    names: &[&str],
    change: impl Fn(Options) -> Options,
) -> (Group, Origin) {
    let origin = Options::new(library.path()).set("http.ahead", 3600).start();
    origin.wait_indexed();
    let of = format!("http://{}/", origin.http);
    let group = Group::with(count, &of, |options| {
        change(options.set("siblings.redirect", true))
    });
    names.iter().for_each(|name| group.have(name));
    let origin = Origin {
        _server: origin,
        _library: library,
    };
    (group, origin)
}

/// A network that one viewer hardly loads, so that all viewers of a film are sent to one edge.
fn wide(options: Options) -> Options {
    options.set("capacity.net", "'10Gbit'")
}

/// The address to which an edge redirects a viewer who begins with this path; `None` if it serves
/// them.
fn sent_to(edge: &Server, path: &str) -> Option<String> {
    let answer = http::request(edge.http, "GET", path, &[]).expect("an answer");
    match answer.status {
        200 => None,
        307 => Some(answer.headers["location"].clone()),
        status => panic!("{path}: {status} {}", answer.text()),
    }
}

/// The same over RTSP.
fn sent_over_rtsp(edge: &Server, url: &str) -> Option<String> {
    let mut client = Client::connect(edge.rtsp).expect("a connection");
    let answer = client.request("DESCRIBE", url, &[]).expect("an answer");
    match answer.status {
        200 => None,
        302 => Some(answer.header("location").to_owned()),
        status => panic!("{url}: {status} {}", answer.body),
    }
}

/// The edge to which viewers of a film are sent, whichever they ask.
fn home(group: &Group, title: &str) -> usize {
    let path = format!("/{title}/hls/main.m3u8");
    let stays = |edge: &Server| sent_to(edge, &path).is_none();
    let homes: Vec<usize> = (0..group.edges.len())
        .filter(|number| stays(&group.edges[*number]))
        .collect();
    assert_eq!(homes.len(), 1, "{title}: one edge serves it");
    homes[0]
}

#[test]
fn viewers_of_a_film_are_sent_to_one_edge_whatever_they_begin_with_and_whichever_they_ask() {
    let names = [
        "faststart",
        "seeks",
        "load",
        "sparse",
        "progressive",
        "fragmented",
    ];
    // So many that they cannot all be at one edge by chance.
    let copies: Vec<String> = (0..16).map(|nth| format!("copy{nth}")).collect();
    let library = films::library(&names);
    for copy in &copies {
        let to = library.path().join(format!("{copy}.mp4"));
        fs::copy(films::film("faststart").path, to).expect("a copy");
    }
    let all = names.into_iter().chain(copies.iter().map(String::as_str));
    let (group, _origin) = edges_of(3, library, &all.collect::<Vec<_>>(), wide);
    let mut homes: Vec<usize> = copies.iter().map(|copy| home(&group, copy)).collect();
    for name in names {
        let home = home(&group, name);
        homes.push(home);
        let at = &group.edges[home];
        for edge in &group.edges {
            let serves = edge.http == at.http;
            for beginning in BEGINNINGS {
                let path = format!("/{name}/{beginning}");
                let there = format!("http://{}{path}", at.http);
                let sent = sent_to(edge, &path);
                assert_eq!(sent, (!serves).then(|| format!("{there}?moved")), "{path}");
                let sent = sent_to(edge, &format!("{path}?user=ann"));
                let with_query = format!("{there}?user=ann&moved");
                assert_eq!(sent, (!serves).then_some(with_query), "{path}");
            }
            let (here, there) = (edge.rtsp_url(name), at.rtsp_url(name));
            let sent = sent_over_rtsp(edge, &format!("{here}?user=ann"));
            assert_eq!(sent, (!serves).then(|| format!("{there}?user=ann&moved")));
            // Redirected viewers are not redirected again.
            assert_eq!(sent_over_rtsp(edge, &format!("{here}?moved")), None);
            assert_eq!(sent_to(edge, &format!("/{name}/hls/main.m3u8?moved")), None);
        }
    }
    homes.sort_unstable();
    homes.dedup();
    assert!(homes.len() > 1, "films are spread over edges");
}

#[test]
fn players_follow_to_the_edge_that_has_the_film() {
    let (group, _origin) = edges(2, &["faststart"], wide);
    let home = home(&group, "faststart");
    let (asked, at) = (&group.edges[1 - home], &group.edges[home]);
    let film = films::film("faststart").path;
    let frames = |before: &[&str], input: &str| {
        let wanted = Wanted {
            before,
            input,
            picture: None,
            sound: false,
            decode: true,
            limit: Duration::from_secs(120),
        };
        receive(&wanted).frames.hashes().join(" ")
    };
    let whole = frames(&[], film.to_str().expect("UTF-8"));
    for beginning in BEGINNINGS {
        let url = asked.http_url(&format!("faststart/{beginning}"));
        assert_eq!(frames(&[], &url), whole, "ffmpeg: {url}");
        let (recorded, _dir) = vlc_records(&url, 0.0);
        let came = frames(&[], recorded.to_str().expect("UTF-8"));
        let same = came.split(' ').zip(whole.split(' '));
        let same = same.take_while(|(came, film)| came == film).count();
        let all = whole.split(' ').count();
        assert!(same + 12 >= all, "VLC: {url}: {same} of {all} pictures");
    }
    let rtsp = asked.rtsp_url("faststart");
    for transport in ["tcp", "udp"] {
        let before = ["-rtsp_transport", transport, "-t", "3"];
        let came = frames(&before, &rtsp);
        assert!(
            came.len() > 500 && whole.starts_with(&came),
            "ffmpeg over {transport}"
        );
    }
    let seconds = Duration::from_secs(60);
    let ran = run(scripted("rtspsrc.py", &rtsp, "udp", &["play:3"]), seconds).expect("GStreamer");
    let report = String::from_utf8_lossy(&ran.out).into_owned();
    let shown = report.matches("\"frame\": \"video\"").count();
    assert!(shown > 20, "GStreamer showed {shown} pictures\n{report}");
    let (code, printed, report) = yardstick(&[&rtsp, "--duration", "3"]);
    assert_eq!((code, &report["lost"]), (0, &0.into()), "{printed}");
    let sent = |edge: &Server| sum(edge, "reelway_rtp_sent_bytes_total");
    assert_eq!(sent(asked), 0.0, "all of it came from the other edge");
    assert!(sent(at) > 0.0);
}

#[test]
fn a_film_with_many_viewers_is_played_from_several_edges_and_none_has_much_more_than_the_others() {
    let (group, _origin) = edges(3, &["load"], |options| options);
    let url = group.edges[0].rtsp_url("load");
    let viewers = std::thread::spawn(move || {
        yardstick(&[
            &url,
            "--clients=30",
            "--arrivals=poisson:5",
            "--watch=20s",
            "--buffer=200",
        ])
    });
    let all = wait::until(Duration::from_secs(30), || {
        let each = group.edges.iter();
        let each: Vec<u64> = each
            .map(|edge| {
                // The edges exchange which films have the most viewers.
                let node = edge.get("/api/node").json();
                let watched = node["watched"].as_array().expect("films");
                assert!(watched.len() <= 1, "{node}");
                watched
                    .first()
                    .map_or(0, |film| film["viewers"].as_u64().expect("a number"))
            })
            .collect();
        (each.iter().sum::<u64>() == 30).then_some(each)
    });
    let (code, printed, report) = viewers.join().expect("the viewers");
    assert_eq!(code, 0, "{printed}");
    assert_eq!(
        (&report["admitted"], &report["lost"]),
        (&30.into(), &0.into()),
        "{printed}"
    );
    let all = all.unwrap_or_else(|| panic!("30 viewers\n{printed}"));
    // A quarter more than ten, one for rounding, and one who came before the edges knew of each
    // other.
    println!("{all:?}");
    assert!(
        all.iter().all(|viewers| (2..=14).contains(viewers)),
        "{all:?}"
    );
}

#[test]
fn viewers_are_not_sent_to_an_edge_that_ended() {
    let (mut group, _origin) = edges(3, &["seeks"], wide);
    let first = home(&group, "seeks");
    let gone = group.edges.remove(first);
    let gone_at = format!("http://{}/", gone.http);
    gone.signal("KILL");
    let began = reelway_clock::now();
    let path = "/seeks/hls/main.m3u8";
    let noticed = wait::until(Duration::from_secs(30), || {
        let sent = group.edges.iter().map(|edge| sent_to(edge, path));
        sent.flatten()
            .all(|to| !to.starts_with(&gone_at))
            .then_some(())
    });
    assert!(noticed.is_some(), "viewers are sent to {gone_at}");
    println!("noticed after {:?}", reelway_clock::now().since(began));
    let second = home(&group, "seeks");
    let viewer = http::get(group.edges[second].http, path).expect("an answer");
    assert_eq!(viewer.status, 200);
    drop(gone);
}

/// Fills an edge with viewers of a film over RTSP for some seconds; returns how many were admitted,
/// refused and harmed.
fn fill(edge: &Server, title: &str) -> std::thread::JoinHandle<[u64; 3]> {
    // They are not redirected.
    let url = format!("{}?moved", edge.rtsp_url(title));
    std::thread::spawn(move || {
        let (_, printed, report) = yardstick(&[
            &url,
            "--clients=40",
            "--arrivals=burst:40",
            "--watch=12s",
            "--buffer=200",
        ]);
        println!("{printed}");
        ["admitted", "refused", "harmed"].map(|what| report[what].as_u64().expect("a number"))
    })
}

#[test]
fn a_full_edge_is_passed_over_its_viewers_play_on_and_only_where_all_are_full_a_newcomer_is_refused()
 {
    let (group, _origin) = edges(2, &["load"], |options| {
        options.set("capacity.net", "'40Mbit'")
    });
    // DESCRIBE over RTSP books nothing.
    let sent = |edge: &Server| sent_over_rtsp(edge, &edge.rtsp_url("load"));
    let home = wait::until(Duration::from_secs(20), || {
        let homes: Vec<usize> = (0..2)
            .filter(|at| sent(&group.edges[*at]).is_none())
            .collect();
        (homes.len() == 1).then(|| homes[0])
    });
    let home = home.expect("one edge serves it");
    let (full, other) = (&group.edges[home], &group.edges[1 - home]);
    let first = fill(full, "load");
    let there = format!("{}?moved", other.rtsp_url("load"));
    let passed = wait::until(Duration::from_secs(10), || {
        (sent(full).as_ref() == Some(&there)).then_some(())
    });
    assert!(passed.is_some(), "a newcomer is sent to {there}");
    let path = "/load/hls/main.m3u8";
    let over_http = format!("http://{}{path}?moved", other.http);
    assert_eq!(sent_to(full, path), Some(over_http));
    // It learns within a second or two how full the other one is.
    let serves = wait::until(Duration::from_secs(5), || {
        sent(other).is_none().then_some(())
    });
    assert!(serves.is_some(), "the other one serves newcomers");
    // If both are full, there is no room anywhere.
    let second = fill(other, "load");
    let refused = wait::until(Duration::from_secs(8), || {
        let answer = http::request(full.http, "GET", path, &[]).expect("an answer");
        (answer.status == 503).then_some(answer)
    });
    assert!(refused.is_some_and(|answer| answer.headers.contains_key("retry-after")));
    for viewers in [first, second] {
        let [admitted, refused, harmed] = viewers.join().expect("the viewers");
        assert!(
            admitted > 0 && refused > 0,
            "{admitted} admitted, {refused} refused"
        );
        assert_eq!(harmed, 0);
    }
}

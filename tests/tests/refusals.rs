//! Admission by disk, memory and processor: beyond the capacity of each, newcomers are refused over RTSP and HTTP, with the
//! reason and a time to retry, and viewers who were admitted lose nothing. Classes of viewers, each with its part of the
//! capacity.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use reelway_tests::films::{self, temp_dir};
use reelway_tests::http;
use reelway_tests::knock::{self, missing, retry_after, watch};
use reelway_tests::rtsp::{Client, Response};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

/// A film of 40 s and about 43 kB per second of its file.
const FILM: &str = "seeks";
const SECONDS: u64 = 40;
/// Copies of it, each a file of its own, so that no viewer finds in memory what was read for another.
const FILMS: usize = 14;
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Another address of this machine.
const HOUSE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

fn title(number: usize) -> String {
    format!("film{number}")
}

fn copies() -> tempfile::TempDir {
    let (film, dir) = (films::film(FILM).path, temp_dir("copies"));
    for number in 0..FILMS {
        let path = dir.path().join(title(number)).with_extension("mp4");
        fs::copy(&film, path).expect("a copy of the film");
    }
    dir
}

/// A server of the copies with this `--capacity`.
fn server(capacity: &str) -> (Server, tempfile::TempDir) {
    let library = copies();
    let server = Options::new(library.path())
        .flag("--capacity", capacity)
        .set("pool.size", "\"128MiB\"")
        .start();
    server.wait_indexed();
    (server, library)
}

fn leave(server: &Server, mut client: Client, title: &str) {
    let answer = client.request("TEARDOWN", &server.rtsp_url(title), &[]);
    assert_eq!(answer.expect("TEARDOWN").status, 200);
}

/// The refusal names its reason, and a time to retry that is not after the end of the films that play now.
#[track_caller]
fn is_refused(what: &str, answer: (u16, u16), reason: (&str, &str), after: &str) {
    assert_eq!(answer.0, answer.1, "{what}: {}", reason.0);
    assert!(reason.0.contains(reason.1), "{what}: {}", reason.0);
    let after = retry_after(after);
    assert!((1..=SECONDS + 2).contains(&after), "{what}: in {after} s");
}

#[track_caller]
fn is_refused_over_http(what: &str, answer: &http::Response, reason: &str) {
    let after = answer.headers.get("retry-after").map_or("", String::as_str);
    is_refused(what, (answer.status, 503), (&answer.text(), reason), after);
}

#[track_caller]
fn is_refused_over_rtsp(what: &str, answer: &Response, reason: &str) {
    let after = answer.header("retry-after");
    is_refused(what, (answer.status, 453), (&answer.reason, reason), after);
}

/// Bookings of a resource in each of the next 60 seconds, and the resource's limit.
fn calendar(server: &Server, name: &str) -> (Vec<u64>, u64) {
    let resources = server.get("/api/admission?ahead=60").json()["resources"].clone();
    let mut resources = resources.as_array().expect("resources").iter();
    let resource = resources.find(|resource| resource["name"] == name);
    let resource = resource.unwrap_or_else(|| panic!("{name} is not limited"));
    let booked = resource["booked"].as_array().expect("a calendar").iter();
    let booked: Vec<u64> = booked.filter_map(serde_json::Value::as_u64).collect();
    assert_eq!(booked.len(), 60);
    (booked, resource["limit"].as_u64().expect("a limit"))
}

/// The largest booking of a resource in any second of the next minute, and the resource's limit.
fn booked(server: &Server, name: &str) -> (u64, u64) {
    let (booked, limit) = calendar(server, name);
    (booked.into_iter().max().unwrap_or(0), limit)
}

/// The mean booking of a resource in the next 30 seconds.
fn mean_booked(server: &Server, name: &str) -> u64 {
    let (booked, _) = calendar(server, name);
    booked[..30].iter().sum::<u64>() / 30
}

/// Newcomers are admitted until one is refused for this reason. Then viewers leave, and newcomers are admitted again.
fn newcomers_are_refused_and_admitted_when_viewers_leave(capacity: &str, name: &str) {
    // A part of the pool is set aside for HTTP: what RTSP's viewers hold is no reason to refuse it.
    let over_http = name != "memory";
    let (server, _library) = server(capacity);
    let mut viewers = Vec::new();
    let refused = loop {
        match watch(&server, &title(viewers.len()), HERE) {
            Ok(viewer) => viewers.push(viewer),
            Err(refused) => break refused,
        }
        assert!(viewers.len() < FILMS - 1, "{capacity}: nobody is refused");
    };
    assert!(viewers.len() >= 3, "{} viewers", viewers.len());
    is_refused_over_rtsp(capacity, &refused, name);
    let (most, limit) = booked(&server, name);
    assert!(most <= limit && most > limit / 2, "{most} of {limit}");

    let next = title(viewers.len());
    let paths: &[&str] = match over_http {
        true => &["hls/main.m3u8", "dash/main.mpd", "file"],
        false => &["hls/main.m3u8", "dash/main.mpd"],
    };
    for path in paths.iter().copied() {
        let answer = server.get(&format!("/{next}/{path}"));
        match over_http {
            true => is_refused_over_http(path, &answer, name),
            false => assert_eq!(answer.status, 200, "{path}: {}", answer.text()),
        }
    }
    let told = server.get("/api/admission").json();
    let refusals = told["refused"].as_array().expect("refusals");
    assert_eq!(refusals.len(), if over_http { 4 } else { 1 }, "{told}");
    for refusal in refusals {
        assert_eq!(refusal["title"], next.as_str());
        let reason = refusal["reason"].as_str().expect("a reason");
        assert!(reason.contains(name), "{reason}");
    }
    for viewer in &mut viewers {
        assert_eq!(missing(viewer, 40), 0, "admitted viewers lose nothing");
    }

    // One viewer leaves: there is room for one over RTSP.
    let before = viewers.len();
    leave(
        &server,
        viewers.pop().expect("a viewer"),
        &title(before - 1),
    );
    let mut came = watch(&server, &next, HERE).unwrap_or_else(|no| panic!("no room: {no:?}"));
    assert_eq!(missing(&mut came, 40), 0);
    viewers.push(came);
    // Media over HTTP are fetched ahead of their time, which books more at first: all viewers but one leave.
    let others: Vec<Client> = viewers.drain(1..).collect();
    drop(others);
    let comes_in = wait::until(Duration::from_secs(20), || {
        let answer = server.get(&format!("/{next}/hls/main.m3u8"));
        (answer.status == 200).then_some(())
    });
    assert!(comes_in.is_some(), "no room though all but one have left");
    assert_eq!(missing(&mut viewers[0], 40), 0);
}

#[test]
fn beyond_the_disks_capacity_newcomers_are_refused_until_viewers_leave() {
    newcomers_are_refused_and_admitted_when_viewers_leave("disk=400kB/s", "disk");
}

#[test]
fn beyond_the_memory_for_blocks_newcomers_are_refused_until_viewers_leave() {
    newcomers_are_refused_and_admitted_when_viewers_leave("mem=4MiB", "memory");
}

#[test]
fn beyond_the_processors_capacity_newcomers_are_refused_until_viewers_leave() {
    newcomers_are_refused_and_admitted_when_viewers_leave("cpu=3Mbit", "processor");
}

#[test]
fn viewers_who_follow_one_another_through_a_film_need_the_disk_once() {
    // Enough for about nine viewers of a copy each.
    let (server, _library) = server("disk=400kB/s");
    let together: Vec<Client> = (0..3 * FILMS)
        .map(|number| {
            // What the viewer ahead played before a newcomer came counts as read from the disk. So newcomers of the same
            // second share the disk, and the next one may have to retry a moment later.
            let comes_in = wait::until(Duration::from_secs(20), || {
                watch(&server, &title(0), HERE).ok()
            });
            comes_in.unwrap_or_else(|| panic!("viewer {number} of one film is not admitted"))
        })
        .collect();
    let told = server.get("/api/admission").json();
    assert_eq!(told["viewers"], together.len(), "all at once: {told}");
    let (most, limit) = booked(&server, "disk");
    assert!(most <= limit, "{most} of {limit}");
}

#[test]
fn beyond_what_the_way_to_the_origin_carries_newcomers_to_remote_films_are_refused_and_to_others_not()
 {
    let remote = copies();
    let origin = Options::new(remote.path()).start();
    origin.wait_indexed();
    let own = films::library(&[FILM]);
    let server = Options::new(own.path())
        .films(format!("http://{}/", origin.http))
        .flag("--capacity", "origin=2Mbit,disk=1000000kB/s")
        .set("pool.size", "\"128MiB\"")
        .start();
    server.wait_indexed();
    let mut viewers = Vec::new();
    let refused = loop {
        match watch(&server, &title(viewers.len()), HERE) {
            Ok(viewer) => viewers.push(viewer),
            Err(refused) => break refused,
        }
        assert!(viewers.len() < FILMS - 1, "nobody is refused");
    };
    is_refused_over_rtsp("origin", &refused, "the link to the origin");
    assert!(viewers.len() >= 2, "only {} came", viewers.len());
    let (most, limit) = booked(&server, "origin");
    assert!(most <= limit && most > limit / 2, "{most} of {limit}");
    let over_http = knock::get(
        &server,
        &format!("/{}/hls/main.m3u8", title(FILMS - 1)),
        HERE,
    );
    is_refused_over_http("origin over HLS", &over_http, "the link to the origin");
    let (of_disk, _) = booked(&server, "disk");
    assert_eq!(of_disk, 0, "remote films book no disk");
    let own = watch(&server, FILM, HERE);
    let _own = own.unwrap_or_else(|no| panic!("a film of this machine: {no:?}"));
    let (of_disk, _) = booked(&server, "disk");
    assert!(of_disk > 0, "it books the disk");
    for (number, viewer) in viewers.iter_mut().enumerate() {
        assert_eq!(missing(viewer, 20), 0, "viewer {number}");
    }
}

/// Admits viewers of a title from an address until one is refused because of the network.
fn fill(server: &Server, title: &str, from: IpAddr) -> Vec<Client> {
    let mut viewers = Vec::new();
    loop {
        match watch(server, title, from) {
            Ok(viewer) => viewers.push(viewer),
            Err(refused) => {
                is_refused_over_rtsp(title, &refused, "network");
                return viewers;
            }
        }
        assert!(viewers.len() < 40, "{title}: nobody is refused");
    }
}

/// One film under two titles, one of them in the directory `lounge`.
fn in_two_classes() -> tempfile::TempDir {
    let (film, library) = (films::film(FILM).path, temp_dir("classes"));
    fs::create_dir(library.path().join("lounge")).expect("a directory");
    for name in ["film.mp4", "lounge/film.mp4"] {
        fs::hard_link(&film, library.path().join(name)).expect("a hard link");
    }
    library
}

#[test]
fn classes_by_title_and_by_network_find_room_that_other_classes_cannot_book() {
    let library = in_two_classes();
    // What is left for the house is enough for a viewer over HLS, who gets the first seconds at four times the film's rate, in
    // whichever part of a second everybody else began.
    let classes = r#"[
        { name = "house", networks = ["127.0.0.2"], percent = 100 },
        { name = "lounge", titles = ["lounge/"], percent = 60 },
        { name = "others", percent = 40 },
    ]"#;
    let server = Options::new(library.path())
        .flag("--capacity", "net=8Mbit")
        .set("admission.classes", classes.replace('\n', " "))
        .start();
    server.wait_indexed();
    let share = |percent: u64| {
        let (most, limit) = booked(&server, "network");
        let (mean, limit) = (mean_booked(&server, "network"), limit * percent / 100);
        // A single second may have more where packets may leave ahead of their time; the seconds together may not, but for a
        // part of one of them.
        assert!(mean <= limit + limit / 20, "{mean} of {limit}");
        // There was no room for another viewer, with a mean of 0.4 Mbit/s and a peak within a second.
        let room = limit.saturating_sub(most);
        assert!(room < 1_500_000, "{room} bit/s were left of {percent} %");
    };

    let mut others = fill(&server, "film", HERE);
    share(40);
    let of_others = knock::get(&server, "/film/hls/main.m3u8", HERE);
    is_refused_over_http("others over HLS", &of_others, "network");

    let lounge = fill(&server, "lounge/film", HERE);
    share(60);
    let of_lounge = knock::get(&server, "/lounge/film/hls/main.m3u8", HERE);
    is_refused_over_http("the lounge over HLS", &of_lounge, "network");

    let of_house = knock::get(&server, "/film/hls/main.m3u8", HOUSE);
    assert_eq!(of_house.status, 200, "{}", of_house.text());
    let house = fill(&server, "film", HOUSE);
    share(100);
    let came = [others.len(), lounge.len(), house.len()];
    assert!(came.iter().all(|count| *count >= 2), "{came:?}");

    // Two others leave: there is room for the house, but not for others, as more than their part is booked.
    for viewer in others.split_off(others.len() - 2) {
        leave(&server, viewer, "film");
    }
    let refused = watch(&server, "film", HERE).expect_err("others are still too many");
    is_refused_over_rtsp("others", &refused, "network");
    watch(&server, "film", HOUSE).unwrap_or_else(|no| panic!("no room for the house: {no:?}"));
}

#[test]
fn when_a_link_loses_capacity_sessions_of_the_last_class_end_first_even_if_they_are_older() {
    let library = in_two_classes();
    let classes = r#"[
        { name = "lounge", titles = ["lounge/"], percent = 100 },
        { name = "others", percent = 100 },
    ]"#;
    let server = Options::new(library.path())
        .flag("--capacity", "net=3Mbit")
        .set("admission.classes", classes.replace('\n', " "))
        .start();
    server.wait_indexed();
    let viewers: Vec<_> = ["film", "film", "film", "lounge/film", "lounge/film"]
        .into_iter()
        .map(|title| {
            let mut client = Client::connect(server.rtsp).expect("a connection");
            let url = server.rtsp_url(title);
            let tracks = client.setup_udp(&url).expect("room for five");
            let answer = client.request("PLAY", &url, &[]).expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
            (client, tracks)
        })
        .collect();
    let titles = || -> Vec<String> {
        let list = server.get("/api/sessions").json();
        let all = list["sessions"].as_array().expect("sessions").iter();
        all.map(|session| session["title"].as_str().expect("a title").to_owned())
            .collect()
    };
    assert_eq!(titles().len(), 5);
    // A bottleneck on the way drops packets of all viewers.
    let mut lost = 0;
    let left = wait::until(Duration::from_secs(30), || {
        lost += 2;
        for (_, tracks) in &viewers {
            tracks
                .iter()
                .for_each(|track| track.report_lost(server.rtsp.ip(), lost));
        }
        std::thread::sleep(Duration::from_millis(300));
        let now = titles();
        (now.len() < 5).then_some(now)
    });
    let left = left.unwrap_or_else(|| panic!("nobody has to leave:\n{}", server.log()));
    let of = |title: &str| left.iter().filter(|of| *of == title).count();
    // Sessions of the class `lounge` do not end while there are sessions of `others`.
    assert!(of("lounge/film") == 2 || of("film") == 0, "{left:?}");
    assert!(of("film") < 3, "{left:?}");
}

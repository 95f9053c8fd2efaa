//! Admission: beyond what the machine carries, only newcomers are refused, and they learn when to
//! try again.

use std::process::Command;
use std::time::Duration;

use reelway_tests::films;
use reelway_tests::http;
use reelway_tests::rtsp::{Client, Response, Rtp};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

const FILM: &str = "seeks";

/// Starts a server of one film whose network has this capacity.
fn server(net: &str) -> (Server, tempfile::TempDir) {
    let library = films::library(&[FILM]);
    let server = Options::new(library.path())
        .flag("--capacity", format!("net={net}"))
        .start();
    server.wait_indexed();
    (server, library)
}

/// Starts a server of one film, whose newcomers may wait for this many seconds until there is room
/// on a network of 1 Mbit/s.
fn where_newcomers_wait(film: &str, seconds: u32) -> (Server, tempfile::TempDir) {
    let library = films::library(&[film]);
    let server = Options::new(library.path())
        .flag("--capacity", "net=1Mbit")
        .set("admission.wait", seconds)
        .start();
    server.wait_indexed();
    (server, library)
}

/// The number of seconds after which a newcomer over RTSP would begin.
fn newcomer_begins_in(server: &Server, film: &str) -> f64 {
    let path = format!("/api/admission?title={film}&protocol=rtsp/tcp");
    server.get(&path).json()["newcomer"]["starts_in"]
        .as_f64()
        .expect("the newcomer may begin, at once or later")
}

/// Asks to SET UP the film's first track over TCP, without waiting for the answer.
fn ask_for_set_up(server: &Server) -> Client {
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let (_, media) = client.describe(&server.rtsp_url(FILM)).expect("DESCRIBE");
    let transport = [("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1")];
    client.send("SETUP", &media[0], &transport).expect("SETUP");
    client
}

/// SETs UP the film's first track over TCP.
fn set_up(server: &Server) -> (Client, Response) {
    let mut client = ask_for_set_up(server);
    let answer = client.response(Duration::from_secs(10));
    (client, answer.expect("SETUP"))
}

fn play(server: &Server, client: &mut Client) {
    let answer = client.request("PLAY", &server.rtsp_url(FILM), &[]);
    assert_eq!(answer.expect("PLAY").status, 200);
}

/// Receives this many packets of the video, and returns the number of packets missing between them.
fn missing(client: &mut Client, packets: usize) -> usize {
    let (mut missing, mut last) = (0, None::<u16>);
    for _ in 0..packets {
        let frame = loop {
            let frame = client.frame(Duration::from_secs(20)).expect("frames");
            let frame = frame.expect("the film goes on");
            if frame.channel == 0 {
                break frame;
            }
        };
        let seq = Rtp::parse(&frame.data).expect("RTP").seq;
        if let Some(last) = last {
            missing += usize::from(seq.wrapping_sub(last).wrapping_sub(1));
        }
        last = Some(seq);
    }
    missing
}

/// Begins to watch over HLS: fetches the first segment, and returns the addresses of the first
/// three.
fn begin_hls(server: &Server) -> Vec<String> {
    let fetch = |path: &str| -> String {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    };
    let named = |text: &str, wanted: &str| -> Vec<String> {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#') && line.contains(wanted));
        lines.map(str::to_owned).collect()
    };
    let playlists = named(&fetch(&format!("/{FILM}/hls/main.m3u8")), ".m3u8");
    let playlist = playlists.first().expect("a playlist");
    let segments = named(&fetch(&format!("/{FILM}/hls/{playlist}")), ".m4s");
    let address = |path: &String| format!("/{FILM}/{}", path.trim_start_matches("../"));
    let segments: Vec<String> = segments.iter().take(3).map(address).collect();
    assert_eq!(segments.len(), 3);
    fetch(&segments[0]);
    segments
}

fn retry_after(header: Option<&str>) -> u64 {
    let text = header.expect("Retry-After");
    text.parse()
        .unwrap_or_else(|_| panic!("Retry-After: {text}"))
}

#[test]
fn over_what_the_network_carries_the_newcomer_is_refused_over_any_protocol_and_others_lose_nothing()
{
    let (server, _library) = server("3Mbit");
    let hls = begin_hls(&server);
    let mut viewers = Vec::new();
    let refused = loop {
        let (mut client, answer) = set_up(&server);
        if answer.status != 200 {
            break answer;
        }
        play(&server, &mut client);
        viewers.push(client);
        assert!(viewers.len() < 30, "nobody is refused");
    };
    // The film has some 340 kbit/s.
    assert!(
        (2..=9).contains(&viewers.len()),
        "{} viewers",
        viewers.len()
    );
    assert_eq!(refused.status, 453, "{refused:?}");
    assert!(refused.reason.contains("network"), "{refused:?}");
    let after = retry_after(Some(refused.header("Retry-After")));
    assert!((1..=41).contains(&after), "in {after} s of a film of 40 s");

    for path in ["hls/main.m3u8", "dash/main.mpd", "file"] {
        let answer = server.get(&format!("/{FILM}/{path}"));
        assert_eq!(answer.status, 503, "{path}: {}", answer.text());
        let after = answer.headers.get("retry-after").map(String::as_str);
        assert!((1..=41).contains(&retry_after(after)), "{path}");
        assert!(
            answer.text().contains("network"),
            "{path}: {}",
            answer.text()
        );
    }
    let head = http::request(server.http, "HEAD", &format!("/{FILM}/file"), &[]).expect("HEAD");
    assert_eq!(head.status, 200, "asking for a length is no watching");

    for viewer in &mut viewers {
        assert_eq!(missing(viewer, 40), 0);
    }
    // The viewer over HTTP plays on, too: nobody is refused in the middle of a film.
    for path in &hls {
        let some = [("Range", "bytes=0-99")];
        let answer = http::request(server.http, "GET", path, &some).expect("an answer");
        assert_eq!(answer.status, 206, "{path}");
    }
    // Two of them leave, one with TEARDOWN and one without: there is room again.
    let mut leaving = viewers.split_off(viewers.len() - 2);
    let answer = leaving[0].request("TEARDOWN", &server.rtsp_url(FILM), &[]);
    assert_eq!(answer.expect("TEARDOWN").status, 200);
    drop(leaving);
    let comes_in = wait::until(Duration::from_secs(10), || {
        (set_up(&server).1.status == 200).then_some(())
    });
    assert!(comes_in.is_some(), "no room though two have left");
}

#[test]
fn one_who_pauses_makes_room_and_may_go_on_all_the_same() {
    let (server, _library) = server("1Mbit");
    let (mut first, answer) = set_up(&server);
    assert_eq!(answer.status, 200, "{answer:?}");
    play(&server, &mut first);
    let mut others = Vec::new();
    while let (mut client, Response { status: 200, .. }) = set_up(&server) {
        play(&server, &mut client);
        others.push(client);
        assert!(others.len() < 30, "nobody is refused");
    }
    let answer = first.request("PAUSE", &server.rtsp_url(FILM), &[]);
    assert_eq!(answer.expect("PAUSE").status, 200);
    first.frames.clear();
    let (mut next, answer) = set_up(&server);
    assert_eq!(answer.status, 200, "{answer:?}");
    play(&server, &mut next);
    // The first viewer was admitted before: they are not refused, although everything is booked.
    play(&server, &mut first);
    assert_eq!(missing(&mut first, 20), 0);
    assert_eq!(missing(&mut next, 20), 0);
}

#[test]
fn where_newcomers_may_wait_the_next_is_answered_when_a_film_ends_and_nobody_is_refused() {
    const SHORT: &str = "progressive";
    let (server, _library) = where_newcomers_wait(SHORT, 20);
    let begin = || {
        let mut client = Client::connect(server.rtsp).expect("a connection");
        client.setup_tcp(&server.rtsp_url(SHORT)).expect("SETUP");
        let answer = client.request("PLAY", &server.rtsp_url(SHORT), &[]);
        assert_eq!(answer.expect("PLAY").status, 200);
        client
    };
    let mut viewers = vec![begin()];
    while newcomer_begins_in(&server, SHORT) == 0.0 {
        viewers.push(begin());
        assert!(viewers.len() < 30, "there is always room");
    }
    // Before the last viewer can play, a film of five seconds must end.
    viewers.push(begin());
    let metrics = server.get("/metrics").text();
    assert!(
        metrics.contains("reelway_admission_refused_total 0\n"),
        "{metrics}"
    );
}

#[test]
fn a_newcomer_who_waits_is_refused_when_the_operator_ends_their_session() {
    let (server, _library) = where_newcomers_wait(FILM, 60);
    let mut viewers = Vec::new();
    while newcomer_begins_in(&server, FILM) == 0.0 {
        let (mut client, answer) = set_up(&server);
        assert_eq!(answer.status, 200, "{answer:?}");
        play(&server, &mut client);
        viewers.push(client);
        assert!(viewers.len() < 30, "there is always room");
    }
    let mut waiting = ask_for_set_up(&server);
    let ready = || {
        let list = server.get("/api/sessions").json();
        let mut sessions = list["sessions"].as_array().expect("sessions").iter();
        sessions
            .find(|session| session["state"] == "ready")
            .cloned()
    };
    let session = wait::until(Duration::from_secs(10), ready).expect("their session");
    server.end_session(&session);
    // All films play for much longer than this.
    let answer = waiting.response(Duration::from_secs(10)).expect("SETUP");
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(
        answer.reason.contains("ended by the operator"),
        "{answer:?}"
    );
    assert_eq!(ready(), None);
}

#[test]
fn over_a_network_of_three_times_a_films_rate_its_only_viewer_is_admitted_whenever_they_ask() {
    let rate = {
        let (server, _library) = server("none");
        let film = server.get(&format!("/api/films/{FILM}")).json();
        film["bitrate"].as_f64().expect("a rate")
    };
    let (server, _library) = server(&format!("{:.3}Mbit", 3.0 * rate / 1e6));
    let deadline = wait::Deadline::after(Duration::from_millis(1500));
    let (mut asked, path) = (0, format!("/api/admission?title={FILM}&protocol=hls"));
    // A new second of the booking calendar begins in between.
    while asked < 20 || !deadline.over() {
        let answer = server.get(&path).json();
        assert_eq!(answer["newcomer"]["admitted"], true, "{answer}");
        asked += 1;
    }
    assert_eq!(begin_hls(&server).len(), 3);
}

#[test]
fn by_default_nobody_on_this_machine_is_refused() {
    let library = films::library(&[FILM]);
    let server = Options::new(library.path()).start();
    server.wait_indexed();
    for _ in 0..60 {
        let (_, answer) = set_up(&server);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

#[test]
fn where_a_link_carries_less_than_it_says_newcomers_are_refused_and_then_who_came_last_has_to_leave()
 {
    let (server, _library) = server("3Mbit");
    let sessions = || -> Vec<String> {
        let list = server.get("/api/sessions").json();
        let all = list["sessions"].as_array().expect("sessions").iter();
        all.map(|session| session["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let (mut viewers, mut before) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut client = Client::connect(server.rtsp).expect("a connection");
        let tracks = client
            .setup_udp(&server.rtsp_url(FILM))
            .expect("room for five");
        play(&server, &mut client);
        viewers.push((client, tracks));
        // In order of arrival.
        before.extend(sessions().into_iter().find(|id| !before.contains(id)));
    }
    assert_eq!(before.len(), 5);
    // All viewers miss the packets that a bottleneck on the way drops.
    let mut lost = 0;
    let left = wait::until(Duration::from_secs(30), || {
        lost += 2;
        for (_, tracks) in &viewers {
            tracks
                .iter()
                .for_each(|track| track.report_lost(server.rtsp.ip(), lost));
        }
        std::thread::sleep(Duration::from_millis(300));
        let now = sessions();
        (now.len() < 5).then_some(now)
    });
    let left = left.unwrap_or_else(|| panic!("nobody has to leave:\n{}", server.log()));
    let all = before.clone();
    let stay: Vec<String> = before.into_iter().filter(|id| left.contains(id)).collect();
    let first = &all[..stay.len()];
    assert!(!stay.is_empty() && stay == first, "{stay:?} of {all:?}");
    let log = server.log();
    let warned = log.find("network: capacity is down to").expect("a warning");
    let ended = log.find("newest sessions make room").expect("a reason");
    assert!(warned < ended, "newcomers first:\n{log}");
}

#[test]
fn a_limit_for_a_title_counts_its_viewers_whatever_they_speak() {
    const OTHER: &str = "progressive";
    let library = films::library(&[FILM, OTHER]);
    let server = Options::new(library.path())
        .set("admission.per_title", 1)
        .start();
    server.wait_indexed();
    let (_first, answer) = set_up(&server);
    assert_eq!(answer.status, 200, "{answer:?}");
    let refused = server.get(&format!("/{FILM}/hls/main.m3u8"));
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(
        refused.text().contains(&format!("of '{FILM}'")),
        "{}",
        refused.text()
    );
    assert_eq!(server.get(&format!("/{OTHER}/hls/main.m3u8")).status, 200);
}

#[test]
fn a_limit_for_an_address_is_told_in_words() {
    let library = films::library(&[FILM]);
    // The calibration beside it is shown as it was stored.
    let state = films::temp_dir("calibrated");
    let report = r#"{"when":"2026-11-21T13:55:12Z","cpu":1000000000,"disk":null,"tried":[]}"#;
    std::fs::write(state.path().join("calibration.json"), report).expect("a report");
    std::fs::write(state.path().join("calibration.svg"), "<svg/>").expect("a chart");
    let server = Options::new(library.path())
        .state(state.path())
        .set("admission.per_address", 1)
        .set("capacity.cpu", "\"0.8\"")
        .start();
    server.wait_indexed();
    assert_eq!(server.get("/api/calibration").text(), report);
    assert_eq!(server.get("/api/calibration.svg").text(), "<svg/>");
    let booked = server.get("/api/admission").json()["resources"].clone();
    let mut booked = booked.as_array().expect("resources").iter();
    let processor = booked.find(|resource| resource["name"] == "processor");
    // 98 % of 80 %, in bits per second.
    assert_eq!(
        processor.expect("the processor")["limit"],
        8 * 784_000_000_u64
    );
    let (_first, answer) = set_up(&server);
    assert_eq!(answer.status, 200, "{answer:?}");
    let (_, refused) = set_up(&server);
    assert_eq!(refused.status, 453);
    assert!(refused.reason.contains("127.0.0.1"), "{refused:?}");
}

/// Returns the query that names a user, signed by openssl with this key.
fn signed(user: &str, key: &str) -> String {
    let script = format!("printf %s '{user}' | openssl dgst -sha256 -hmac '{key}'");
    let signed = Command::new("sh").args(["-c", &script]).output();
    let signed = String::from_utf8(signed.expect("openssl").stdout).expect("digits");
    let sign = signed.split_whitespace().last().expect("a signature");
    format!("user={user}&sign={sign}")
}

#[test]
fn a_limit_for_a_user_counts_all_their_addresses_and_protocols_and_nobody_else_can_be_them() {
    let library = films::library(&[FILM]);
    let state = tempfile::tempdir().expect("a folder");
    let key = state.path().join("key");
    std::fs::write(&key, "a key that is long enough\n").expect("a key");
    let server = Options::new(library.path())
        .set("admission.per_user", 2)
        .set("admission.user_key", format!("\"{}\"", key.display()))
        .start();
    server.wait_indexed();
    let ann = signed("ann", "a key that is long enough");
    let hls = |query: &str| server.get(&format!("/{FILM}/hls/main.m3u8?{query}"));
    let set_up = |query: &str| {
        let mut client = Client::connect(server.rtsp).expect("a connection");
        let url = format!("{}?{query}", server.rtsp_url(FILM));
        let (_, media) = client.describe(&url).expect("DESCRIBE");
        let transport = [("Transport", "RTP/AVP/TCP;unicast;interleaved=0-1")];
        let answer = client.request("SETUP", &media[0], &transport);
        (client, answer.expect("SETUP"))
    };
    let (_first, answer) = set_up(&ann);
    assert_eq!(answer.status, 200);
    assert_eq!(hls(&ann).status, 200);
    let told = hls(&ann);
    assert_eq!(told.status, 503);
    assert!(told.text().contains("of user 'ann'"), "{}", told.text());
    let (_third, answer) = set_up(&ann);
    assert_eq!(
        (answer.status, answer.reason.contains("of user 'ann'")),
        (453, true)
    );

    // Others are admitted; viewers who name no user share one limit.
    assert_eq!(hls(&signed("bob", "a key that is long enough")).status, 200);
    assert_eq!(
        [hls("").status, hls("").status, hls("").status],
        [200, 200, 503]
    );

    // Nobody can pretend to be another user.
    for forged in [
        "user=eve",
        "user=eve&sign=00",
        &signed("eve", "another key"),
        &ann.replace("ann", "eve"),
    ] {
        assert_eq!(hls(forged).status, 403, "{forged}");
        assert_eq!(set_up(forged).1.status, 403, "{forged}");
    }
    let users = server.get("/api/sessions").json();
    let of_ann = users["sessions"]
        .as_array()
        .unwrap_or_else(|| panic!("{users}"))
        .iter();
    assert_eq!(
        of_ann.filter(|session| session["user"] == "ann").count(),
        2,
        "{users}"
    );
}

#[test]
fn a_session_that_is_made_up_is_a_newcomer_and_wins_nothing() {
    let (server, _library) = server("3Mbit");
    let segments = begin_hls(&server);
    let token = segments[1].split("s=").nth(1);
    let viewers = || {
        server.get("/api/admission").json()["viewers"]
            .as_u64()
            .expect("viewers")
    };
    let made_up = |nth: usize| format!("abcdefghijkmnpqrstuvwx{}{}", nth / 10, nth % 10);
    // While there is room, each is admitted like any newcomer; then none is.
    let mut answers = Vec::new();
    for nth in 0..30 {
        let path = format!("/{FILM}/hls/1.m3u8?s={}", made_up(nth));
        answers.push(server.get(&path).status);
    }
    let let_in = answers.iter().filter(|status| **status == 200).count() as u64;
    assert_eq!(viewers(), 1 + let_in, "{answers:?}");
    assert!(let_in < 10 && answers.ends_with(&[503, 503]), "{answers:?}");
    // Malformed tokens are not admitted either, and their answers reveal nothing.
    for no_name in ["x", "", "ABCDEFGHIJKLMNOPQRSTUVWX", "../../etc/passwd"] {
        let status = server
            .get(&format!("/{FILM}/hls/1.m3u8?s={no_name}"))
            .status;
        assert!(matches!(status, 400 | 403 | 503), "{no_name}: {status}");
    }
    // The earlier viewer plays on.
    assert_eq!(server.get(&segments[1]).status, 200, "{token:?}");
}

#[test]
fn two_who_share_a_session_get_together_what_one_may_have() {
    let (server, _library) = server("20Mbit");
    let segments = begin_hls(&server);
    let began = reelway_clock::now();
    // The two viewers are at different places in the film, so each request looks like a seek.
    for nth in 0..8 {
        let answer = server.get(&segments[nth % 2 * 2]);
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    // After each of the six seeks, some film is sent at once; everything else arrives at twice the
    // film's rate.
    let took = reelway_clock::now().since(began);
    assert!(
        took > Duration::from_secs(2),
        "all of it came within {took:?}"
    );
    let viewers = server.get("/api/admission").json()["viewers"].clone();
    assert_eq!(viewers, 1, "and they are booked as one");
}

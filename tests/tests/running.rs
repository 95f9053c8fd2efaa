//! The server as a program: signals, films that appear and disappear, what survives a restart, and
//! `reelway index`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reelway_tests::films::{self, temp_dir};
use reelway_tests::players::run;
use reelway_tests::probe::{self, Edits};
use reelway_tests::rtsp::{Client, Rtp, rtcp_packets};
use reelway_tests::server::{Options, Server, binary};
use reelway_tests::{http, wait};
use serde_json::Value;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn copy(name: &str, to: &Path) {
    fs::copy(films::film(name).path, to)
        .unwrap_or_else(|error| panic!("{}: {error}", to.display()));
}

/// The titles that can be played.
fn ready(server: &Server) -> Vec<String> {
    let films = server.get("/api/films?per_page=200").json();
    let films = films["films"].as_array().expect("a list");
    let mut titles: Vec<String> = films
        .iter()
        .filter(|film| film["state"] == "ready")
        .filter_map(|film| Some(film["title"].as_str()?.to_owned()))
        .collect();
    titles.sort();
    titles
}

#[track_caller]
fn wait_for(server: &Server, titles: &[&str]) {
    let there = wait::until(seconds(15), || (ready(server) == titles).then_some(()));
    assert!(there.is_some(), "{:?} for {titles:?}", ready(server));
}

/// Starts a viewer over TCP who plays `title`.
fn viewer(server: &Server, title: &str) -> Client {
    let mut client = Client::connect(server.rtsp).expect("a connection");
    client.setup_tcp(&server.rtsp_url(title)).expect("SETUP");
    let answer = client
        .request("PLAY", &server.rtsp_url(title), &[])
        .expect("PLAY");
    assert_eq!(answer.status, 200, "{answer:?}");
    // The response comes first; a viewer that was sent nothing gets no BYE (RFC 3550 section
    // 6.3.7).
    let first = client.frame(seconds(5)).expect("a connection");
    assert!(first.is_some(), "media");
    client
}

/// Whether a BYE with this reason came on every track before the connection ended or `limit` was
/// over.
fn says_bye(client: &mut Client, tracks: usize, limit: Duration, why: &str) -> bool {
    let deadline = wait::Deadline::after(limit);
    let mut left: Vec<u8> = (0..tracks as u8).map(|track| 2 * track + 1).collect();
    while !left.is_empty() && !deadline.over() {
        let Ok(Some(frame)) = client.frame(deadline.left()) else {
            break;
        };
        let bye = frame.channel % 2 == 1
            && rtcp_packets(&frame.data)
                .expect("RTCP")
                .iter()
                .any(|(kind, packet)| *kind == 203 && bye_reason(packet) == why.as_bytes());
        if bye {
            left.retain(|channel| *channel != frame.channel);
        }
    }
    left.is_empty()
}

/// The reason in a BYE for one source (RFC 3550 section 6.6).
fn bye_reason(packet: &[u8]) -> &[u8] {
    match packet.get(8..) {
        Some([len, text @ ..]) => &text[..usize::from(*len)],
        _ => &[],
    }
}

#[test]
fn told_to_stop_it_says_bye_to_its_viewers_and_leaves() {
    let library = films::library(&["seeks"]);
    let mut server = Server::start(library.path());
    let mut viewers: Vec<Client> = (0..3).map(|_| viewer(&server, "seeks")).collect();
    server.signal("TERM");
    for viewer in &mut viewers {
        assert!(
            says_bye(viewer, 2, seconds(5), "server stopping"),
            "a stream ended without BYE"
        );
    }
    assert_eq!(server.wait(seconds(10)), Some(0));
}

#[test]
fn a_second_signal_while_the_server_stops_ends_it_without_an_error() {
    let library = films::library(&["seeks"]);
    let mut server = Server::start(library.path());
    let _viewer = viewer(&server, "seeks");
    server.signal("TERM");
    // The server then waits 200 ms for BYEs and responses that are on their way.
    server.wait_for_log(&["stopping"], seconds(10));
    server.signal("TERM");
    assert_eq!(server.wait(seconds(10)), Some(0));
}

#[test]
fn the_end_of_a_film_is_bye_and_another_play_works() {
    let library = films::library(&["progressive"]);
    let server = Server::start(library.path());
    let mut client = viewer(&server, "progressive");
    assert!(
        says_bye(&mut client, 2, seconds(10), ""),
        "the film's end without BYE"
    );
    let url = server.rtsp_url("progressive");
    let answer = client
        .request("PLAY", &url, &[("Range", "npt=1-2")])
        .expect("PLAY");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        says_bye(&mut client, 2, seconds(5), ""),
        "the range's end without BYE"
    );
}

#[test]
fn films_that_come_change_move_and_go_are_noticed() {
    let dir = temp_dir("films");
    copy("progressive", &dir.path().join("first.mp4"));
    let server = Server::start(dir.path());
    wait_for(&server, &["first"]);

    fs::create_dir_all(dir.path().join("new/deep")).expect("directories");
    copy("video_only", &dir.path().join("new/deep/second.mp4"));
    wait_for(&server, &["first", "new/deep/second"]);

    fs::rename(
        dir.path().join("first.mp4"),
        dir.path().join("new/moved.mp4"),
    )
    .expect("a new place");
    wait_for(&server, &["new/deep/second", "new/moved"]);

    // A different film under the same name.
    copy("seeks", &dir.path().join("new/moved.mp4"));
    let length = || server.get("/api/films/new/moved").json()["duration"].as_f64();
    let longer = wait::until(seconds(15), || length().filter(|length| *length > 39.0));
    assert!(longer.is_some(), "still {:?} s long", length());

    fs::rename(dir.path().join("new"), dir.path().join("old")).expect("a new name");
    wait_for(&server, &["old/deep/second", "old/moved"]);
    fs::remove_dir_all(dir.path().join("old")).expect("gone");
    wait_for(&server, &[]);
    assert_eq!(server.get("/old/moved/hls/main.m3u8").status, 404);
}

#[test]
fn indexes_survive_a_restart_and_are_made_anew_where_they_are_damaged() {
    let dir = temp_dir("films");
    let state = temp_dir("state");
    copy("seeks", &dir.path().join("film.mp4"));
    let start = || {
        let server = Options::new(dir.path()).state(state.path()).start();
        wait_for(&server, &["film"]);
        viewer(&server, "film");
        server.token()
    };
    let token = start();
    let index = || {
        let files = fs::read_dir(state.path().join("index")).expect("the index");
        files
            .map(|file| file.expect("a file").path())
            .filter(|path| path.is_file())
            .collect::<Vec<_>>()
    };
    let files = index();
    assert_eq!(files.len(), 1, "{files:?}");
    // A rewritten index is a new file under the same name.
    let file = || fs::metadata(&files[0]).expect("the index").ino();
    let written = file();
    let whole = fs::read(&files[0]).expect("the index");
    assert!(
        whole.len() < 20 * (1000 + 1724) + 8192,
        "{} bytes for 2724 samples",
        whole.len()
    );

    assert_eq!(start(), token, "the token stays");
    assert_eq!(file(), written, "a good index is used as it is");

    for damage in 0..3 {
        let mut bytes = whole.clone();
        match damage {
            0 => bytes.truncate(bytes.len() / 2),
            1 => bytes
                .iter_mut()
                .skip(200)
                .step_by(97)
                .for_each(|byte| *byte ^= 0x55),
            _ => bytes.clear(),
        }
        fs::write(&files[0], bytes).expect("a damaged index");
        start();
        assert!(
            fs::read(&files[0]).expect("the index") == whole,
            "damage {damage} was not repaired"
        );
    }
}

#[test]
fn a_session_can_be_ended_with_the_token_and_not_without() {
    let library = films::library(&["seeks"]);
    let server = Server::start(library.path());
    let mut client = viewer(&server, "seeks");
    let sessions = server.get("/api/sessions").json();
    let session = &sessions["sessions"][0];
    assert_eq!(
        (session["protocol"].as_str(), session["state"].as_str()),
        (Some("rtsp/tcp"), Some("playing"))
    );
    let path = format!("/api/sessions/{}", session["id"].as_str().expect("an id"));
    let delete = |headers: &[(&str, &str)]| {
        http::request(server.http, "DELETE", &path, headers).expect("an answer")
    };
    assert!(matches!(delete(&[]).status, 401 | 403));
    assert!(matches!(
        delete(&[("Authorization", "Bearer guess")]).status,
        401 | 403
    ));
    let bearer = format!("Bearer {}", server.token());
    let foreign = delete(&[
        ("Authorization", &bearer),
        ("Origin", "https://evil.example"),
    ]);
    assert_eq!(foreign.status, 403, "a foreign page");
    let rebound = delete(&[("Authorization", &bearer), ("Host", "evil.example")]);
    assert_eq!(rebound.status, 403, "a name that is not ours");
    assert_eq!(delete(&[("Authorization", &bearer)]).status, 204);
    let why = "ended by the operator";
    assert!(
        says_bye(&mut client, 2, seconds(5), why),
        "the viewer is told"
    );
    let gone = wait::until(seconds(5), || {
        (server.get("/api/sessions").json()["sessions"] == Value::Array(Vec::new())).then_some(())
    });
    assert!(gone.is_some(), "the session is still there");
}

#[test]
fn a_command_that_prints_ends_without_a_word_when_nobody_reads_any_more() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let ended = Command::new(binary())
        .args(["serve", "--print-config"])
        .stdout(writer)
        .output()
        .expect("it runs");
    let sigpipe = 13;
    assert_eq!(ended.status.signal(), Some(sigpipe), "{ended:?}");
    assert!(ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn the_printed_configuration_is_one_that_it_takes() {
    let mut command = Command::new(binary());
    command.args(["serve", "--print-config"]);
    let printed = run(command, seconds(20)).expect("--print-config");
    let dir = temp_dir("config");
    let config = dir.path().join("reelway.toml");
    fs::write(&config, &printed.out).expect("a file");
    let mut command = Command::new(binary());
    command.arg("serve").arg("--config").arg(&config);
    // It reports that the configuration names no films: so there is no error in it.
    let ran = run(command, seconds(20));
    assert!(ran.err.contains("no films"), "{}", ran.err);
}

#[test]
fn check_says_where_the_time_comes_from_and_why() {
    let check = |wish: &str| {
        let mut command = Command::new(binary());
        command.arg("check").env("REELWAY_CLOCK", wish);
        let ran = run(command, seconds(30)).expect("reelway check");
        let text = String::from_utf8_lossy(&ran.out).into_owned();
        let line = text.lines().find(|line| line.starts_with("  time "));
        line.unwrap_or_else(|| panic!("no line on the time in\n{text}"))
            .to_owned()
    };
    assert!(check("off").ends_with("the kernel's clock: REELWAY_CLOCK=off"));
    // As this machine's kernel reports it.
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = fs::read_to_string(path).unwrap_or_default();
    let line = check("auto");
    match source.trim() {
        "" => assert!(line.contains("cannot read /sys"), "{line}"),
        source => assert!(
            line.contains(&format!("the kernel's clock source is {source}")),
            "{line}"
        ),
    }
}

#[test]
fn index_prints_what_ffprobe_sees() {
    for name in [
        "progressive",
        "fragmented",
        "huge",
        "nal_1",
        "opus",
        "bunny",
    ] {
        let film = films::film(name);
        let mut command = Command::new(binary());
        command
            .args(["index", "--json", "--samples"])
            .arg(&film.path);
        let ran = run(command, seconds(30)).expect("reelway index");
        let documents: Value = serde_json::from_slice(&ran.out).expect("JSON");
        for stream in probe::streams(&film.path, Edits::Ignore) {
            let tracks = documents[0]["tracks"].as_array().expect("tracks");
            let track = tracks
                .iter()
                .find(|track| track["id"] == stream.id)
                .expect("the track");
            let rows = track["sample_rows"].as_array().expect("samples");
            assert_eq!(rows.len(), stream.packets.len(), "{name}");
            for (row, packet) in rows.iter().zip(&stream.packets) {
                let theirs = (packet.pos, u64::from(packet.size), packet.key);
                let mine = (
                    row[0].as_u64(),
                    row[1].as_u64().expect("a size"),
                    row[4].as_bool().expect("sync"),
                );
                assert_eq!(mine, theirs, "{name}");
            }
        }
    }
}

#[test]
fn index_of_a_bad_film_names_file_box_and_byte_and_fails() {
    let dir = temp_dir("films");
    let path = dir.path().join("bad film.mp4");
    let mut bytes = fs::read(films::film("faststart").path).expect("the film");
    let stsz = bytes
        .windows(4)
        .position(|window| window == b"stsz")
        .expect("stsz")
        - 4;
    bytes[stsz + 16..stsz + 20].fill(0xff);
    fs::write(&path, bytes).expect("a film");
    let mut command = Command::new(binary());
    command
        .arg("index")
        .arg(&path)
        .arg(films::film("bunny").path);
    let ran = run(command, seconds(20));
    assert_eq!(ran.status.and_then(|status| status.code()), Some(1));
    assert!(
        ran.err.contains("bad film.mp4") && ran.err.contains("stsz"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains(&format!("byte {stsz}")), "{}", ran.err);
    let table = String::from_utf8_lossy(&ran.out).into_owned();
    assert!(
        table.contains("bunny") && table.contains("238 samples"),
        "the good one is shown: {table}"
    );
}

#[test]
fn index_says_of_containers_that_are_not_read_what_the_server_says() {
    let dir = temp_dir("films");
    let containers = [("avi", "AVI"), ("flv", "Flash video")];
    for (extension, _) in containers {
        let path = dir.path().join(format!("film-{extension}.{extension}"));
        fs::write(path, b"whatever is in it").expect("a film");
    }
    let server = Server::start(dir.path());
    server.wait_indexed();
    for (extension, name) in containers {
        let title = format!("film-{extension}");
        let film = server.get(&format!("/api/films/{title}")).json();
        let served = film["reason"].as_str().expect("a reason").to_owned();
        assert!(
            served.contains(&format!("{name} is not read yet")),
            "{served}"
        );
        let mut command = Command::new(binary());
        command.args(["index", "--json"]);
        command.arg(dir.path().join(format!("{title}.{extension}")));
        let ran = run(command, seconds(20));
        assert_eq!(ran.status.and_then(|status| status.code()), Some(1));
        assert!(ran.err.contains(&served), "{extension}: {}", ran.err);
        let documents: Value = serde_json::from_slice(&ran.out).expect("JSON");
        assert_eq!(documents[0]["error"], served.as_str());
    }
}

/// The number of the system call io_uring_setup.
const IO_URING_SETUP: u32 = 425;

#[test]
fn where_a_container_forbids_rings_it_says_so_and_reads_by_threads() {
    let library = films::library(&["progressive"]);
    let server = Options::new(library.path())
        .without_call(IO_URING_SETUP)
        .set("sender.backend", "\"io_uring\"")
        .start();
    server.wait_indexed();
    server.wait_for_log(&["sender.backend", "\"auto\" is used"], seconds(1));
    let mut client = Client::connect(server.rtsp).expect("a connection");
    let url = server.rtsp_url("progressive");
    let tracks = client.setup_udp(&url).expect("SETUP");
    let answer = client.request("PLAY", &url, &[]).expect("PLAY");
    assert_eq!(answer.status, 200, "{answer:?}");
    let pictures = &tracks[0].rtp;
    pictures
        .set_read_timeout(Some(seconds(10)))
        .expect("a timeout");
    let (mut packet, mut last) = ([0; 2048], None);
    for _ in 0..50 {
        let length = pictures.recv(&mut packet).expect("a packet");
        let seq = Rtp::parse(&packet[..length]).expect("RTP").seq;
        assert!(last.is_none_or(|last: u16| last.wrapping_add(1) == seq));
        last = Some(seq);
    }
    server.wait_for_log(
        &["films are read by threads instead of io_uring"],
        seconds(1),
    );
}

//! Things that go wrong in real installations: each has a message of its own, and the server goes
//! on for other viewers. The guide's troubleshooting page has a line for each.

mod breaking;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reelway_tests::films::{self, temp_dir};
use reelway_tests::rtsp::Client;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;
use serde_json::Value;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Makes a directory with one film that everybody may read.
fn one_film() -> tempfile::TempDir {
    let dir = temp_dir("films");
    fs::copy(films::film("progressive").path, dir.path().join("film.mp4")).expect("a copy");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))
        .expect("a directory of ours");
    dir
}

/// Percent-encodes each part of a title.
fn encoded(title: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            (byte as char).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    title.bytes().map(byte).collect()
}

/// The films that the API lists.
fn shown(server: &Server) -> Vec<Value> {
    let answer = server.get("/api/films?per_page=200").json();
    answer["films"].as_array().expect("a list").clone()
}

/// Waits until a film is in a state, and returns the film as the API shows it.
#[track_caller]
fn wait_for_state(server: &Server, title: &str, state: &str) -> Value {
    let film = || {
        shown(server)
            .into_iter()
            .find(|film| film["title"] == title)
    };
    let found = wait::until(seconds(20), || film().filter(|film| film["state"] == state));
    found.unwrap_or_else(|| panic!("{title} does not become {state}: {:?}", film()))
}

/// Starts a server that must fail: checks its exit code and returns its log.
#[track_caller]
fn refuses(options: Options) -> String {
    let mut server = options.spawn();
    let code = server.wait(seconds(20));
    assert_eq!(code, Some(1), "the exit code:\n{}", server.log());
    server.log()
}

#[track_caller]
fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(
            text.to_lowercase().contains(&word.to_lowercase()),
            "nothing of {word:?} in:\n{text}"
        );
    }
}

#[test]
fn an_empty_directory_is_said_to_have_no_film_and_is_watched() {
    let dir = temp_dir("films");
    let server = Options::new(dir.path()).start();
    server.wait_for_log(&["no films yet", "and they will appear"], seconds(5));
    fs::copy(films::film("progressive").path, dir.path().join("late.mp4")).expect("a copy");
    wait_for_state(&server, "late", "ready");
}

#[test]
fn no_directory_at_all_is_wrong_usage() {
    let mut server = Options::nothing().spawn();
    assert_eq!(server.wait(seconds(20)), Some(2), "the exit code");
    says(&server.log(), &["no films", "name a directory"]);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let dir = one_film();
    let missing = dir.path().join("missing").display().to_string();
    let server = Options::new(dir.path()).films(&missing).start();
    server.wait_for_log(&[&missing, "No such file"], seconds(5));
    wait_for_state(&server, "film", "ready");
}

#[test]
fn a_directory_that_must_not_be_read_is_named_and_the_rest_is_served() {
    let dir = one_film();
    let closed = dir.path().join("closed");
    fs::create_dir(&closed).expect("a directory");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).expect("a directory of ours");
    let server = Options::new(dir.path()).unprivileged().start();
    server.wait_for_log(
        &[&closed.display().to_string(), "Permission denied"],
        seconds(5),
    );
    wait_for_state(&server, "film", "ready");
    assert_eq!(shown(&server).len(), 1);
}

#[test]
fn a_port_that_is_taken_is_named() {
    let dir = one_film();
    let first = Server::start(dir.path());
    for (key, port) in [
        ("rtsp.port", first.rtsp.port()),
        ("http.port", first.http.port()),
        ("rtp.port", first.rtp),
    ] {
        let said = refuses(Options::new(dir.path()).set(key, port));
        says(&said, &[&port.to_string(), "in use"]);
        // The message says what to do.
        says(&said, &["choose"]);
    }
}

#[test]
fn a_film_without_a_track_to_play_is_listed_with_the_reason() {
    let dir = one_film();
    let mut bytes = fs::read(films::film("audio_only").path).expect("the film");
    let entry = bytes
        .windows(4)
        .position(|window| window == b"mp4a")
        .expect("the sample entry");
    bytes[entry..entry + 4].copy_from_slice(b"zzzz");
    fs::write(dir.path().join("odd.mp4"), bytes).expect("a film");
    fs::write(dir.path().join("text.mp4"), "This is no film. ".repeat(100)).expect("a file");
    fs::write(dir.path().join("empty.mp4"), "").expect("a file");
    let whole = fs::read(films::film("faststart").path).expect("the film");
    fs::write(dir.path().join("half.mp4"), &whole[..whole.len() / 2]).expect("a file");

    let server = Server::start(dir.path());
    let reason = |title, state| {
        wait_for_state(&server, title, state)["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    wait_for_state(&server, "film", "ready");
    says(&reason("odd", "unplayable"), &["zzzz"]);
    // A file that was just written may still grow; after it has been unchanged for a while, its
    // state is final.
    says(&reason("text", "unplayable"), &["mp4", "ffmpeg"]);
    says(&reason("half", "not_ready"), &["copied"]);
    assert!(!reason("empty", "not_ready").is_empty());
    // Each protocol responds with the reason.
    let mut client = Client::connect(server.rtsp).expect("a connection");
    for (title, word) in [("odd", "zzzz"), ("text", "mp4"), ("half", "copied")] {
        let answer = client
            .request("DESCRIBE", &server.rtsp_url(title), &[])
            .expect("an answer");
        assert!(
            (400..600).contains(&answer.status) && answer.status != 500,
            "{title}: {answer:?}"
        );
        let answer = server.get(&format!("/{title}/hls/main.m3u8"));
        assert!(
            (400..600).contains(&answer.status) && answer.status != 500,
            "{title}: {answer:?}"
        );
        says(&answer.text(), &[word]);
    }
    // The half-copied film becomes ready on its own.
    fs::write(dir.path().join("half.mp4"), &whole).expect("a file");
    wait_for_state(&server, "half", "ready");
}

#[test]
fn a_codec_without_payload_format_is_told_by_protocol() {
    let library = films::library(&["flac", "matroska_flac"]);
    let server = Server::start(library.path());
    for film in shown(&server) {
        assert_eq!(film["state"], "ready", "{film}");
        assert_eq!(film["protocols"]["hls"], Value::Null, "{film}");
        assert_eq!(film["protocols"]["dash"], Value::Null, "{film}");
        assert!(
            film["protocols"]["rtsp"].is_string(),
            "says why not: {film}"
        );
        assert_eq!(
            server
                .get(&format!(
                    "/{}/hls/main.m3u8",
                    film["title"].as_str().expect("a title")
                ))
                .status,
            200
        );
    }
}

#[test]
fn links_that_go_in_a_circle_are_passed_over() {
    let dir = one_film();
    let deeper = dir.path().join("deeper");
    fs::create_dir(&deeper).expect("a directory");
    symlink(dir.path(), deeper.join("up")).expect("a link");
    symlink("self.mp4", dir.path().join("self.mp4")).expect("a link");
    symlink("gone.mp4", dir.path().join("dangling.mp4")).expect("a link");
    let server = Server::start(dir.path());
    let ready: Vec<_> = shown(&server)
        .into_iter()
        .filter(|film| film["state"] == "ready")
        .collect();
    assert_eq!(ready.len(), 1, "the film is there once: {ready:?}");
    // A link to itself is reported; a folder that is reached again through a link is not an error.
    server.wait_for_log(&["self.mp4", "symbolic links"], seconds(5));
    server.wait_for_log(&["dangling.mp4", "No such file"], seconds(5));
}

#[test]
fn films_play_whatever_their_names_are() {
    let dir = temp_dir("films");
    let names: [&[u8]; 13] = [
        b"with space.mp4",
        b"100% sure.mp4",
        b"%2e%2e.mp4",
        b"quote's \"double\".mp4",
        "emoji \u{1f3ac} film.mp4".as_bytes(),
        "\u{ac00}\u{b098}\u{b2e4}.mp4".as_bytes(),
        b"semi;colon?query#hash&amp+plus.mp4",
        b"back\\slash.mp4",
        b"dot.dot..mp4",
        b"new\nline.mp4",
        b"not utf-8 \xe9\xff.mp4",
        b"<b>bold.mp4",
        b"sub dir/deeper/film.mp4",
    ];
    fs::create_dir_all(dir.path().join("sub dir/deeper")).expect("directories");
    for name in names {
        let path = dir.path().join(OsStr::from_bytes(name));
        fs::copy(films::film("progressive").path, &path)
            .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
    let server = Server::start(dir.path());
    let films = shown(&server);
    assert_eq!(films.len(), names.len());
    let len = fs::metadata(films::film("progressive").path)
        .expect("the film")
        .len();
    for film in films {
        assert_eq!(film["state"], "ready", "{film}");
        let title = film["title"].as_str().expect("a title");
        let path = encoded(title);
        let answer = server.get(&format!("/{path}/file"));
        assert_eq!(
            (answer.status, answer.body.len() as u64),
            (200, len),
            "{title}"
        );
        let answer = server.get(&format!("/{path}/hls/main.m3u8"));
        assert_eq!(answer.status, 200, "{title}");
        let playlist = answer.text();
        let media = playlist
            .lines()
            .find(|line| line.contains(".m3u8") && !line.starts_with('#'))
            .expect("a playlist");
        let answer = server.get(&format!("/{path}/hls/{media}"));
        assert_eq!(answer.status, 200, "{title}: {media}");
        assert_eq!(
            server.get(&format!("/{path}/dash/main.mpd")).status,
            200,
            "{title}"
        );
        let mut client = Client::connect(server.rtsp).expect("a connection");
        let tracks = client
            .setup_tcp(&server.rtsp_url(&path))
            .unwrap_or_else(|error| panic!("{title}: {error:#}"));
        assert_eq!(tracks, 2);
        let answer = server.get(&format!("/api/films/{path}"));
        assert_eq!(answer.status, 200, "{title}");
        assert_eq!(answer.json()["title"], title);
    }
}

#[test]
fn two_films_of_one_title_keep_their_extensions() {
    let dir = temp_dir("films");
    for name in ["film.mp4", "film.mov", "other.mp4"] {
        fs::copy(films::film("progressive").path, dir.path().join(name)).expect("a copy");
    }
    let server = Server::start(dir.path());
    let mut titles: Vec<String> = shown(&server)
        .iter()
        .filter_map(|film| Some(film["title"].as_str()?.to_owned()))
        .collect();
    titles.sort();
    assert_eq!(titles, ["film.mov", "film.mp4", "other"]);
    for title in titles {
        assert_eq!(server.get(&format!("/{title}/file")).status, 200, "{title}");
    }
}

/// A mounted file system, which is unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0).status().ok();
    }
}

#[test]
fn a_state_directory_that_cannot_be_written_is_named() {
    let dir = one_film();
    let state = temp_dir("state");
    let file = state.path().join("a file");
    fs::write(&file, "").expect("a file");
    let read_only = state.path().join("read-only");
    fs::create_dir(&read_only).expect("a directory");
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", "ro,size=1m", "reelway-test"])
        .arg(&read_only);
    assert!(
        mount.status().is_ok_and(|status| status.success()),
        "mounting a read-only file system needs root"
    );
    let _mounted = Mounted(&read_only);
    for (place, reason) in [
        (&file, "Not a directory"),
        (&read_only, "Read-only file system"),
    ] {
        let server = Options::new(dir.path()).state(place).start();
        let name = place.display().to_string();
        server.wait_for_log(
            &["index files cannot be written", &name, reason, "--state"],
            seconds(5),
        );
        // Films can be played without index files.
        wait_for_state(&server, "film", "ready");
        let mut client = Client::connect(server.rtsp).expect("a connection");
        assert_eq!(
            client.setup_tcp(&server.rtsp_url("film")).expect("SETUP"),
            2
        );
    }
}

#[test]
fn a_wrong_key_of_the_configuration_is_named_with_file_and_line() {
    let dir = one_film();
    says(
        &refuses_with(2, Options::new(dir.path()).set("rtsp.prot", 1)),
        &["reelway.toml", "prot"],
    );
    says(
        &refuses_with(2, Options::new(dir.path()).set("rtsp.port", "\"high\"")),
        &["reelway.toml", "port"],
    );
}

/// Starts a server that must fail with this exit code or 1.
#[track_caller]
fn refuses_with(code: i32, options: Options) -> String {
    let mut server = options.spawn();
    let left = server.wait(seconds(20));
    assert!(
        left == Some(code) || left == Some(1),
        "the exit code {left:?}:\n{}",
        server.log()
    );
    server.log()
}

#[test]
fn a_kernel_without_virtual_servers_is_told_with_its_module() {
    if Path::new("/proc/net/ip_vs").exists() {
        reelway_skip::skipped!("this kernel has IPVS");
        return;
    }
    let film = films::film("progressive").path;
    let film = film.to_str().expect("a path in UTF-8");
    let direct = [
        "director",
        "--address",
        "192.0.2.100",
        "--edge",
        "192.0.2.1",
    ];
    let nowhere = temp_dir("nowhere");
    for arguments in [&direct[..], &["director", "try", film]] {
        let mut command = Command::new(reelway_tests::server::binary());
        // Runs outside the repository, where the lab would find a kernel with IPVS.
        command.args(arguments).current_dir(nowhere.path());
        let ran = reelway_tests::players::run(command, seconds(20));
        assert_eq!(ran.status.and_then(|status| status.code()), Some(1));
        says(&ran.err, &["this kernel has no IPVS", "modprobe ip_vs"]);
    }
}

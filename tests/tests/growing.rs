//! Recordings that grow while they are played.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use reelway_tests::films::{self, film};
use reelway_tests::recording::{SECONDS, append, duration, packets, playlist, segments, whole};
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

/// A recording a third of which is written, and a server that has indexed it.
struct Begun {
    /// The whole film.
    whole: Vec<u8>,
    path: PathBuf,
    server: Server,
    /// The duration of what is written, in seconds.
    seconds: f64,
    _dir: tempfile::TempDir,
}

/// Begins a recording of this kind, in segments of this many seconds.
fn begin(extension: &str, segment: u32, set: impl FnOnce(Options) -> Options) -> Begun {
    let whole = whole(extension);
    let dir = films::temp_dir("library-");
    let path = dir.path().join(format!("recording.{extension}"));
    File::create(&path)
        .and_then(|mut file| file.write_all(&whole[..whole.len() / 3]))
        .expect("a recording");
    let server = set(Options::new(dir.path())
        .patient()
        .set("http.segment", segment))
    .start();
    server.wait_indexed();
    let seconds = duration(&server);
    assert!((5.0..25.0).contains(&seconds), "{seconds}");
    Begun {
        whole,
        path,
        server,
        seconds,
        _dir: dir,
    }
}

/// Sends segments as fast as possible.
fn at_once(options: Options) -> Options {
    options.set("http.ahead", 3600)
}

/// Whether the API reports that the film grows.
fn grows(server: &Server) -> bool {
    server.get("/api/films/recording").json()["growing"] == true
}

fn a_recording_is_played_as_far_as_it_was(extension: &str) {
    let recording = begin(extension, 2, at_once);
    let (whole, path, server) = (&recording.whole, &recording.path, &recording.server);
    let (first, third) = (recording.seconds, whole.len() / 3);
    // Nothing indicates yet that there will be more.
    assert!(
        server
            .get(&playlist(server))
            .text()
            .contains("#EXT-X-ENDLIST")
    );

    append(path, &whole[third..2 * third]);
    let longer = wait::until(SECONDS, || {
        Some(duration(server)).filter(|now| *now > first + 5.0)
    });
    let longer = longer.expect("it was indexed again");
    // The film was available all the time.
    let log = server.log();
    assert!(!log.contains("replaced"), "{log}");
    // The playlist grows with the film.
    let address = playlist(server);
    let early = server.get(&address).text();
    assert!(early.contains("#EXT-X-PLAYLIST-TYPE:EVENT"), "{early}");
    assert!(grows(server));
    assert!(!early.contains("#EXT-X-ENDLIST"), "{early}");
    let before = segments(&early);
    let get = |address: &String| {
        let answer = server.get(address);
        assert_eq!(answer.status, 200, "{address}: {}", answer.text());
        answer.body
    };
    let bodies: Vec<Vec<u8>> = before.iter().map(get).collect();

    append(path, &whole[2 * third..]);
    let all = wait::until(SECONDS, || {
        Some(duration(server)).filter(|now| *now > longer + 5.0)
    });
    assert!(all.is_some(), "{}", duration(server));
    let late = server.get(&address).text();
    assert!(late.starts_with(&early), "{early}{late}");
    assert!(segments(&late).len() > before.len());
    for (address, body) in before.iter().zip(&bodies) {
        assert!(get(address) == *body, "{address}");
    }
    // A recording that has not grown for a while has ended.
    let ended = wait::until(SECONDS, || {
        let text = server.get(&address).text();
        text.contains("#EXT-X-ENDLIST").then_some(text)
    });
    let ended = ended.expect("the recording ends");
    assert!(ended.contains("#EXT-X-PLAYLIST-TYPE:VOD"), "{ended}");
    assert!(!grows(server));
    let same = |text: &str| segments(text)[..before.len()].to_vec();
    assert_eq!(same(&ended), before);
    let played = packets(&server.http_url("recording/hls/main.m3u8"), &[]);
    assert_eq!(played, packets(&path.display().to_string(), &[]));

    // A different file in its place is a different film.
    std::fs::write(
        path,
        std::fs::read(film("transport").path).expect("another"),
    )
    .expect("it");
    let gone = wait::until(SECONDS, || {
        (server.get(&before[0]).status == 410).then_some(())
    });
    assert!(gone.is_some());
}

#[test]
fn a_transport_stream_that_grows_is_played_as_far_as_it_was_and_then_further() {
    a_recording_is_played_as_far_as_it_was("ts");
}

#[test]
fn a_matroska_file_that_grows_is_played_as_far_as_it_was_and_then_further() {
    a_recording_is_played_as_far_as_it_was("mkv");
}

#[test]
fn a_fragmented_mp4_that_grows_is_played_as_far_as_it_was_and_then_further() {
    a_recording_is_played_as_far_as_it_was("mp4");
}

#[test]
fn ffmpeg_follows_a_recording_over_hls_until_it_ends() {
    let recording = begin("ts", 2, at_once);
    let (whole, path, server) = (&recording.whole, &recording.path, &recording.server);
    let (first, cut) = (recording.seconds, whole.len() / 3);
    append(path, &whole[cut..cut + cut / 2]);
    let noticed = wait::until(SECONDS, || (duration(server) > first).then_some(()));
    assert!(noticed.is_some(), "it was indexed again");
    let url = server.http_url("recording/hls/main.m3u8");
    let manifest = server.get("/recording/dash/main.mpd").text();
    assert!(manifest.contains("type=\"dynamic\""), "{manifest}");
    let played = std::thread::scope(|scope| {
        let player = scope.spawn(|| packets(&url, &["-live_start_index", "0"]));
        let mut rest = &whole[cut + cut / 2..];
        let ended = wait::until(SECONDS * 3, || {
            let (part, more) = rest.split_at(rest.len().min(16 << 10));
            if !part.is_empty() {
                append(path, part);
            }
            rest = more;
            player.is_finished().then_some(())
        });
        assert!(ended.is_some(), "the player goes on");
        player.join().expect("the player")
    });
    assert_eq!(played, packets(&path.display().to_string(), &[]));
    let manifest = server.get("/recording/dash/main.mpd").text();
    assert!(manifest.contains("type=\"static\""), "{manifest}");
}

#[test]
fn a_recording_has_ended_soon_after_the_program_has_closed_it_that_kept_it_open() {
    // With these segments, it would otherwise end only after a minute without growth.
    let recording = begin("ts", 20, at_once);
    let (whole, path, server) = (&recording.whole, &recording.path, &recording.server);
    let mut file = OpenOptions::new()
        .append(true)
        .open(path)
        .expect("the recording");
    let mut rest = &whole[whole.len() / 3..];
    let mut longer = recording.seconds;
    let mut write = |size: usize| {
        let (part, more) = rest.split_at(rest.len().min(size));
        file.write_all(part).expect("more of it");
        rest = more;
    };
    // It is indexed again every five seconds: after the second time, it has been open for longer
    // than that.
    for _ in 0..2 {
        let seconds = wait::until(SECONDS, || {
            write(whole.len() / 2000);
            Some(duration(server)).filter(|now| *now > longer)
        });
        longer = seconds.expect("it was indexed again");
        assert!(grows(server));
    }
    write(whole.len());
    drop(file);
    let ended = wait::until(SECONDS, || (!grows(server)).then_some(()));
    assert!(ended.is_some(), "the recording ends");
    let manifest = server.get("/recording/dash/main.mpd").text();
    assert!(manifest.contains("type=\"static\""), "{manifest}");
    let played = packets(&server.http_url("recording/hls/main.m3u8"), &[]);
    assert_eq!(played, packets(&path.display().to_string(), &[]));
}

#[test]
fn what_a_recording_has_grown_by_and_what_may_come_is_booked_for_viewers_over_hls() {
    let limited = |options: Options| {
        options
            .set("http.ahead", 2)
            .flag("--capacity", "net=100Mbit")
    };
    let recording = begin("ts", 2, limited);
    let (whole, path, server) = (&recording.whole, &recording.path, &recording.server);
    let (first, third) = (recording.seconds, whole.len() / 3);
    // The number of steps of the next minute in which something is booked.
    let booked = || {
        let told = server.get("/api/admission?ahead=60").json();
        let resources = told["resources"].as_array().expect("resources");
        let network = resources.iter().find(|one| one["name"] == "network");
        let steps = network.expect("the network")["booked"].as_array();
        let is_booked = |bits: &&serde_json::Value| bits.as_u64() > Some(0);
        steps.expect("steps").iter().filter(is_booked).count()
    };
    let address = playlist(server);
    let segment = segments(&server.get(&address).text())[0].clone();
    assert_eq!(server.get(&segment).status, 200);
    let before = booked();
    assert!((1..60).contains(&before), "{before}");

    append(path, &whole[third..]);
    let is_longer = || (duration(server) > first + 5.0).then_some(());
    assert!(wait::until(SECONDS, is_longer).is_some());
    // The player requests the playlist again and plays on.
    let after = wait::until(SECONDS, || {
        let late = server.get(&address).text();
        assert_eq!(server.get(&segments(&late)[1]).status, 200);
        // Growth that may come is booked as well.
        Some(booked()).filter(|now| *now == 60)
    });
    assert!(after.is_some(), "{before}, then {}", booked());
}

#[test]
fn a_viewer_over_rtsp_gets_a_recording_up_to_where_it_ended_when_they_came() {
    let whole = whole("ts");
    let dir = films::temp_dir("library-");
    let path = dir.path().join("recording.ts");
    let cut = whole.len() / 3;
    File::create(&path)
        .and_then(|mut file| file.write_all(&whole[..cut]))
        .expect("a recording");
    let server = Options::new(dir.path()).patient().start();
    server.wait_indexed();
    let had = server.get("/api/films/recording").json();
    let pictures = had["tracks"][0]["samples"].as_u64().expect("its pictures") as usize;
    let url = server.rtsp_url("recording");
    let played = std::thread::scope(|scope| {
        let player = scope.spawn(|| packets(&url, &["-rtsp_transport", "tcp"]));
        // The recording grows all the time.
        let mut rest = &whole[cut..];
        let ended = wait::until(SECONDS * 3, || {
            let (part, more) = rest.split_at(rest.len().min(4096));
            append(&path, part);
            rest = more;
            player.is_finished().then_some(())
        });
        assert!(ended.is_some(), "the player goes on");
        player.join().expect("the player")
    });
    assert!(
        (pictures - 2..=pictures).contains(&played),
        "{played} of {pictures}"
    );
}

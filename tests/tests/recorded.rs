//! The recording dates in films' containers.

use std::path::Path;
use std::time::Duration;

use reelway_tests::films::{film, temp_dir};
use reelway_tests::players::{ffmpeg, ffprobe, run};
use reelway_tests::server::{Options, Server};

const PACKET: usize = 188;
const SECONDS: Duration = Duration::from_secs(60);

fn recorded_at(server: &Server, film: &str) -> Option<String> {
    let film = server.get(&format!("/api/films/{film}")).json();
    film["recorded_at"].as_str().map(str::to_owned)
}

/// The date that ffprobe reports for a film.
fn date(path: &Path) -> String {
    let command = ffprobe([
        "-v".as_ref(),
        "error".as_ref(),
        "-show_entries".as_ref(),
        "format_tags=creation_time".as_ref(),
        "-of".as_ref(),
        "csv=p=0".as_ref(),
        path.as_os_str(),
    ]);
    let ran = run(command, SECONDS).expect("ffprobe");
    String::from_utf8_lossy(&ran.out).trim().to_owned()
}

/// A time and date table of DVB: 13 October 1993, 12:45:00 UTC (ETSI EN 300 468 annex C).
fn table() -> [u8; PACKET] {
    let mut packet = [0xff; PACKET];
    let head = [0x47, 0x40, 0x14, 0x10, 0, 0x70, 0x70, 0x05];
    packet[..8].copy_from_slice(&head);
    packet[8..13].copy_from_slice(&[0xc0, 0x79, 0x12, 0x45, 0x00]);
    packet
}

#[test]
fn films_say_when_they_were_recorded_and_edges_know_it() {
    let dir = temp_dir("library-");
    let source = film("faststart").path.display().to_string();
    for name in ["dated.mp4", "dated.mkv", "undated.mp4"] {
        let to = dir.path().join(name).display().to_string();
        let dated = ["-metadata", "creation_time=2024-02-29T12:34:56Z"];
        let dated = if name.starts_with("un") {
            &[][..]
        } else {
            &dated[..]
        };
        let arguments = [&["-v", "error", "-i", &source, "-c", "copy"], dated, &[&to]].concat();
        run(ffmpeg(arguments), SECONDS).expect("ffmpeg");
    }
    for name in ["dated.mp4", "dated.mkv"] {
        let date = date(&dir.path().join(name));
        assert!(date.starts_with("2024-02-29T12:34:56"), "{name}: {date}");
    }
    // The table comes after half of the film's five seconds.
    let stream = std::fs::read(film("transport").path).expect("a film");
    let half = stream.len() / PACKET / 2 * PACKET;
    let stated = [&stream[..half], &table(), &stream[half..]].concat();
    std::fs::write(dir.path().join("broadcast.ts"), stated).expect("a film");

    let server = Options::new(dir.path()).start();
    server.wait_indexed();
    let edge = Options::edge(&server.http_url("/")).start();
    edge.wait_indexed();
    for server in [&server, &edge] {
        let dated = Some("2024-02-29T12:34:56Z".to_owned());
        assert_eq!(recorded_at(server, "dated.mp4"), dated);
        assert_eq!(recorded_at(server, "dated.mkv"), dated);
        assert_eq!(recorded_at(server, "undated"), None);
        let broadcast = recorded_at(server, "broadcast").expect("a date");
        let seconds = ["12:44:56", "12:44:57", "12:44:58"];
        let expected = seconds.map(|seconds| format!("1993-10-13T{seconds}Z"));
        assert!(expected.contains(&broadcast), "{broadcast}");
    }
}

//! A full state directory: indexes are kept in memory within a bound, the page and the log give the
//! reason, films can be played, and indexes are written when there is room again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reelway_skip::skipped;
use reelway_tests::films::temp_dir;
use reelway_tests::rtsp::Client;
use reelway_tests::server::{Options, Server};
use reelway_tests::wait;

const FILMS: usize = 12;
/// The memory for indexes that cannot be written.
const MEMORY: u64 = 32 << 20;
/// The size of the index of one of these films in bytes: 18 per sample, and groups.
const INDEX: u64 = 8 << 20;

/// A small file system that is unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    /// Mounts one of 1 MiB; `None` if that is not permitted.
    fn new(at: &Path) -> Option<Mounted> {
        fs::create_dir_all(at).expect("a directory");
        mount(at, "size=1m").then(|| Mounted(at.to_owned()))
    }

    fn grow(&self) {
        assert!(mount(&self.0, "remount,size=256m"), "a larger file system");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().ok();
    }
}

fn mount(at: &Path, options: &str) -> bool {
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", options, "reelway-test"])
        .arg(at);
    mount.status().is_ok_and(|status| status.success())
}

/// Makes films of silence: long tables and few bytes.
fn films(dir: &Path) {
    let short = dir.join("short.m4a");
    let ffmpeg = |args: &[&str], to: &Path| {
        let mut ffmpeg = Command::new("ffmpeg");
        ffmpeg.args(["-v", "error", "-y"]).args(args).arg(to);
        assert!(
            ffmpeg.status().is_ok_and(|status| status.success()),
            "ffmpeg"
        );
    };
    let silence = "anullsrc=r=96000:cl=mono";
    ffmpeg(
        &[
            "-f", "lavfi", "-i", silence, "-t", "60", "-c:a", "aac", "-b:a", "8k",
        ],
        &short,
    );
    let long = dir.join("film0.mp4");
    let input = short.to_str().expect("UTF-8");
    ffmpeg(&["-stream_loop", "80", "-i", input, "-c", "copy"], &long);
    fs::remove_file(short).expect("a file of ours");
    for n in 1..FILMS {
        fs::copy(&long, dir.join(format!("film{n}.mp4"))).expect("a copy");
    }
}

fn start(films: &Path, state: &Path) -> Server {
    let server = Options::new(films)
        .state(state)
        .set("index.memory", format!("\"{MEMORY}\""))
        .start();
    server.wait_indexed();
    server
}

fn begin(server: &Server, film: usize) -> anyhow::Result<Client> {
    let url = server.rtsp_url(&format!("film{film}"));
    let mut client = Client::connect(server.rtsp)?;
    client.setup_tcp(&url)?;
    let answer = client.request("PLAY", &url, &[])?;
    anyhow::ensure!(answer.status == 200, "PLAY: {answer:?}");
    Ok(client)
}

fn wait_for_sessions(server: &Server, count: usize) {
    let reached = wait::until(Duration::from_secs(10), || {
        (server.get("/api/sessions").json()["total"] == count).then_some(())
    });
    assert!(reached.is_some(), "{}", server.get("/api/sessions").text());
}

#[test]
fn indexes_that_cannot_be_written_take_bounded_memory_and_are_written_when_there_is_room() {
    let dir = temp_dir("films");
    films(dir.path());
    let state = temp_dir("state");
    let small = state.path().join("small");
    let Some(mounted) = Mounted::new(&small) else {
        return skipped!("mounting a small file system is not allowed here");
    };

    let roomy = start(dir.path(), &state.path().join("roomy"));
    assert_eq!(
        roomy.get("/api/node").json()["problems"],
        serde_json::json!([])
    );
    let usual = roomy.memory().0;
    drop(roomy);

    let server = start(dir.path(), &small);
    let problems = server.get("/api/node").json()["problems"].clone();
    assert_eq!(problems[0]["what"], "state directory", "{problems}");
    let detail = problems[0]["detail"].as_str().expect("words");
    for words in [
        "No space left",
        "at most 32 MiB",
        small.to_str().expect("UTF-8"),
    ] {
        assert!(detail.contains(words), "{detail}");
    }
    let said = server
        .log()
        .matches("index files cannot be written")
        .count();
    assert_eq!(said, 1, "{}", server.log());

    // Every film can be played, and memory stays within its bound.
    for film in 0..FILMS {
        drop(begin(&server, film).unwrap_or_else(|error| panic!("film{film}: {error:#}")));
        wait_for_sessions(&server, 0);
    }
    let grown = server.memory().0.saturating_sub(usual);
    eprintln!(
        "{FILMS} films take {} MiB more than with index files",
        grown >> 20
    );
    // In addition to the kept indexes: one that is being made, and what the allocator retains.
    assert!(grown < MEMORY + 3 * INDEX, "{} MiB", grown >> 20);

    // Indexes of films that are played stay; once they take all the memory, another film is refused
    // with the reason.
    let mut playing = Vec::new();
    let refused = loop {
        match begin(&server, playing.len()) {
            Ok(client) => playing.push(client),
            Err(error) => break format!("{error:#}"),
        }
        assert!(
            (playing.len() as u64) < MEMORY / INDEX + 1,
            "more films than there is memory for"
        );
    };
    assert!(
        playing.len() as u64 >= MEMORY / INDEX - 1,
        "{} films only",
        playing.len()
    );
    assert!(
        refused.contains("503") && refused.contains("index.memory"),
        "{refused}"
    );
    wait_for_sessions(&server, playing.len());
    let next = playing.len();
    playing.pop();
    wait_for_sessions(&server, playing.len());
    begin(&server, next).expect("the memory of a film that nobody plays any more");

    mounted.grow();
    server.wait_for_log(
        &["index files can be written", "again"],
        Duration::from_secs(30),
    );
    assert_eq!(
        server.get("/api/node").json()["problems"],
        serde_json::json!([])
    );
    let written = || {
        fs::read_dir(small.join("index"))
            .expect("index files")
            .count()
    };
    assert!(wait::until(Duration::from_secs(10), || (written() >= 3).then_some(())).is_some());
    for film in 0..FILMS {
        drop(begin(&server, film).unwrap_or_else(|error| panic!("film{film}: {error:#}")));
    }
    assert_eq!(written(), FILMS);
}

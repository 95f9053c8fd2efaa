//! Recordings that are written piece by piece while servers offer them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::films::{self, film};
use crate::players::{ffmpeg, ffprobe, run};
use crate::server::Server;
use crate::wait;

/// A time limit for everything that should happen soon.
pub const SECONDS: Duration = Duration::from_secs(30);

/// A recording that is partly written.
pub struct Recording {
    /// The whole film.
    pub whole: Vec<u8>,
    /// The number of bytes written so far.
    pub there: usize,
    /// Its file.
    pub path: PathBuf,
    dir: tempfile::TempDir,
}

impl Recording {
    /// Begins a recording: writes a third of a long film of this kind.
    pub fn begin(extension: &str) -> Recording {
        let whole = whole(extension);
        let dir = films::temp_dir("library-");
        let path = dir.path().join(format!("recording.{extension}"));
        let there = whole.len() / 3;
        File::create(&path)
            .and_then(|mut file| file.write_all(&whole[..there]))
            .expect("a recording");
        Recording {
            whole,
            there,
            path,
            dir,
        }
    }

    /// The directory that contains it.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes this many more bytes, or all that are left.
    pub fn grow(&mut self, bytes: usize) {
        let end = self.whole.len().min(self.there.saturating_add(bytes));
        append(&self.path, &self.whole[self.there..end]);
        self.there = end;
    }

    /// Writes one piece after the other until `ready` returns a value.
    pub fn grow_until<T>(
        &mut self,
        limit: Duration,
        piece: usize,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        wait::until(limit, || {
            self.grow(piece);
            ready()
        })
    }

    /// The number of video packets that a player gets from its file.
    pub fn packets(&self) -> usize {
        packets(&self.path.display().to_string(), &[])
    }
}

/// Returns a whole long film as a recorder writes it.
pub fn whole(extension: &str) -> Vec<u8> {
    let dir = films::temp_dir("recording-");
    let to = dir.path().join(format!("whole.{extension}"));
    let source = film("seeks").path.display().to_string();
    let arguments = ["-v", "error", "-i", &source, "-c", "copy"];
    let live: &[&str] = match extension {
        "mkv" => &["-f", "matroska", "-live", "1"],
        "mp4" => &["-movflags", "frag_keyframe+empty_moov"],
        _ => &["-f", "mpegts"],
    };
    let to_text = to.display().to_string();
    let all = [&arguments[..], live, &[&to_text]].concat();
    run(ffmpeg(all), SECONDS).expect("ffmpeg");
    std::fs::read(&to).expect("the film")
}

/// Appends to a recording.
pub fn append(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new()
        .append(true)
        .open(path)
        .expect("the recording");
    file.write_all(bytes).expect("more of it");
}

/// The duration, in seconds, that the server reports for a film called `recording`; 0 if it cannot
/// be played.
pub fn duration(server: &Server) -> f64 {
    let film = server.get("/api/films/recording").json();
    film["duration"].as_f64().unwrap_or(0.0)
}

/// Returns the address of the playlist of its video for a new viewer.
pub fn playlist(server: &Server) -> String {
    let main = server.get("/recording/hls/main.m3u8").text();
    let mut lines = main.lines();
    let address = lines.find(|line| !line.starts_with('#') && !line.is_empty());
    format!(
        "/recording/hls/{}",
        address.unwrap_or_else(|| panic!("{main}"))
    )
}

/// Returns the segments of a playlist as addresses.
pub fn segments(playlist: &str) -> Vec<String> {
    let lines = playlist.lines().filter(|line| line.contains(".m4s"));
    lines
        .map(|line| line.replacen("..", "/recording", 1))
        .collect()
}

/// The number of video packets that a player gets when it plays everything.
pub fn packets(url: &str, before: &[&str]) -> usize {
    let last = [
        "-v",
        "error",
        "-select_streams",
        "v:0",
        "-count_packets",
        "-show_entries",
        "stream=nb_read_packets",
        "-of",
        "csv=p=0",
        url,
    ];
    let ran = run(ffprobe([before, &last].concat()), SECONDS * 3).expect("ffprobe");
    let text = String::from_utf8_lossy(&ran.out).into_owned();
    text.split_whitespace()
        .next()
        .and_then(|word| word.trim_matches(',').parse().ok())
        .unwrap_or(0)
}

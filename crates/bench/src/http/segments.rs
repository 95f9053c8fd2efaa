//! The bytes that servers serve: one film, and its segments as files.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::load::SEGMENT;
use crate::film::{Recipe, make};

/// Number of segments on disk.
pub const SEGMENTS: u64 = 512;
/// Number of segments that are requested from memory, and number of small files.
pub const HOT: u64 = 64;
/// Size of a small file in bytes.
pub const SMALL: u64 = 1 << 10;

/// The film, whose bytes are the segments of all servers.
pub const FILM: Recipe = Recipe {
    seconds: 110,
    fps: 25,
    gop: 50,
    picture_rate: 80_000_000,
    sound_rate: 128_000,
    with_media: true,
    seed: 11,
};

/// The bytes that servers serve: one film, and its segments as files.
pub struct Bytes {
    /// The folder of the film.
    pub films: PathBuf,
    /// The folder of the segments, each named by its number.
    pub segments: PathBuf,
    /// The folder of small files, each named by its number.
    pub small: PathBuf,
    /// The folder for the servers' own files.
    pub state: PathBuf,
}

impl Bytes {
    /// Writes the files below a directory.
    pub fn make(dir: &Path) -> anyhow::Result<Bytes> {
        eprintln!("http: writing a film and its segments");
        let bytes = Bytes {
            films: dir.join("films"),
            segments: dir.join("seg"),
            small: dir.join("small"),
            state: dir.join("state"),
        };
        for dir in [&bytes.films, &bytes.segments, &bytes.small, &bytes.state] {
            std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        }
        let film = bytes.film();
        make(&film, &FILM).with_context(|| film.display().to_string())?;
        cut(&film, &bytes.segments, SEGMENTS, SEGMENT)?;
        cut(&film, &bytes.small, HOT, SMALL)?;
        Ok(bytes)
    }

    /// Returns the film's path.
    pub fn film(&self) -> PathBuf {
        self.films.join("film.mp4")
    }

    /// Drops a segment from the page cache.
    pub fn forget(&self, number: u64) {
        use nix::fcntl::{PosixFadviseAdvice::POSIX_FADV_DONTNEED, posix_fadvise};
        if let Ok(file) = File::open(self.segments.join(number.to_string())) {
            let _ = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        }
    }
}

/// Writes the first `parts` parts of a film, each of `bytes` bytes, as files into a folder.
fn cut(film: &Path, folder: &Path, parts: u64, bytes: u64) -> anyhow::Result<()> {
    let mut from = File::open(film)?;
    for number in 0..parts {
        let mut part = std::io::Read::take(&mut from, bytes);
        let mut to = File::create(folder.join(number.to_string()))?;
        let copied = std::io::copy(&mut part, &mut to)?;
        ensure!(copied == bytes, "the film is too short");
        to.flush()?;
        to.sync_data()?;
    }
    Ok(())
}

//! Films made to order.
//!
//! `recipes` and `uncompressed` list them: each is made by ffmpeg, or by taking another film apart
//! and reassembling it ([`crate::boxes`]). A film is made once, as `target/films/KEY/NAME.mp4`. The
//! key is a hash of its recipe, so that later runs find the film, and a changed recipe makes a new
//! one. A lock file per film keeps concurrent tests from making it twice.

mod custom;
mod matroska;
mod recipes;
mod transport;
mod uncompressed;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};

/// A film made to order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Film {
    /// Its file.
    pub path: PathBuf,
    /// Its name: the file name without the extension.
    pub name: &'static str,
    /// What is special about it.
    pub what: &'static str,
    /// What a player has to support to play it.
    pub kind: FilmKind,
}

impl Film {
    /// Whether it is an MP4 file, for which ffprobe reports the position of each sample.
    pub fn is_mp4(&self) -> bool {
        self.path.extension().is_some_and(|extension| {
            !["mkv", "ts", "m2ts", "mpg"]
                .iter()
                .any(|other| extension == *other)
        })
    }

    /// Whether it is a transport or program stream.
    pub fn is_stream(&self) -> bool {
        self.path.extension().is_some_and(|extension| {
            ["ts", "m2ts", "mpg"]
                .iter()
                .any(|other| extension == *other)
        })
    }

    /// The options with which ffmpeg reads all frames, including those that are not shown.
    pub fn read_whole(&self) -> &'static [&'static str] {
        match self.is_mp4() {
            true => &["-ignore_editlist", "1"],
            false => &[],
        }
    }
}

/// What can be expected of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilmKind {
    /// Every track can be played over every protocol.
    Plain,
    /// One of its codecs has no RTP payload format, or one that ffmpeg does not support.
    NotRtp,
    /// It is played from a view, as its samples are stored in another form than they are played: an
    /// MPEG transport or program stream, or Matroska with header stripping.
    Viewed,
    /// Its audio is uncompressed: every tool divides it into different samples.
    Uncompressed,
    /// Too long or too large for a test that plays it to the end.
    Big,
}

/// How a film is made.
struct Recipe {
    name: &'static str,
    what: &'static str,
    kind: FilmKind,
    extension: &'static str,
    make: Make,
}

enum Make {
    /// By ffmpeg with these arguments, followed by the name of the output. For words that begin
    /// with `@`, see `recipes.rs`.
    Ffmpeg(&'static str),
    /// By rewriting another film to the path.
    Rewrap(&'static str, fn(&Path, &Path) -> Result<()>),
    /// A file of `tests/data`.
    Data(&'static str),
}

/// The sources of the code that makes films. If they change, these films are made again.
const WRITER: [&str; 7] = [
    include_str!("custom.rs"),
    include_str!("matroska.rs"),
    include_str!("transport.rs"),
    include_str!("../boxes/tree.rs"),
    include_str!("../boxes/movie.rs"),
    include_str!("../boxes/write.rs"),
    include_str!("../boxes/entry.rs"),
];

/// Returns the film `name`, and makes it if it does not exist.
///
/// Panics if there is no recipe for it or it cannot be made: a test cannot go on without it.
pub fn film(name: &str) -> Film {
    make(name).unwrap_or_else(|error| panic!("film {name}: {error:#}"))
}

/// Returns all films, and makes those that do not exist, on all cores.
pub fn all() -> Vec<Film> {
    let names: Vec<&str> = recipes().map(|recipe| recipe.name).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    film(name);
                }
            });
        }
    });
    names.into_iter().map(film).collect()
}

/// Returns all films that are played from the file itself and are short and small enough to be
/// played to the end.
pub fn playable() -> Vec<Film> {
    let mut films = all();
    films.retain(|film| matches!(film.kind, FilmKind::Plain | FilmKind::NotRtp));
    films
}

/// Returns all films that are played from a view.
pub fn viewed() -> Vec<Film> {
    let mut films = all();
    films.retain(|film| film.kind == FilmKind::Viewed);
    films
}

/// Returns all films with uncompressed audio.
pub fn uncompressed() -> Vec<Film> {
    let names = uncompressed::RECIPES.iter().map(|recipe| recipe.name);
    names.map(film).collect()
}

/// Makes a directory with hard links to these films under their names, for a server to serve. It is
/// removed when dropped.
pub fn library(names: &[&str]) -> tempfile::TempDir {
    let dir = temp_dir("library");
    for name in names {
        let film = film(name);
        let link = dir.path().join(film.path.file_name().expect("a name"));
        fs::hard_link(&film.path, &link).expect("a hard link beside the films");
    }
    dir
}

/// Makes a directory inside the build's directory, on the file system of the films. It is removed
/// when dropped.
pub fn temp_dir(prefix: &str) -> tempfile::TempDir {
    let parent = target_dir().join("test-tmp");
    fs::create_dir_all(&parent).expect("a directory for temporary files");
    tempfile::Builder::new()
        .prefix(&format!("{prefix}-"))
        .tempdir_in(parent)
        .expect("a temporary directory")
}

/// The build's directory.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => dir.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    }
}

fn recipes() -> impl Iterator<Item = &'static Recipe> {
    recipes::RECIPES.iter().chain(uncompressed::RECIPES)
}

fn recipe(name: &str) -> Result<&'static Recipe> {
    recipes()
        .find(|recipe| recipe.name == name)
        .context("no such film")
}

/// Returns a hash of everything from which the film is made.
fn key(recipe: &Recipe) -> Result<u64> {
    let mut text = vec![recipe.name.to_owned()];
    match recipe.make {
        Make::Ffmpeg(arguments) => {
            for word in words(arguments) {
                if let Some(other) = word.strip_prefix("@film:") {
                    text.push(format!("{:x}", key(self::recipe(other)?)?));
                }
                text.push(word);
            }
        }
        Make::Rewrap(from, _) => {
            text.push(format!("{:x}", key(self::recipe(from)?)?));
            text.extend(WRITER.map(str::to_owned));
        }
        Make::Data(file) => text.push(file.to_owned()),
    }
    // FNV-1a: the key must be the same in every build, which std's hasher does not promise.
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    Ok(text
        .join("\0")
        .as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, hash))
}

fn make(name: &str) -> Result<Film> {
    let recipe = recipe(name)?;
    let dir = target_dir()
        .join("films")
        .join(format!("{:016x}", key(recipe)?));
    let path = dir.join(recipe.name).with_extension(recipe.extension);
    let film = Film {
        path,
        name: recipe.name,
        what: recipe.what,
        kind: recipe.kind,
    };
    if film.path.exists() {
        return Ok(film);
    }
    fs::create_dir_all(&dir)?;
    let lock = File::create(dir.join("lock"))?;
    lock.lock()?;
    if film.path.exists() {
        return Ok(film);
    }
    let part = dir.join("part").with_extension(recipe.extension);
    match recipe.make {
        Make::Ffmpeg(arguments) => ffmpeg(arguments, &part)?,
        Make::Rewrap(from, with) => with(&make(from)?.path, &part)?,
        Make::Data(file) => {
            fs::copy(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("data")
                    .join(file),
                &part,
            )?;
        }
    }
    fs::rename(&part, &film.path)?;
    Ok(film)
}

/// Splits a recipe's arguments into words and expands its abbreviations.
fn words(arguments: &str) -> Vec<String> {
    let short = recipes::SHORT.into_iter().chain([uncompressed::SHORT]);
    let short: HashMap<_, _> = short.collect();
    let mut words = Vec::new();
    for word in arguments.split_whitespace() {
        match short.get(word) {
            Some(long) => words.extend(self::words(long)),
            None => words.push(word.to_owned()),
        }
    }
    words
}

fn ffmpeg(arguments: &str, out: &Path) -> Result<()> {
    let mut command = Command::new("ffmpeg");
    command.args([
        "-hide_banner",
        "-nostdin",
        "-loglevel",
        "error",
        "-y",
        "-fflags",
        "+bitexact",
    ]);
    for word in words(arguments) {
        match word.strip_prefix("@film:") {
            Some(other) => command.arg(make(other)?.path),
            None => command.arg(match word.strip_prefix("@data:") {
                Some(file) => Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("data")
                    .join(file)
                    .into_os_string(),
                None => OsStr::new(&word).to_owned(),
            }),
        };
    }
    command
        .args(["-fflags", "+bitexact"])
        .arg(out)
        .stdin(Stdio::null());
    let output = command
        .output()
        .context("ffmpeg could not be started; install it (apt-get install ffmpeg)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(())
}

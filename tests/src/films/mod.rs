//! Films made to order.
//!
//! `recipes` and `uncompressed` list them: each is made by ffmpeg, or by taking another apart and putting it together
//! again ([`crate::boxes`]). A film is made once into `target/films/KEY/NAME.mp4`, where the key is a
//! hash over its recipe, so that another run finds it and a changed recipe makes it anew. A lock
//! file a film keeps tests that run beside each other from making it twice.

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
    /// Where it lies.
    pub path: PathBuf,
    /// Its name: the path's last part without extension.
    pub name: &'static str,
    /// What is special about it.
    pub what: &'static str,
    /// How much a player must be able to do for it.
    pub kind: FilmKind,
}

impl Film {
    /// Whether it is an MP4 file, of which ffprobe tells where each sample lies.
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

    /// Options by which ffmpeg reads all of its frames, whatever is to be shown of them.
    pub fn read_whole(&self) -> &'static [&'static str] {
        match self.is_mp4() {
            true => &["-ignore_editlist", "1"],
            false => &[],
        }
    }
}

/// What can be asked of a film.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilmKind {
    /// Every track goes over every protocol.
    Plain,
    /// A codec of it has no RTP payload format, or one that ffmpeg does not know.
    NotRtp,
    /// Its samples do not lie in the file as they are played: an MPEG transport stream, or Matroska without what frames begin with.
    Viewed,
    /// Sound of it is uncompressed: its samples are others for every tool.
    Uncompressed,
    /// Too long or too big for a test that plays it through.
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
    /// ffmpeg with these arguments before the name of the output; see `recipes.rs` for the words
    /// that begin with `@`.
    Ffmpeg(&'static str),
    /// Another film taken apart and written anew to the path.
    Rewrap(&'static str, fn(&Path, &Path) -> Result<()>),
    /// A file of `tests/data`.
    Data(&'static str),
}

/// Changes of these files make the films anew that they make.
const WRITER: [&str; 7] = [
    include_str!("custom.rs"),
    include_str!("matroska.rs"),
    include_str!("transport.rs"),
    include_str!("../boxes/tree.rs"),
    include_str!("../boxes/movie.rs"),
    include_str!("../boxes/write.rs"),
    include_str!("../boxes/entry.rs"),
];

/// The film `name`, made if it is not there.
///
/// Panics when there is no such film or it cannot be made: a test can do nothing else.
pub fn film(name: &str) -> Film {
    make(name).unwrap_or_else(|error| panic!("film {name}: {error:#}"))
}

/// All films, made if they are not there, on all cores.
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

/// All films whose samples lie in the file as they are played, and that are neither too long nor too big to be played through.
pub fn playable() -> Vec<Film> {
    let mut films = all();
    films.retain(|film| matches!(film.kind, FilmKind::Plain | FilmKind::NotRtp));
    films
}

/// All films whose samples do not lie in the file as they are played.
pub fn viewed() -> Vec<Film> {
    let mut films = all();
    films.retain(|film| film.kind == FilmKind::Viewed);
    films
}

/// All films with uncompressed sound.
pub fn uncompressed() -> Vec<Film> {
    let names = uncompressed::RECIPES.iter().map(|recipe| recipe.name);
    names.map(film).collect()
}

/// A directory with these films under their names, by hard link, for a server to serve; it is
/// removed with the value.
pub fn library(names: &[&str]) -> tempfile::TempDir {
    let dir = temp_dir("library");
    for name in names {
        let film = film(name);
        let link = dir.path().join(film.path.file_name().expect("a name"));
        fs::hard_link(&film.path, &link).expect("a hard link beside the films");
    }
    dir
}

/// A new directory below the build's, on the file system of the films; it is removed with the
/// value.
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

/// A hash over everything the film is made from.
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

/// The arguments of a recipe with its abbreviations written out.
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

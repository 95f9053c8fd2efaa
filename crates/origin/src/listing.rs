//! The list of films of a source, saved in a file. From it, a server that starts while its origin
//! does not answer knows the films and their versions, so that their indexes and their blocks on
//! the tier can be found. The file's modification time is when the origin answered last.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use reelway_clock::Real;
use reelway_sys::files;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::beside::Beside;
use crate::version::Version;

/// Changes when older files can no longer be read.
const FORMAT: u32 = 1;
/// Maximum size of the file, in bytes: enough for as many films as a source may have, with paths of
/// usual length.
const LONGEST: u64 = 64 << 20;

/// A film as it was listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// Path below the endpoints, decoded.
    pub path: String,
    /// The path from which its name is made.
    pub file: String,
    /// As long as the list has the same hint, the film has not changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Ids of the servers through which it comes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub via: Vec<String>,
    /// Subtitle files beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subtitles: Vec<Beside>,
    /// Its version at the endpoint that listed it.
    pub version: Version,
    /// Number of that endpoint.
    pub endpoint: usize,
    /// Digest of its spots in hexadecimal, with which other endpoints' films are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spots: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    format: u32,
    /// The source's shown address. A file with another address is not used.
    source: String,
    films: Vec<Listed>,
}

/// The file of a source's list.
pub(crate) struct ListingFile {
    path: Option<PathBuf>,
    source: String,
    /// Its content.
    written: Vec<Listed>,
    /// Whether the last attempt to write failed: this is logged once.
    has_failed: bool,
}

impl ListingFile {
    /// The file at this path, for the source with this shown address. Without a path, nothing is
    /// saved.
    pub fn new(path: Option<PathBuf>, source: &str) -> ListingFile {
        ListingFile {
            path,
            source: source.to_owned(),
            written: Vec::new(),
            has_failed: false,
        }
    }

    /// Reads the saved films; none if there is no file. An unreadable file is logged, and replaced
    /// with the next list.
    pub fn read(&mut self) -> Vec<Listed> {
        let Some(path) = &self.path else {
            return Vec::new();
        };
        let films = match read(path, &self.source) {
            Ok(films) => films,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                warn!("{}: {error}; the list is fetched again", path.display());
                Vec::new()
            }
        };
        self.written.clone_from(&films);
        films
    }

    /// When the origin answered last, according to the file.
    pub fn answered(&self) -> Option<Real> {
        let written = fs::metadata(self.path.as_ref()?).ok()?.modified().ok()?;
        let since = written.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Real::from_nanos(since.as_nanos() as u64))
    }

    /// Saves the films that are listed now.
    pub fn write(&mut self, films: Vec<Listed>, now: Real) {
        let Some(path) = &self.path else {
            return;
        };
        if self.written == films && set_time(path, now).is_ok() {
            return;
        }
        let content = Content {
            format: FORMAT,
            source: self.source.clone(),
            films,
        };
        let written = serde_json::to_vec(&content)
            .map_err(io::Error::from)
            .and_then(|text| files::replace(path, &text));
        match written {
            Ok(()) => (self.written, self.has_failed) = (content.films, false),
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    warn!(
                        "{}: {error}; after a restart, the origin's films are listed only once it answers",
                        path.display()
                    );
                }
            }
        }
    }
}

fn set_time(path: &Path, now: Real) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(path)?;
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(now.nanos()))
}

fn read(path: &Path, source: &str) -> io::Result<Vec<Listed>> {
    let len = fs::metadata(path)?.len();
    if len > LONGEST {
        return Err(io::Error::other(format!("longer than {LONGEST} bytes")));
    }
    let content: Content = serde_json::from_slice(&fs::read(path)?)?;
    let is_ours = content.format == FORMAT && content.source == source;
    Ok(if is_ours { content.films } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(path: &str) -> Listed {
        Listed {
            path: path.to_owned(),
            file: path.to_owned(),
            hint: None,
            via: Vec::new(),
            subtitles: Vec::new(),
            version: Version {
                len: 10,
                etag: Some("\"a\"".to_owned()),
                modified: None,
                edition: None,
            },
            endpoint: 0,
            spots: None,
        }
    }

    fn at(seconds: u64) -> Real {
        Real::from_nanos(seconds * 1_000_000_000)
    }

    fn file(dir: &Path, source: &str) -> ListingFile {
        ListingFile::new(Some(dir.join("below/list.json")), source)
    }

    #[test]
    fn what_was_listed_is_known_after_a_restart_and_only_for_this_source() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = file(dir.path(), "http://a/");
        assert_eq!(first.read(), []);
        first.write(vec![listed("one.mp4"), listed("two.mp4")], at(1));
        first.write(vec![listed("two.mp4")], at(1));
        assert_eq!(file(dir.path(), "http://a/").read(), [listed("two.mp4")]);
        assert_eq!(file(dir.path(), "http://b/").read(), []);
    }

    #[test]
    fn when_the_origin_answered_last_is_known_after_a_restart_though_the_list_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = file(dir.path(), "http://a/");
        assert_eq!(first.answered(), None);
        first.write(vec![listed("one.mp4")], at(5));
        first.write(vec![listed("one.mp4")], at(70));
        assert_eq!(file(dir.path(), "http://a/").answered(), Some(at(70)));
        assert_eq!(file(dir.path(), "http://a/").read(), [listed("one.mp4")]);
    }

    #[test]
    fn a_file_that_was_damaged_is_replaced_by_the_next_list() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = file(dir.path(), "http://a/");
        first.write(vec![listed("one.mp4")], at(1));
        let path = dir.path().join("below/list.json");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        let mut second = file(dir.path(), "http://a/");
        assert_eq!(second.read(), []);
        second.write(vec![listed("one.mp4")], at(1));
        assert_eq!(file(dir.path(), "http://a/").read(), [listed("one.mp4")]);
    }

    #[test]
    fn without_a_directory_that_can_be_written_nothing_is_kept_and_nothing_fails() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("below"), "a file").unwrap();
        let mut first = file(dir.path(), "http://a/");
        first.write(vec![listed("one.mp4")], at(1));
        assert_eq!(first.read(), []);
        ListingFile::new(None, "http://a/").write(vec![listed("one.mp4")], at(1));
    }
}

//! Subtitles of a film, in files beside it and inside the film file: which belong to which film,
//! and their names for users.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use reelway_media::{TextForm, TextTrack, Title, bcp47};
use reelway_subtitles::{Format, MOST_BYTES, Named, SubtitleError, Subtitles, named, read};
use reelway_sys::FileIdentity;
use xxhash_rust::xxh3::Xxh3;

/// Maximum number of files beside one film that are offered.
pub const MOST_SUBTITLE_FILES: usize = 32;
/// Maximum size in bytes of the text of subtitles.
pub const MOST_SUBTITLE_BYTES: usize = MOST_BYTES;

/// A subtitle file beside a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtitleFile {
    /// The file's name without folders.
    pub file: String,
    /// The properties stated by its name.
    pub named: Named,
    /// Changes with the file and its contents. ASCII letters and digits.
    pub version: String,
    /// The file's location.
    pub place: SubtitlePlace,
}

/// Location of a subtitle file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubtitlePlace {
    /// On this machine.
    Here(PathBuf),
    /// Beside the film on its server, which offers it as WebVTT under this number.
    Elsewhere(u32),
}

/// Subtitles of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtitleTrack {
    /// The number in addresses, from 1.
    pub number: u32,
    /// The name for users, unique within the film.
    pub label: String,
    /// What the file name or the film states about them.
    pub named: Named,
    /// Where they are stored.
    pub source: SubtitleSource,
}

/// Where subtitles are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubtitleSource {
    /// In a file beside the film.
    Beside(SubtitleFile),
    /// In the film, as the track at this index in [`Title::texts`].
    Inside(usize),
}

/// Why subtitles cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum SubtitleTrackError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The contents of a file cannot be shown.
    #[error("{}: {error}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: SubtitleError,
    },
    /// The text sent by another server cannot be shown.
    #[error("{file}: {error}")]
    UnusableElsewhere {
        /// The file's name there.
        file: String,
        /// The reason.
        error: SubtitleError,
    },
    /// A file on another server was not fetched.
    #[error("{file}: it was not fetched from its server")]
    NotFetched {
        /// The file's name there.
        file: String,
    },
    /// Subtitles inside the film cannot be shown.
    #[error("track {track}: {error}")]
    UnusableInside {
        /// The track's number in the film.
        track: u32,
        /// The reason.
        error: SubtitleError,
    },
    /// The film's index cannot be read, or belongs to another film.
    #[error("the film's index cannot be read")]
    NoIndex,
}

impl SubtitleTrack {
    /// Returns all subtitles of a film: the files beside it, then those inside.
    pub fn all(files: &[SubtitleFile], title: &Title) -> Vec<SubtitleTrack> {
        let beside = files
            .iter()
            .map(|file| (file.named.clone(), SubtitleSource::Beside(file.clone())));
        let inside = title
            .texts
            .iter()
            .enumerate()
            .map(|(place, track)| (named_by(track), SubtitleSource::Inside(place)));
        let mut taken = BTreeSet::new();
        let found = beside.chain(inside).zip(1..);
        found
            .map(|((named, source), number)| SubtitleTrack {
                number,
                label: label(&named, &mut taken),
                named,
                source,
            })
            .collect()
    }

    /// Returns the subtitle file if it is on another server. It must be fetched before it can be
    /// read.
    pub fn elsewhere(&self) -> Option<&SubtitleFile> {
        match &self.source {
            SubtitleSource::Beside(file) => {
                matches!(file.place, SubtitlePlace::Elsewhere(_)).then_some(file)
            }
            SubtitleSource::Inside(_) => None,
        }
    }

    /// Reads the subtitles, which may block. `title` is the film's, `fetched` the text from another
    /// server if they are [`elsewhere`](SubtitleTrack::elsewhere).
    ///
    /// # Errors
    /// They cannot be read, or contain no text.
    pub fn read(
        &self,
        title: &Title,
        fetched: Option<&str>,
    ) -> Result<Subtitles, SubtitleTrackError> {
        match &self.source {
            SubtitleSource::Beside(file) => match (&file.place, fetched) {
                (SubtitlePlace::Here(path), _) => read_file(path, self.named.format),
                (SubtitlePlace::Elsewhere(_), Some(text)) => read(Format::WebVtt, text.as_bytes())
                    .map_err(|error| {
                        let file = file.file.clone();
                        SubtitleTrackError::UnusableElsewhere { file, error }
                    }),
                (SubtitlePlace::Elsewhere(_), None) => {
                    let file = file.file.clone();
                    Err(SubtitleTrackError::NotFetched { file })
                }
            },
            SubtitleSource::Inside(place) => {
                let track = title.texts.get(*place).ok_or(SubtitleTrackError::NoIndex)?;
                let text = track.document.read().ok_or(SubtitleTrackError::NoIndex)?;
                read(self.named.format, &text).map_err(|error| {
                    let track = track.id;
                    SubtitleTrackError::UnusableInside { track, error }
                })
            }
        }
    }
}

fn read_file(path: &Path, format: Format) -> Result<Subtitles, SubtitleTrackError> {
    let of = || path.to_owned();
    let mut bytes = Vec::new();
    File::open(path)
        // One byte more than is allowed shows that the file is too long.
        .and_then(|file| file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| SubtitleTrackError::Unreadable { path: of(), error })?;
    read(format, &bytes).map_err(|error| SubtitleTrackError::Unusable { path: of(), error })
}

/// Returns the properties that a track inside a film states. In many films, only its name says for
/// whom it is.
fn named_by(track: &TextTrack) -> Named {
    let name = track.name.as_deref().unwrap_or_default();
    let words = name.split(|char: char| !char.is_alphanumeric());
    let has = |wanted: &str| words.clone().any(|word| word.eq_ignore_ascii_case(wanted));
    Named {
        format: match track.form {
            TextForm::SubRip => Format::SubRip,
            TextForm::WebVtt => Format::WebVtt,
            TextForm::Ass => Format::Ass,
        },
        language: track.language.as_deref().and_then(bcp47),
        forced: track.forced || has("forced"),
        default: track.default,
        sdh: track.sdh || has("sdh"),
        label: track.name.clone(),
    }
}

/// Returns whether a file has the extension of a subtitle file.
pub(crate) fn is_subtitles(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.and_then(Format::of_extension).is_some()
}

/// Returns the part of a name before its last dot.
fn stem(path: &Path) -> Option<&str> {
    path.file_stem()?.to_str()
}

/// A subtitle file found by a scan.
pub(crate) struct Beside {
    path: PathBuf,
    version: String,
}

impl Beside {
    /// A copy with the same name, size and time has the same version, so mirrors of an origin may
    /// share it.
    pub fn new(path: PathBuf, metadata: &Metadata) -> Beside {
        let FileIdentity { size, mtime_ns, .. } = FileIdentity::from(metadata);
        let mut hash = Xxh3::new();
        hash.update(&size.to_le_bytes());
        hash.update(&mtime_ns.to_le_bytes());
        hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        Beside {
            path,
            version: format!("{:016x}", hash.digest()),
        }
    }
}

/// Assigns the subtitle files in a folder to its films, by the films' indices in `films`.
/// `film.part.srt` belongs to `film.part.mp4` if that exists, and otherwise to `film.mp4`. Films
/// that differ only in their extension share their files.
pub(crate) fn of_folder<'a>(
    films: impl Iterator<Item = &'a Path>,
    mut beside: Vec<Beside>,
) -> HashMap<usize, Vec<SubtitleFile>> {
    let mut found: HashMap<usize, Vec<SubtitleFile>> = HashMap::new();
    if beside.is_empty() {
        return found;
    }
    let mut by_stem: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, film) in films.enumerate() {
        if let Some(stem) = stem(film) {
            by_stem.entry(stem).or_default().push(place);
        }
    }
    beside.sort_by(|a, b| a.path.cmp(&b.path));
    for Beside { path, version } in beside {
        let (Some(name), Some(mut film)) = (path.file_name().and_then(OsStr::to_str), stem(&path))
        else {
            continue;
        };
        while !by_stem.contains_key(film) {
            match film.rsplit_once('.') {
                Some((shorter, _)) => film = shorter,
                None => break,
            }
        }
        let Some(named) = named(film, name) else {
            continue;
        };
        for place in by_stem.get(film).into_iter().flatten() {
            let of_film = found.entry(*place).or_default();
            if of_film.len() < MOST_SUBTITLE_FILES {
                of_film.push(SubtitleFile {
                    file: name.to_owned(),
                    named: named.clone(),
                    version: version.clone(),
                    place: SubtitlePlace::Here(path.clone()),
                });
            }
        }
    }
    found
}

/// Returns a name for users that is not taken yet.
fn label(named: &Named, taken: &mut BTreeSet<String>) -> String {
    let own = named.label.as_deref().unwrap_or_default().to_lowercase();
    let unless_said =
        |is: bool, word: &'static str| (is && !own.contains(&word.to_lowercase())).then_some(word);
    let mut words: Vec<&str> = named.language.as_deref().into_iter().collect();
    words.extend(named.label.as_deref());
    words.extend(unless_said(named.forced, "forced"));
    words.extend(unless_said(named.sdh, "SDH"));
    let base = match words.is_empty() {
        true => "Subtitles".to_owned(),
        false => words.join(" "),
    };
    let mut unique = base.clone();
    let mut number = 1;
    while !taken.insert(unique.clone()) {
        number += 1;
        unique = format!("{base} ({number})");
    }
    unique
}

#[cfg(test)]
mod tests {
    use reelway_media::Document;

    use super::*;

    fn found(films: &[&str], beside: &[&str]) -> Vec<(usize, Vec<(String, String)>)> {
        let paths = |names: &[&str]| -> Vec<PathBuf> {
            let paths = names.iter().map(|name| Path::new("/films").join(name));
            paths.collect()
        };
        let films = paths(films);
        let beside = paths(beside).into_iter().map(|path| Beside {
            path,
            version: "1".to_owned(),
        });
        let found = of_folder(films.iter().map(PathBuf::as_path), beside.collect());
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(place, files)| {
                let all = SubtitleTrack::all(&files, &Title::new(Vec::new()));
                let files = files.iter().zip(all);
                let files = files.map(|(file, track)| (file.file.clone(), track.label));
                (place, files.collect())
            })
            .collect();
        found.sort();
        found
    }

    fn file(name: &str, label: &str) -> (String, String) {
        (name.to_owned(), label.to_owned())
    }

    #[test]
    fn subtitles_belong_to_the_film_whose_name_theirs_begins_with() {
        let films = ["film.mp4", "film.part2.mkv", "film.avi", "other.mp4"];
        let beside = [
            "film.srt",
            "film.en.srt",
            "film.en.forced.vtt",
            "film.part2.de.srt",
            "filmed.srt",
            "nothing.srt",
        ];
        let film = vec![
            file("film.en.forced.vtt", "en forced"),
            file("film.en.srt", "en"),
            file("film.srt", "Subtitles"),
        ];
        let part2 = vec![file("film.part2.de.srt", "de")];
        assert_eq!(
            found(&films, &beside),
            [(0, film.clone()), (1, part2), (2, film)]
        );
    }

    #[test]
    fn a_file_with_other_contents_has_another_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("film.srt");
        let version = |path: &Path| {
            let metadata = std::fs::metadata(path).unwrap();
            Beside::new(path.to_owned(), &metadata).version
        };
        std::fs::write(&path, "a").unwrap();
        let short = version(&path);
        std::fs::write(&path, "ab").unwrap();
        let long = version(&path);
        assert_ne!(short, long);
        let other = dir.path().join("film.en.srt");
        std::fs::rename(&path, &other).unwrap();
        assert_ne!(version(&other), long);
        assert!(short.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn two_of_one_language_have_names_of_their_own() {
        let files = vec![file("film.de.srt", "de"), file("film.ger.srt", "de (2)")];
        assert_eq!(
            found(&["film.mp4"], &["film.ger.srt", "film.de.srt"]),
            [(0, files)]
        );
    }

    #[test]
    fn what_is_inside_follows_what_is_beside_and_says_what_it_is() {
        let inside = |language: &str, name: &str| TextTrack {
            id: 3,
            form: TextForm::Ass,
            language: Some(language.into()),
            name: Some(name.into()).filter(|name: &String| !name.is_empty()),
            default: false,
            forced: false,
            sdh: false,
            document: Document::new(Vec::new()),
        };
        let title = Title {
            texts: vec![
                inside("ger", ""),
                inside("deu", "Forced (signs)"),
                inside("eng", "English [SDH]"),
                inside("und", ""),
            ],
            ..Title::new(Vec::new())
        };
        let beside = SubtitleFile {
            file: "film.de.srt".to_owned(),
            named: named("film", "film.de.srt").expect("its subtitles"),
            version: "1".to_owned(),
            place: SubtitlePlace::Elsewhere(1),
        };
        let all = SubtitleTrack::all(&[beside], &title);
        let said: Vec<_> = all
            .iter()
            .map(|track| {
                (
                    track.number,
                    track.label.as_str(),
                    track.named.forced,
                    track.named.sdh,
                )
            })
            .collect();
        let expected = [
            (1, "de", false, false),
            (2, "de (2)", false, false),
            (3, "de Forced (signs)", true, false),
            (4, "en English [SDH]", false, true),
            (5, "Subtitles", false, false),
        ];
        assert_eq!(said, expected);
        let error = all[1].read(&title, None).expect_err("no text").to_string();
        assert_eq!(error, "track 3: there is no cue in it");
        let none = Title::new(Vec::new());
        let of_none = all[1].read(&none, None).expect_err("no track");
        assert!(matches!(of_none, SubtitleTrackError::NoIndex));
        let of_server = |fetched| {
            all[0]
                .read(&title, fetched)
                .map_err(|error| error.to_string())
        };
        let text = "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\nHallo\n";
        assert_eq!(of_server(Some(text)).expect("a cue").cues.len(), 1);
        let wrong = of_server(Some("WEBVTT\n")).expect_err("no cue");
        assert_eq!(wrong, "film.de.srt: there is no cue in it");
        assert!(of_server(None).is_err());
        let fetched = all.iter().map(|track| track.elsewhere().is_some());
        assert_eq!(
            fetched.collect::<Vec<_>>(),
            [true, false, false, false, false]
        );
    }
}

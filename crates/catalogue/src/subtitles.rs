//! Subtitles of a film, in files beside it and inside its own: which belong to which film, and how people know them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use reelway_media::{TextForm, TextTrack, Title, bcp47};
use reelway_subtitles::{Format, MOST_BYTES, Named, SubtitleError, Subtitles, named, read};

/// Files beside one film that are offered, at most.
const MOST: usize = 32;

/// A file of subtitles beside a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtitleFile {
    /// Where it is.
    pub path: PathBuf,
    /// What its name says.
    pub named: Named,
}

/// Subtitles of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtitleTrack {
    /// By which addresses name them, from 1 on.
    pub number: u32,
    /// What people call them; no others of the film have this name.
    pub label: String,
    /// What is known of them: by the file's name, or by what the film says.
    pub named: Named,
    /// Where they are.
    pub source: SubtitleSource,
}

/// Where subtitles are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubtitleSource {
    /// In a file beside the film.
    Beside(PathBuf),
    /// In the film, as the track of this place in [`Title::texts`].
    Inside(usize),
}

/// Why subtitles are not shown.
#[derive(Debug, thiserror::Error)]
pub enum SubtitleTrackError {
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is in a file cannot be shown.
    #[error("{}: {error}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: SubtitleError,
    },
    /// What is in the film cannot be shown.
    #[error("track {track}: {error}")]
    UnusableInside {
        /// Its number in the film.
        track: u32,
        /// Why.
        error: SubtitleError,
    },
    /// The film's index cannot be read, or is another one.
    #[error("the film's index cannot be read")]
    NoIndex,
}

impl SubtitleTrack {
    /// All of a film's: the files beside it, then what is inside.
    pub fn all(files: &[SubtitleFile], title: &Title) -> Vec<SubtitleTrack> {
        let beside = files.iter().map(|file| {
            (
                file.named.clone(),
                SubtitleSource::Beside(file.path.clone()),
            )
        });
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

    /// Reads them, which may take time; `title` is the film's.
    ///
    /// # Errors
    /// They cannot be read, or there is no text in them.
    pub fn read(&self, title: &Title) -> Result<Subtitles, SubtitleTrackError> {
        match &self.source {
            SubtitleSource::Beside(path) => read_file(path, self.named.format),
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
        // One byte more than is allowed tells that there are more.
        .and_then(|file| file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| SubtitleTrackError::Unreadable { path: of(), error })?;
    read(format, &bytes).map_err(|error| SubtitleTrackError::Unusable { path: of(), error })
}

/// What a track inside a film says of itself. Many say in their name alone for whom they are.
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

/// Whether a file's name is that of subtitles.
pub(crate) fn is_subtitles(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    extension.and_then(Format::of_extension).is_some()
}

/// The part of a name before its last dot.
fn stem(path: &Path) -> Option<&str> {
    path.file_stem()?.to_str()
}

/// Which of the files of subtitles in a folder belong to which of its films, by the films' places in `films`. `film.part.srt`
/// belongs to `film.part.mp4` if there is one, and to `film.mp4` otherwise; films that differ in their extension share what
/// they have.
pub(crate) fn of_folder<'a>(
    films: impl Iterator<Item = &'a Path>,
    mut beside: Vec<PathBuf>,
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
    beside.sort();
    for path in beside {
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
            if of_film.len() < MOST {
                of_film.push(SubtitleFile {
                    path: path.clone(),
                    named: named.clone(),
                });
            }
        }
    }
    found
}

/// A name for people that is not taken yet.
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
        let found = of_folder(films.iter().map(PathBuf::as_path), paths(beside));
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let mut found: Vec<_> = found
            .into_iter()
            .map(|(place, files)| {
                let all = SubtitleTrack::all(&files, &Title::new(Vec::new()));
                let files = files.iter().zip(all);
                let files = files.map(|(file, track)| (name(&file.path), track.label));
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
            path: "/films/film.de.srt".into(),
            named: named("film", "film.de.srt").expect("its subtitles"),
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
        let error = all[1].read(&title).expect_err("no text").to_string();
        assert_eq!(error, "track 3: there is no cue in it");
        let of_none = all[1].read(&Title::new(Vec::new())).expect_err("no track");
        assert!(matches!(of_none, SubtitleTrackError::NoIndex));
    }
}

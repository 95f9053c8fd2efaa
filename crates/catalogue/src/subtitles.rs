//! Files of subtitles beside films: which belong to which film, and how people know them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use reelway_subtitles::{Format, MOST_BYTES, Named, SubtitleError, Subtitles, named, read};

/// Files beside one film that are offered, at most.
const MOST: usize = 32;

/// A file of subtitles beside a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtitleFile {
    /// By which addresses name it, from 1 on.
    pub number: u32,
    /// Where it is.
    pub path: PathBuf,
    /// What people call it; no other of the film has this name.
    pub label: String,
    /// What its name says.
    pub named: Named,
}

/// Why a file of subtitles is not played.
#[derive(Debug, thiserror::Error)]
pub enum SubtitleFileError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is in it cannot be shown.
    #[error("{}: {error}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: SubtitleError,
    },
}

impl SubtitleFile {
    /// Reads the file, which may take time.
    ///
    /// # Errors
    /// It cannot be read, or has no subtitles in it.
    pub fn read(&self) -> Result<Subtitles, SubtitleFileError> {
        let path = || self.path.clone();
        let mut bytes = Vec::new();
        File::open(&self.path)
            // One byte more than is allowed tells that there are more.
            .and_then(|file| file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| SubtitleFileError::Unreadable {
                path: path(),
                error,
            })?;
        read(self.named.format, &bytes).map_err(|error| SubtitleFileError::Unusable {
            path: path(),
            error,
        })
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
                    number: of_film.len() as u32 + 1,
                    path: path.clone(),
                    label: String::new(),
                    named: named.clone(),
                });
            }
        }
    }
    found.values_mut().for_each(|files| label(files));
    found
}

/// Gives each a name that no other has.
fn label(files: &mut [SubtitleFile]) {
    let mut taken = BTreeSet::new();
    for file in files {
        let named = &file.named;
        let mut words: Vec<&str> = named.language.as_deref().into_iter().collect();
        words.extend(named.label.as_deref());
        words.extend(named.forced.then_some("forced"));
        words.extend(named.sdh.then_some("SDH"));
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
        file.label = unique;
    }
}

#[cfg(test)]
mod tests {
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
                let files = files
                    .iter()
                    .map(|file| (name(&file.path), file.label.clone()));
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
}

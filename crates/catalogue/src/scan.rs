//! Scans the film directories.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use reelway_sys::FileIdentity;
use reelway_sys::parts::{self, Vob};
use tracing::warn;

use crate::naming::{is_film, path_text};
use crate::shelf::FoundFilm;
use crate::subtitles::{self, Beside, is_subtitles};

/// Maximum nesting of folders.
const MAX_DEPTH: usize = 64;
/// Maximum number of films on a server. Further films are left out with a warning.
const MAX_FILMS: usize = 1_000_000;

/// The result of a scan, and what could not be read.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub films: Vec<FoundFilm>,
    /// Every folder passed; all of them are watched.
    pub folders: Vec<PathBuf>,
    /// Folders and files that could not be read, with the reasons.
    pub problems: Vec<(PathBuf, String)>,
}

/// Scans `roots` (folders, or single film files). Symbolic links are followed. A folder is not
/// entered twice, which ends loops.
pub(crate) fn scan(roots: &[PathBuf]) -> Scan {
    let mut scan = Scan::default();
    let mut passed = HashSet::new();
    for root in roots {
        match fs::metadata(root) {
            Ok(metadata) if metadata.is_dir() && !parts::are_at(root) => {
                walk(root, root, 0, &mut passed, &mut scan);
            }
            Ok(metadata) => {
                if metadata.is_dir() {
                    scan.folders.push(root.clone());
                }
                let file = path_text(Path::new(root.file_name().unwrap_or(root.as_os_str())));
                let beside = root.parent().map(beside).unwrap_or_default();
                let only = subtitles::of_folder([root.as_path()].into_iter(), beside);
                scan.films.push(FoundFilm {
                    path: root.clone(),
                    file,
                    identity: parts::identity(root).unwrap_or(FileIdentity::from(&metadata)),
                    via: Vec::new(),
                    subtitles: only.into_values().next().unwrap_or_default(),
                    report: None,
                    problem: None,
                    closed: None,
                });
            }
            Err(error) => scan.problems.push((root.clone(), error.to_string())),
        }
    }
    // The order of names must not depend on the file system.
    scan.films.sort_by(|a, b| a.file.cmp(&b.file));
    scan
}

fn walk(
    root: &Path,
    folder: &Path,
    depth: usize,
    passed: &mut HashSet<(u64, u64)>,
    scan: &mut Scan,
) {
    let identity = match fs::metadata(folder) {
        Ok(metadata) => (metadata.dev(), metadata.ino()),
        Err(error) => return scan.problems.push((folder.to_owned(), error.to_string())),
    };
    if !passed.insert(identity) {
        return;
    }
    if depth > MAX_DEPTH {
        return scan.problems.push((
            folder.to_owned(),
            format!("folders are followed {MAX_DEPTH} deep"),
        ));
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return scan.problems.push((folder.to_owned(), error.to_string())),
    };
    scan.folders.push(folder.to_owned());
    let mut beside = Vec::new();
    let (mut films, mut several) = (Vec::new(), Vec::new());
    for entry in entries.flatten() {
        let path = entry.path();
        // Hidden files are partial downloads, resource forks or trash, not films.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Follows links. A broken or circular link is a problem only if it has the name of a film.
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => {
                if is_film(&path) {
                    scan.problems.push((path, error.to_string()));
                }
                continue;
            }
        };
        if metadata.is_dir() && !parts::is_folder(&entry.file_name()) {
            walk(root, &path, depth + 1, passed, scan);
        } else if metadata.is_dir() {
            // Watched because its files make up the film.
            scan.folders.push(path.clone());
            several.push(path);
        } else if let Some(vob) = Vob::of(&entry.file_name()).filter(|vob| vob.is_in_parts(&path)) {
            if vob.number == 1 {
                several.push(path);
            }
        } else if metadata.is_file() && is_film(&path) {
            if scan.films.len() + films.len() + several.len() >= MAX_FILMS {
                warn!(folder = %folder.display(), "more than {MAX_FILMS} films: the rest is skipped");
                break;
            }
            let file = path_text(path.strip_prefix(root).unwrap_or(&path));
            films.push(FoundFilm {
                path,
                file,
                identity: FileIdentity::from(&metadata),
                via: Vec::new(),
                subtitles: Vec::new(),
                report: None,
                problem: None,
                closed: None,
            });
        } else if metadata.is_file() && is_subtitles(&path) {
            beside.push(Beside::new(path, &metadata));
        }
    }
    for path in several {
        match parts::identity(&path) {
            Ok(identity) => films.push(FoundFilm {
                file: path_text(&named(path.strip_prefix(root).unwrap_or(&path))),
                path,
                identity,
                via: Vec::new(),
                subtitles: Vec::new(),
                report: None,
                problem: None,
                closed: None,
            }),
            Err(error) => scan.problems.push((path, error.to_string())),
        }
    }
    let of_films = subtitles::of_folder(films.iter().map(|film| film.path.as_path()), beside);
    for (place, files) in of_films {
        films[place].subtitles = files;
    }
    scan.films.append(&mut films);
}

/// Returns the path that names a film in several files. For the VOBs of a title, this is the common
/// part of their names.
fn named(path: &Path) -> PathBuf {
    match Vob::of(path.file_name().unwrap_or_default()) {
        Some(vob) => path.with_file_name(format!("{}.VOB", vob.title)),
        None => path.to_owned(),
    }
}

/// Returns the subtitle files in a folder.
fn beside(folder: &Path) -> Vec<Beside> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries
        .map(|entry| entry.path())
        .filter(|path| is_subtitles(path));
    let files = paths.filter_map(|path| {
        let metadata = fs::metadata(&path).ok()?;
        metadata.is_file().then(|| Beside::new(path, &metadata))
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nested_folders_are_walked_and_loops_end() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(deep.join("film.mp4"), b"x").unwrap();
        fs::write(deep.join("notes.txt"), b"x").unwrap();
        fs::write(deep.join(".hidden.mp4"), b"x").unwrap();
        symlink(dir.path(), deep.join("loop")).unwrap();
        symlink("nowhere", deep.join("self.mp4")).unwrap();
        let scan = scan(&[dir.path().to_owned()]);
        assert_eq!(
            scan.films
                .iter()
                .map(|film| film.file.as_str())
                .collect::<Vec<_>>(),
            ["a/b/film.mp4"]
        );
        assert_eq!(scan.folders.len(), 3);
        assert_eq!(
            scan.problems.len(),
            1,
            "the broken link is told: {:?}",
            scan.problems
        );
    }

    #[test]
    fn a_missing_directory_is_a_problem_not_a_panic() {
        let scan = scan(&[PathBuf::from("/nonexistent/films")]);
        assert!(scan.films.is_empty());
        assert_eq!(scan.problems.len(), 1);
    }
}

//! Names of films: the path below the film directory without its extension. If two films would
//! share a name, the extension is kept.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Extensions of film files, in lower case. Some are listed only so that users learn why the films
/// do not play.
pub(crate) const FILM_EXTENSIONS: [&str; 31] = [
    "mp4", "m4v", "m4a", "m4b", "mov", "3gp", "3g2", "cmfv", "cmfa", "f4v", "ismv", "mkv", "webm",
    "mka", "ts", "m2ts", "mts", "avi", "mpg", "mpeg", "vob", "flv", "m1v", "m2v", "mpv", "264",
    "h264", "avc", "265", "h265", "hevc",
];

/// Returns whether a path has the extension of a film.
pub fn is_film(path: &Path) -> bool {
    path.extension().is_some_and(|extension| {
        FILM_EXTENSIONS
            .iter()
            .any(|known| extension.as_bytes().eq_ignore_ascii_case(known.as_bytes()))
    })
}

/// Converts a path to text for use in an address: bytes that are not UTF-8 become `\xNN`.
pub(crate) fn path_text(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for component in path.components() {
        if let Component::Normal(part) = component {
            parts.push(
                part.as_bytes()
                    .utf8_chunks()
                    .fold(String::new(), |mut text, chunk| {
                        text.push_str(chunk.valid());
                        for byte in chunk.invalid() {
                            let _ = write!(text, "\\x{byte:02X}");
                        }
                        text
                    }),
            );
        }
    }
    parts.join("/")
}

/// Returns a unique name for the film at each of these paths (each below its film directory).
pub(crate) fn names(files: &[String]) -> Vec<String> {
    let stems: Vec<&str> = files.iter().map(|file| stem(file)).collect();
    let mut uses: HashMap<String, usize> = HashMap::new();
    for stem in &stems {
        *uses.entry(stem.to_string()).or_default() += 1;
    }
    let mut taken: HashMap<String, usize> = HashMap::new();
    files
        .iter()
        .zip(stems)
        .map(|(file, stem)| {
            let name = if uses[stem] > 1 { file.as_str() } else { stem };
            // If two film directories contain the same path, the later directory's film is
            // numbered.
            let count = taken
                .entry(name.to_owned())
                .and_modify(|count| *count += 1)
                .or_insert(1);
            if *count == 1 {
                name.to_owned()
            } else {
                format!("{name}~{count}")
            }
        })
        .collect()
}

fn stem(file: &str) -> &str {
    match file.rfind('.') {
        Some(dot) if dot > file.rfind('/').map_or(0, |slash| slash + 1) => &file[..dot],
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_film_is_named_by_its_path_without_extension() {
        let files = ["a.mp4", "b/c d.mov", "b/.mp4", "100%.x/ü.mp4"].map(String::from);
        assert_eq!(names(&files), ["a", "b/c d", "b/.mp4", "100%.x/ü"]);
    }

    #[test]
    fn films_that_would_share_a_name_keep_their_extensions() {
        let files = ["a.mp4", "a.mov", "b.mp4"].map(String::from);
        assert_eq!(names(&files), ["a.mp4", "a.mov", "b"]);
        let twice = ["a.mp4", "a.mp4"].map(String::from);
        assert_eq!(names(&twice), ["a.mp4", "a.mp4~2"]);
    }

    #[test]
    fn bytes_that_are_not_text_are_shown_as_such() {
        assert_eq!(
            path_text(Path::new(OsStr::from_bytes(b"d/caf\xe9.mp4"))),
            "d/caf\\xE9.mp4"
        );
    }

    #[test]
    fn films_are_known_by_extension_in_any_case() {
        assert!(is_film(Path::new("x/Y.MP4")));
        assert!(!is_film(Path::new("x/notes.txt")));
        assert!(!is_film(Path::new("mp4")));
    }
}

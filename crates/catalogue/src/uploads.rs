//! Uploads to the film directories on this machine: where a title's file lies, and whether a file
//! is a film.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use reelway_media::{IndexError, IndexErrorKind, IndexOptions, ReadIndexError, index_with};
use reelway_sys::FileIdentity;
use reelway_sys::files::room;
use reelway_sys::parts;

use crate::below::{Below, file_below, folder_below};
use crate::directory::Directory;
use crate::indexing::{IndexingError, foreign_container, index_file};
use crate::intake::{Destination, Intake};
use crate::intake_error::IntakeError;
use crate::scan::scan;

/// Maximum bytes in a part of a title. With the extension it must fit in a file name (255 bytes on
/// Linux).
const LONGEST_PART: usize = 240;
/// Maximum number of parts in a title.
const MOST_PARTS: usize = 16;

impl Intake for Directory {
    fn present(&self, title: &str) -> Option<Destination> {
        let entry = self.shared.entry(title)?;
        let (folder, name) = file_below(self.films(), &entry.path)?;
        Some(Destination {
            folder,
            name,
            present: Some(entry.identity),
        })
    }

    fn place(&self, title: &str) -> Result<Destination, IntakeError> {
        if let Some(place) = self.present(title) {
            place.check_is_one_file()?;
            if let Some(reason) = foreign_container(Path::new(&place.name)) {
                return Err(IntakeError::Taken {
                    path: place.path(),
                    reason: format!("{reason}; delete it to put another in its place"),
                });
            }
            // Fails before the first byte is received.
            place.folder.open()?;
            return Ok(place);
        }
        check_title(title)?;
        let folders = self.films().iter();
        let folders = folders.filter(|film| film.is_dir() && !parts::are_at(film));
        // Of several disks, the one with the most free space.
        let root = folders.max_by_key(|folder| room(folder).unwrap_or(0));
        let root = root.ok_or(IntakeError::NoFolder)?;
        let way = PathBuf::from(format!("{title}.mp4"));
        let (folder, name) = (way.parent(), way.file_name().map(OsString::from));
        let place = Destination {
            folder: Below::new(root, folder.unwrap_or(Path::new(""))),
            name: name.unwrap_or_default(),
            present: None,
        };
        match place.folder.open() {
            Ok(folder) if folder.has(&place.name).unwrap_or(true) => Err(IntakeError::Taken {
                path: place.path(),
                reason: "there already, as a film of another title or not listed yet".into(),
            }),
            Err(link @ IntakeError::Link { .. }) => Err(link),
            // Other problems with the folder are found when it is created.
            _ => Ok(place),
        }
    }

    fn judge(
        &self,
        title: &str,
        file: &File,
        place: &Destination,
    ) -> Result<FileIdentity, IndexingError> {
        let path = place.path();
        let (identity, index) = index_file(file, &path, self.options, self.shared.scratch())?;
        self.shared.keep(title, &path, identity, (index, None));
        Ok(identity)
    }

    fn look_again(&self) {
        self.wake();
    }

    fn folders(&self) -> Vec<Below> {
        let folders = scan(self.films()).folders;
        let below = folders
            .iter()
            .filter_map(|folder| folder_below(self.films(), folder));
        below.collect()
    }
}

/// Checks whether the beginning of a file of `len` bytes can be that of a film. `read` fails for
/// bytes that have not been received yet.
pub fn judge_beginning(
    len: u64,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> Result<(), IndexError> {
    let read = |range: std::ops::Range<u64>, bytes: &mut Vec<u8>| {
        bytes.resize((range.end - range.start) as usize, 0);
        read(range.start, bytes)
    };
    match index_with(read, len, IndexOptions::default()) {
        Err(ReadIndexError::Film(error)) if error.kind != IndexErrorKind::Incomplete => Err(error),
        // Missing bytes cannot be judged.
        _ => Ok(()),
    }
}

fn check_title(title: &str) -> Result<(), IntakeError> {
    let refuse = |reason| {
        Err(IntakeError::Title {
            title: title.to_owned(),
            reason,
        })
    };
    if title.split('/').count() > MOST_PARTS {
        return refuse("too many folders");
    }
    for part in title.split('/') {
        if part.is_empty() {
            return refuse("a part of it is empty");
        }
        if part.starts_with('.') {
            return refuse("files whose names begin with a dot are hidden");
        }
        if part.len() > LONGEST_PART {
            return refuse("a part of it is longer than 240 bytes");
        }
        if part.chars().any(char::is_control) {
            return refuse("it has control characters");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::config::DirectoryConfig;

    #[test]
    fn titles_stay_inside_the_film_directory() {
        for title in [
            "..", "a/../b", "", "/a", "a/", "a//b", ".hidden", "a/.b", "a\0b", "a\nb",
        ] {
            assert!(check_title(title).is_err(), "{title:?}");
        }
        assert!(check_title(&"x/".repeat(40)).is_err());
        assert!(check_title(&"x".repeat(241)).is_err());
        for title in ["a", "a/b c", "ü/🎬 #1", "100% \"sure\"?", "a.b", "x\\..\\y"] {
            assert!(check_title(title).is_ok(), "{title:?}");
        }
    }

    #[test]
    fn a_new_title_goes_into_the_film_directory_and_never_over_another_film() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.mp4"), b"x").unwrap();
        fs::write(dir.path().join("a.mov"), b"x").unwrap();
        fs::write(dir.path().join("b.avi"), b"x").unwrap();
        let library = Directory::open(DirectoryConfig {
            films: vec![dir.path().to_owned()],
            ..DirectoryConfig::default()
        });
        let place = library.place("new/film").unwrap();
        assert_eq!(place.path(), dir.path().join("new/film.mp4"));
        assert_eq!(place.present, None);
        let taken = |title: &str| matches!(library.place(title), Err(IntakeError::Taken { .. }));
        assert!(taken("a"), "a.mp4 is the film 'a.mp4' here");
        assert!(taken("b"), "AVI by its name");
        assert!(library.place("a.mov").unwrap().present.is_some());
        let below = library.place("a.mp4/film").unwrap().folder.make();
        assert!(matches!(below, Err(IntakeError::Taken { .. })), "{below:?}");
    }

    #[test]
    fn where_only_single_films_are_served_there_is_no_place_for_others() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.mp4"), b"x").unwrap();
        let library = Directory::open(DirectoryConfig {
            films: vec![dir.path().join("a.mp4")],
            ..DirectoryConfig::default()
        });
        assert!(matches!(library.place("b"), Err(IntakeError::NoFolder)));
        assert!(library.place("a").unwrap().present.is_some());
    }

    #[test]
    fn films_behind_links_are_listed_and_never_written() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(elsewhere.path().join("theirs.mp4"), b"x").unwrap();
        symlink(elsewhere.path(), dir.path().join("link")).unwrap();
        symlink(
            elsewhere.path().join("theirs.mp4"),
            dir.path().join("one.mp4"),
        )
        .unwrap();
        let open = |films: Vec<PathBuf>| {
            Directory::open(DirectoryConfig {
                films,
                ..DirectoryConfig::default()
            })
        };
        let library = open(vec![dir.path().to_owned()]);
        let refused = |title: &str| matches!(library.place(title), Err(IntakeError::Link { .. }));
        assert!(refused("link/theirs") && refused("link/new") && refused("link/new/deeper"));
        let place = library.present("link/theirs").unwrap();
        assert!(matches!(place.folder.open(), Err(IntakeError::Link { .. })));
        // A film that is itself a link: its name is in the directory and can be assigned to another
        // file.
        assert!(library.place("one").unwrap().folder.open().is_ok());
        let writable = |library: &Directory| {
            let folders = library.folders();
            folders
                .iter()
                .filter(|folder| folder.open().is_ok())
                .count()
        };
        assert_eq!((library.folders().len(), writable(&library)), (2, 1));
        // A directory that the operator named is like any other film directory, even behind a link.
        let library = open(vec![dir.path().to_owned(), dir.path().join("link")]);
        assert!(library.place("link/theirs").unwrap().folder.open().is_ok());
    }

    #[test]
    fn what_is_no_film_is_known_by_its_beginning() {
        let text = b"It was a dark and stormy night; the rain fell in torrents.".repeat(100);
        let read = |from: &[u8], at: u64, into: &mut [u8]| {
            let piece = from.get(at as usize..at as usize + into.len());
            into.copy_from_slice(piece.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        };
        assert!(judge_beginning(1 << 30, |at, into| read(&text, at, into)).is_err());
        // A beginning whose tables are at the end: nothing can be judged yet.
        let mut film = b"\x00\x00\x00\x10ftypisom\0\0\0\0".to_vec();
        film.extend(b"\x3f\x00\x00\x00mdat");
        assert!(judge_beginning(1 << 30, |at, into| read(&film, at, into)).is_ok());
    }
}

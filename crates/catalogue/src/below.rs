//! Folders inside the film directories, as seen by uploads: below a directory that the operator
//! named, and never through a symbolic link.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use reelway_sys::folder::{Folder, is_link_in_the_way};

use crate::intake_error::IntakeError;

/// A folder inside a film directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// The film directory as the operator named it. Links in this path are followed.
    root: PathBuf,
    /// The path from `root`, names only. Empty: the film directory itself.
    way: PathBuf,
}

impl Below {
    pub(crate) fn new(root: &Path, way: &Path) -> Below {
        Below {
            root: root.to_owned(),
            way: way.to_owned(),
        }
    }

    /// Returns the folder's full path.
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.way)
    }

    /// Opens the folder. Returns [`IntakeError::Link`] if a symbolic link is in the way.
    pub fn open(&self) -> Result<Folder, IntakeError> {
        let opened = Folder::open(&self.root).and_then(|root| root.below(&self.way));
        opened.map_err(|error| self.error(error))
    }

    /// Opens the folder and creates the missing folders on its path.
    pub fn make(&self) -> Result<Folder, IntakeError> {
        let made = Folder::open(&self.root).and_then(|root| root.make_below(&self.way));
        made.map_err(|error| self.error(error))
    }

    fn error(&self, error: io::Error) -> IntakeError {
        let path = self.path();
        if is_link_in_the_way(&error) {
            return IntakeError::Link { path };
        }
        match error.kind() {
            // A film has the name that the folder needs.
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => IntakeError::Taken {
                path,
                reason: "a file is where a folder is needed".into(),
            },
            _ => IntakeError::Io { path, error },
        }
    }
}

/// Returns the folder and the file name of a film that was found at `path` below `roots` (film
/// directories or single films). If several directories contain it, the deepest one counts:
/// directories that the operator named are trusted.
pub(crate) fn file_below(roots: &[PathBuf], path: &Path) -> Option<(Below, OsString)> {
    let name = path.file_name()?.to_owned();
    if roots.iter().any(|root| root == path) {
        return Some((Below::new(path.parent()?, Path::new("")), name));
    }
    let folder = folder_below(roots, path.parent()?)?;
    Some((folder, name))
}

/// Returns the folder at `path`, below one of `roots`.
pub(crate) fn folder_below(roots: &[PathBuf], path: &Path) -> Option<Below> {
    let holds = |root: &&PathBuf| path.starts_with(root);
    let root = roots
        .iter()
        .filter(holds)
        .max_by_key(|root| root.components().count())?;
    Some(Below::new(root, path.strip_prefix(root).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_lies_below_the_deepest_directory_that_was_named() {
        let roots = ["/films", "/films/link", "/else/single.mp4", "here.mp4"].map(PathBuf::from);
        let at = |path: &str| {
            let (folder, name) = file_below(&roots, Path::new(path))?;
            let text = |path: &Path| path.to_str().unwrap().to_owned();
            Some((
                text(&folder.root),
                text(&folder.way),
                name.into_string().unwrap(),
            ))
        };
        let found =
            |root: &str, way: &str, name: &str| Some((root.into(), way.into(), name.into()));
        assert_eq!(at("/films/a/b.mp4"), found("/films", "a", "b.mp4"));
        assert_eq!(at("/films/link/b.mp4"), found("/films/link", "", "b.mp4"));
        assert_eq!(at("/else/single.mp4"), found("/else", "", "single.mp4"));
        assert_eq!(at("here.mp4"), found("", "", "here.mp4"));
        assert_eq!(at("/else/other.mp4"), None);
        assert_eq!(at("/filmsx/a.mp4"), None);
    }
}

//! The list of films that this server keeps on its tier. It survives a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reelway_sys::files;
use tracing::warn;

/// Maximum number of titles.
const MOST: usize = 10_000;

/// Titles of films.
pub(crate) type Titles = BTreeSet<String>;

/// The list of kept titles.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    titles: Titles,
    /// Missing bytes on the tier, for titles that have been checked.
    lacks: BTreeMap<String, u64>,
    /// Titles that have not been checked since they were added.
    new: Titles,
}

impl Kept {
    /// Reads the list from before a restart.
    pub fn of(state: &Path) -> Kept {
        let path = state.join("kept.json");
        let titles = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|error| {
                warn!("{}: {error}; no film is kept", path.display());
                BTreeSet::new()
            }),
            Err(_) => BTreeSet::new(),
        };
        Kept {
            path,
            titles,
            lacks: BTreeMap::new(),
            new: BTreeSet::new(),
        }
    }

    /// Returns all titles.
    pub fn titles(&self) -> Titles {
        self.titles.clone()
    }

    /// Returns all titles with the number of bytes that the tier lacks; `None` if not known yet.
    pub fn lacking(&self) -> Vec<(String, Option<u64>)> {
        let titles = self.titles.iter();
        let lacking = titles.map(|title| (title.clone(), self.lacks.get(title).copied()));
        lacking.collect()
    }

    /// Returns the titles that were added since the last call.
    pub fn take_new(&mut self) -> Titles {
        std::mem::take(&mut self.new)
    }

    /// Records how many bytes of a title the tier lacks.
    pub fn lacks(&mut self, title: &str, bytes: u64) {
        if self.titles.contains(title) {
            self.lacks.insert(title.to_owned(), bytes);
        }
    }

    /// Returns the list after adding or removing a title, and the path to which it must be written
    /// before it takes effect ([`Kept::set`]); `None` if nothing changes.
    ///
    /// # Errors
    /// The list is full.
    pub fn with(&self, title: &str, is_kept: bool) -> Result<Option<(PathBuf, Titles)>, String> {
        let mut titles = self.titles.clone();
        let is_other = match is_kept {
            true => titles.insert(title.to_owned()),
            false => titles.remove(title),
        };
        if titles.len() > MOST {
            return Err(format!("{MOST} films are kept already"));
        }
        Ok(is_other.then(|| (self.path.clone(), titles)))
    }

    /// Replaces the list; `title` was added or removed.
    pub fn set(&mut self, titles: Titles, title: &str) {
        self.titles = titles;
        self.lacks.remove(title);
        if self.titles.contains(title) {
            self.new.insert(title.to_owned());
        }
    }
}

/// Writes the list to its file.
///
/// # Errors
/// A description of why it cannot be written.
pub(crate) fn write(path: &Path, titles: &Titles) -> Result<(), String> {
    let written = serde_json::to_vec(titles)
        .map_err(io::Error::from)
        .and_then(|text| files::replace(path, &text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_survives_a_restart_and_a_damaged_list_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let mut kept = Kept::of(dir.path());
        let mut set = |title, is_kept| {
            let (path, titles) = kept.with(title, is_kept).unwrap().unwrap();
            write(&path, &titles).unwrap();
            kept.set(titles, title);
            assert_eq!(kept.with(title, is_kept).unwrap(), None);
        };
        set("b", true);
        set("a/\"ü\n", true);
        set("b", false);
        let again = Kept::of(dir.path()).lacking();
        assert_eq!(again, [("a/\"ü\n".to_owned(), None)]);
        fs::write(dir.path().join("kept.json"), "[\"a\"").unwrap();
        assert!(Kept::of(dir.path()).lacking().is_empty());
    }
}

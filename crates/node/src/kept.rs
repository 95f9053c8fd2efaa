//! Which films this server keeps on its tier. It survives a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reelway_sys::files;
use tracing::warn;

/// Titles that can be kept.
const MOST: usize = 10_000;

/// Titles of films.
pub(crate) type Titles = BTreeSet<String>;

/// The titles that are kept.
#[derive(Debug)]
pub(crate) struct Kept {
    path: PathBuf,
    titles: Titles,
    /// Bytes that the tier lacks of those that have been looked at.
    lacks: BTreeMap<String, u64>,
    /// Those that nobody has looked at since they are kept.
    new: Titles,
}

impl Kept {
    /// Those of the time before a restart.
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

    /// All of them.
    pub fn titles(&self) -> Titles {
        self.titles.clone()
    }

    /// All of them, with the bytes that the tier lacks of them; `None` where that is not known yet.
    pub fn lacking(&self) -> Vec<(String, Option<u64>)> {
        let titles = self.titles.iter();
        let lacking = titles.map(|title| (title.clone(), self.lacks.get(title).copied()));
        lacking.collect()
    }

    /// Those that are kept since this was asked last.
    pub fn take_new(&mut self) -> Titles {
        std::mem::take(&mut self.new)
    }

    /// The tier lacks so many bytes of a title.
    pub fn lacks(&mut self, title: &str, bytes: u64) {
        if self.titles.contains(title) {
            self.lacks.insert(title.to_owned(), bytes);
        }
    }

    /// All of them once this title is kept, too, or no longer, and where they are to be written before that holds
    /// ([`Kept::set`]); `None`: it is so already.
    ///
    /// # Errors
    /// There are too many.
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

    /// From now on these are kept; `title` was added or taken away.
    pub fn set(&mut self, titles: Titles, title: &str) {
        self.titles = titles;
        self.lacks.remove(title);
        if self.titles.contains(title) {
            self.new.insert(title.to_owned());
        }
    }
}

/// Writes the list for the time after a restart.
///
/// # Errors
/// Why it cannot be remembered, in words.
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

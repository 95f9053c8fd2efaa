//! An undo journal in a file: if a program is killed, the next one puts its settings back.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Returns the directory for state of this network namespace that lasts until the machine restarts.
///
/// # Errors
/// The directory cannot be made, or the namespace has no number.
pub fn directory(role: &str, name: &str) -> io::Result<PathBuf> {
    let namespace = std::fs::read_link("/proc/thread-self/ns/net")?;
    let namespace = namespace.to_string_lossy();
    let number: String = namespace.chars().filter(char::is_ascii_digit).collect();
    let dir = PathBuf::from(format!("/run/reelway-{role}-{number}-{name}"));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// How to put a setting back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Undo {
    /// Run this command.
    Run(Vec<String>),
    /// Restore the kernel setting to this value.
    Set { key: String, value: String },
}

/// Undo steps, in the order in which the settings were made.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Entries {
    undo: Vec<Undo>,
}

/// The journal and its file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    entries: Entries,
}

impl Journal {
    /// Opens the journal with what an earlier program left in this directory.
    pub fn open(dir: &Path) -> io::Result<Journal> {
        let path = dir.join("undo.toml");
        let entries = match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Entries::default(),
            Err(error) => return Err(error),
        };
        Ok(Journal { path, entries })
    }

    /// Records that a setting was made.
    pub fn push(&mut self, undo: Undo) -> io::Result<()> {
        if self.entries.undo.contains(&undo) {
            return Ok(());
        }
        self.entries.undo.push(undo);
        self.write()
    }

    /// Returns the number of settings to be put back.
    pub fn len(&self) -> usize {
        self.entries.undo.len()
    }

    /// Removes all but the first `stay` entries and returns them, last one first. The file is
    /// deleted if none stay.
    pub fn take(&mut self, stay: usize) -> impl Iterator<Item = Undo> {
        let stay = stay.min(self.len());
        let taken = self.entries.undo.split_off(stay);
        let _ = match stay {
            0 => std::fs::remove_file(&self.path),
            _ => self.write(),
        };
        taken.into_iter().rev()
    }

    fn write(&self) -> io::Result<()> {
        let text = toml::to_string(&self.entries).map_err(io::Error::other)?;
        reelway_sys::files::replace(&self.path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_made_is_known_to_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Journal::open(dir.path()).unwrap();
        let command = Undo::Run(vec!["ip".into(), "link del \"x\"".into()]);
        let setting = Undo::Set {
            key: "net.ipv4.ip_forward".into(),
            value: "0\t1".into(),
        };
        let mut first = open();
        for undo in [&command, &setting, &command] {
            first.push(undo.clone()).unwrap();
        }
        drop(first);
        let mut second = open();
        assert_eq!(second.take(0).collect::<Vec<_>>(), [setting, command]);
        assert_eq!(open().take(0).count(), 0);
    }

    #[test]
    fn a_journal_that_is_none_is_said() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("undo.toml"), "undo = 1").unwrap();
        let error = Journal::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("undo"), "{error}");
    }
}

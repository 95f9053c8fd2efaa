//! Reads the files of the workspace.

use std::path::Path;

use crate::tree::Files;

/// A crate's files.
pub struct Crate {
    /// Its folder relative to the workspace's root, such as `crates/store`.
    pub folder: String,
    /// Its sources; the paths begin with the folder.
    pub files: Files,
    /// Its `Cargo.toml`.
    pub manifest: String,
}

impl Crate {
    /// The root files of its library and of its programs.
    pub fn roots(&self) -> Vec<&str> {
        let in_src = ["src/lib.rs", "src/main.rs"].map(|root| format!("{}/{root}", self.folder));
        let programs = format!("{}/src/bin", self.folder);
        self.files
            .keys()
            .filter(|path| in_src.contains(path) || is_program(path, &programs))
            .map(String::as_str)
            .collect()
    }

    /// The root files of its test programs.
    pub fn tests(&self) -> Vec<&str> {
        let tests = format!("{}/tests", self.folder);
        self.files
            .keys()
            .filter(|path| is_program(path, &tests))
            .map(String::as_str)
            .collect()
    }
}

/// Whether cargo builds a program from the file: `folder/name.rs` or `folder/name/main.rs`.
fn is_program(path: &str, folder: &str) -> bool {
    let name = path
        .strip_prefix(folder)
        .and_then(|rest| rest.strip_prefix('/'));
    match name.map(|name| name.split('/').collect::<Vec<_>>()) {
        Some(parts) => parts.len() == 1 || parts.len() == 2 && parts[1] == "main.rs",
        None => false,
    }
}

/// All crates of the workspace: those below `crates`, and `tests`.
///
/// # Errors
///
/// A file cannot be read.
pub fn crates(root: &Path) -> std::io::Result<Vec<Crate>> {
    let mut folders = vec!["tests".to_owned()];
    for entry in std::fs::read_dir(root.join("crates"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        folders.push(format!("crates/{name}"));
    }
    folders.retain(|folder| root.join(folder).join("Cargo.toml").is_file());
    folders.sort();
    let read = |folder: String| {
        let mut files = Files::new();
        for part in ["src", "tests"] {
            read_below(root, &format!("{folder}/{part}"), &mut files)?;
        }
        let manifest = std::fs::read_to_string(root.join(&folder).join("Cargo.toml"))?;
        Ok(Crate {
            folder,
            files,
            manifest,
        })
    };
    folders.into_iter().map(read).collect()
}

fn read_below(root: &Path, folder: &str, files: &mut Files) -> std::io::Result<()> {
    if !root.join(folder).is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_below(root, &path, files)?;
        } else if path.ends_with(".rs") {
            files.insert(path, std::fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

//! The files in a folder of pages.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::report::Kept;

/// Returns the path of the file with a page's figures.
pub fn figures_of(dir: &Path, page: &str) -> PathBuf {
    dir.join(format!("{page}.json"))
}

/// Reads the figures of a page; `None` if it was never measured.
///
/// # Errors
/// The file cannot be read, or does not have the format that [`crate::publish::publish`] writes.
pub fn kept(dir: &Path, page: &str) -> anyhow::Result<Option<Kept>> {
    let path = figures_of(dir, page);
    let text = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.with_context(|| path.display().to_string())?,
    };
    let kept = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(Some(kept))
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

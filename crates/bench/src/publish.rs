//! Writing what an experiment gave into the folder of pages: the page, its figures, its charts.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{Kept, Report, stamp, summary};

/// Writes DIR/NAME.md, DIR/NAME.json and the charts, and renews what summarises the folder's pages ([`summary`]).
///
/// # Errors
/// A file cannot be written, or a summary cannot be made of the folder's files.
pub fn publish(report: &mut Report, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    report.stamp.commit = stamp::commit(dir);
    let name = &report.stamp.bench;
    for (chart, svg) in &report.charts {
        let path = dir.join(chart);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        write(&path, svg)?;
    }
    write(&dir.join(format!("{name}.md")), &report.markdown())?;
    let kept = serde_json::to_string_pretty(&report.kept())? + "\n";
    write(&figures_of(dir, name), &kept)?;
    summary::renew(dir)?;
    for complaint in summary::complaints(dir)? {
        eprintln!("{}: {complaint}", dir.join("why.toml").display());
    }
    Ok(())
}

/// The file that keeps a page's figures.
pub fn figures_of(dir: &Path, page: &str) -> PathBuf {
    dir.join(format!("{page}.json"))
}

/// What the folder keeps of a page; nothing where it was never measured.
///
/// # Errors
/// The file cannot be read, or is not what [`publish`] writes.
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

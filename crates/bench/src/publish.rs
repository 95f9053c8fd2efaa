//! Writing what an experiment gave into the folder of pages: the page, its figures, its charts. Figures of other machines stay.

use std::path::Path;

use anyhow::Context;

use crate::pages::write;
pub use crate::pages::{figures_of, kept};
use crate::report::Report;
use crate::{stamp, summary};

/// Writes DIR/NAME.md, DIR/NAME.json and the charts, and renews what summarises the folder's pages ([`summary`]).
///
/// # Errors
/// A file cannot be written, or a summary cannot be made of the folder's files.
pub fn publish(report: &mut Report, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    report.stamp.commit = stamp::commit(dir);
    if let Some(before) = kept(dir, &report.stamp.bench)? {
        report.elsewhere = before.followed_by(report.kept()).elsewhere;
    }
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

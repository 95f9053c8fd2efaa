//! Writes the results of an experiment into the folder of pages: the page, its figures, its charts.
//! Figures from other machines stay.

use std::path::Path;

use anyhow::{Context, ensure};

use crate::pages::write;
pub use crate::pages::{figures_of, kept};
use crate::report::{Kept, Report};
use crate::{stamp, summary};

/// Writes DIR/NAME.md, DIR/NAME.json and the charts, and renews the folder's summaries
/// ([`summary`]).
///
/// # Errors
/// A figure is not a number, or a figure that has a goal on the page was not measured: the page
/// stays unchanged. A file cannot be written, or a summary cannot be made of the folder's files.
pub fn publish(report: &mut Report, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    report.stamp.commit = stamp::commit(dir);
    let before = kept(dir, &report.stamp.bench)?;
    is_complete(report, before.as_ref())?;
    if let Some(before) = before {
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

/// Checks whether a run may replace the previous one on its page.
fn is_complete(report: &Report, before: Option<&Kept>) -> anyhow::Result<()> {
    let page = &report.stamp.bench;
    for figure in &report.figures {
        let (low, high) = figure.spread.unwrap_or_default();
        let is_number = [figure.value, low, high].iter().all(|of| of.is_finite());
        ensure!(is_number, "{page}: '{}' is no number", figure.id);
    }
    let measured: Vec<&str> = report.figures.iter().map(|of| of.id.as_str()).collect();
    let figures = before.iter().flat_map(|before| &before.figures);
    let missing: Vec<&str> = figures
        .filter(|figure| figure.met.is_some() && !measured.contains(&figure.id.as_str()))
        .map(|figure| figure.id.as_str())
        .collect();
    ensure!(
        missing.is_empty(),
        "{page}: not measured: {}; the page stays as it is (if they are gone for good, remove {page}.json first)",
        missing.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    fn report(figures: Vec<Figure>) -> Report {
        let mut report = Report::new("page");
        report.figures = figures;
        report
    }

    #[test]
    fn a_run_that_lacks_a_figure_with_a_goal_does_not_take_the_place_of_one_that_has_it() {
        let goal = || Figure::at_most("cost", 1.0, "", 2.0);
        let free = || Figure::without_goal("most", 1.0, "");
        let before = report(vec![goal(), free()]).kept();
        is_complete(&report(vec![goal()]), Some(&before)).expect("it has all goals");
        is_complete(&report(vec![free()]), None).expect("it is the first");
        let lacks = is_complete(&report(vec![free()]), Some(&before)).expect_err("no cost");
        assert!(lacks.to_string().contains("not measured: cost;"), "{lacks}");
    }

    #[test]
    fn a_figure_that_is_no_number_is_not_written() {
        let value = Figure::without_goal("cost", f64::NAN, "");
        let spread = Figure::without_goal("cost", 1.0, "").spread(0.0, f64::INFINITY);
        for figure in [value, spread] {
            is_complete(&report(vec![figure]), None).expect_err("no number");
        }
    }
}

//! The tables that summarise a folder of pages (docs/benchmarks): one in the page beside the folder
//! (docs/benchmarks.md), one in the README. Both are generated from the kept figures; nothing in
//! them is typed by hand.
//!
//! | file in the folder | content, written by hand |
//! |---|---|
//! | `why.toml` | for each missed figure: a description, and one line with the reason |
//! | `readme.toml` | which figures the README shows, and their descriptions |

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use crate::list;
use crate::pages::{kept, write};
use crate::report::{Figure, Kept, Stamp};

/// Markers before and after the generated part of a hand-written page.
const MARKS: (&str, &str) = (
    "<!-- figures: written by reelway bench, not by hand -->",
    "<!-- end of figures -->",
);

/// One missed figure, in why.toml under "PAGE/ID".
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Missed {
    /// What is measured, in words.
    what: String,
    /// Why the goal is missed.
    why: String,
}

/// The contents of readme.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    row: Vec<Row>,
}

/// One row of the README's table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// What is measured, in words.
    what: String,
    /// The figure, "PAGE/ID".
    figure: String,
    /// Other figures, shown in brackets after it: description, and "PAGE/ID".
    #[serde(default)]
    beside: Vec<(String, String)>,
}

/// The contents of a folder of pages.
struct Folder {
    kept: Vec<(&'static str, Kept)>,
    missed: BTreeMap<String, Missed>,
    shown: Shown,
}

/// Returns messages about missing and superfluous entries of a folder's why.toml; none for a folder
/// without that file.
///
/// # Errors
/// A kept file is malformed.
pub fn complaints(dir: &Path) -> anyhow::Result<Vec<String>> {
    if !dir.join("why.toml").exists() {
        return Ok(Vec::new());
    }
    Ok(Folder::read(dir)?.complaints())
}

/// Rewrites the generated parts of `DIR.md` and of the README two folders up, if these files exist
/// and have the markers.
///
/// # Errors
/// A kept file is malformed, or a file cannot be written.
pub fn renew(dir: &Path) -> anyhow::Result<()> {
    for (path, text) in renewed(dir)? {
        write(&path, &text)?;
    }
    Ok(())
}

/// Returns the files that [`renew`] would write.
///
/// # Errors
/// The same as [`renew`].
pub fn renewed(dir: &Path) -> anyhow::Result<Vec<(std::path::PathBuf, String)>> {
    let page = dir.with_extension("md");
    let readme = dir.join("../../README.md");
    let old: Vec<_> = [page, readme]
        .into_iter()
        .map(|path| (std::fs::read_to_string(&path).unwrap_or_default(), path))
        .collect();
    if !old.iter().any(|(text, _)| text.contains(MARKS.0)) {
        // A folder outside the repository.
        return Ok(Vec::new());
    }
    let folder = Folder::read(dir)?;
    let parts = [folder.page(), folder.readme()?];
    let renewed = old
        .into_iter()
        .zip(parts)
        .filter_map(|((old, path), part)| {
            let (before, rest) = old.split_once(MARKS.0)?;
            let (_, after) = rest.split_once(MARKS.1)?;
            let text = format!("{before}{}\n\n{part}\n{}{after}", MARKS.0, MARKS.1);
            Some((path, text))
        });
    Ok(renewed.collect())
}

impl Folder {
    fn read(dir: &Path) -> anyhow::Result<Folder> {
        let mut all = Vec::new();
        for page in list().flat_map(|experiment| experiment.pages) {
            if let Some(kept) = kept(dir, page.name)? {
                all.push((page.name, kept));
            }
        }
        Ok(Folder {
            kept: all,
            missed: read(&dir.join("why.toml"))?,
            shown: read(&dir.join("readme.toml"))?,
        })
    }

    /// Returns missed figures without an entry in why.toml, and entries without a missed figure.
    fn complaints(&self) -> Vec<String> {
        let keys: Vec<String> = self.missed().map(|(key, _)| key).collect();
        let without = keys.iter().filter(|key| !self.missed.contains_key(*key));
        let stale = self.missed.keys().filter(|key| !keys.contains(key));
        let without = without.map(|key| format!("\"{key}\" is missed: add what it is and why"));
        let stale = stale.map(|key| format!("\"{key}\" is not missed: remove its entry"));
        without.chain(stale).collect()
    }

    /// Returns all missed figures with their keys, each from the machine where it is worst.
    fn missed(&self) -> impl Iterator<Item = (String, Figure)> {
        self.kept.iter().flat_map(|(page, kept)| {
            let ids = kept.figures.iter().map(|figure| figure.id.as_str());
            let missed = ids.filter_map(|id| Some(kept.claimed(id)?.1));
            let missed = missed.filter(Figure::is_missed);
            missed.map(move |figure| (format!("{page}/{}", figure.id), figure))
        })
    }

    /// Returns the kept results of a figure's page, and the figure's name there.
    fn place<'a>(&self, key: &'a str) -> anyhow::Result<(&Kept, &'a str)> {
        let found = key.split_once('/').and_then(|(page, id)| {
            let (_, kept) = self.kept.iter().find(|(name, _)| *name == page)?;
            Some((kept, id))
        });
        found.with_context(|| no_figure(key))
    }

    /// Returns every figure, experiment by experiment, with the reasons for missed ones below each
    /// page's tables.
    fn page(&self) -> String {
        let mut out = String::new();
        let figures = self.kept.iter().flat_map(|(_, kept)| &kept.figures);
        let goals = figures.filter(|figure| figure.met.is_some()).count();
        let _ = writeln!(
            out,
            "{} of {goals} goals are met, {} are missed.",
            goals - self.missed().count(),
            self.missed().count()
        );
        for experiment in list() {
            for (number, page) in experiment.pages.iter().enumerate() {
                let about = if number == 0 { experiment.about } else { "" };
                self.section(&mut out, page.name, about);
            }
        }
        out
    }

    fn section(&self, out: &mut String, page: &str, about: &str) {
        let Some((_, kept)) = self.kept.iter().find(|(name, _)| *name == page) else {
            return;
        };
        let colon = if about.is_empty() { "" } else { ": " };
        let _ = writeln!(
            out,
            "\n## {page}\n\n[{page}](benchmarks/{page}.md){colon}{about}."
        );
        for run in kept.runs() {
            let _ = writeln!(out, "\n{}.", measured(&run.stamp));
            if !run.figures.is_empty() {
                let _ = writeln!(
                    out,
                    "\n| figure | value | unit | spread | goal | |\n|---|---:|---|---|---|---|"
                );
            }
            for figure in &run.figures {
                let spread = figure
                    .spread
                    .map(|(low, high)| format!("{} – {}", number(low), number(high)));
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {} | {} | {} |",
                    figure.id.replace('_', " "),
                    number(figure.value),
                    figure.unit,
                    spread.unwrap_or_default(),
                    goal(figure),
                    figure.mark()
                );
            }
        }
        let lines: Vec<String> = kept
            .figures
            .iter()
            .filter_map(|figure| Some(kept.claimed(&figure.id)?.1))
            .filter(Figure::is_missed)
            .map(|figure| {
                let missed = self.missed.get(&format!("{page}/{}", figure.id));
                let why = missed.map_or("no reason given yet.", |missed| missed.why.as_str());
                let id = figure.id.replace('_', " ");
                format!("* *{id}* is missed: {why}\n")
            })
            .collect();
        if !lines.is_empty() {
            let _ = write!(out, "\n{}", lines.concat());
        }
    }

    /// Returns the README's table, every other missed goal, and the commands that measured the
    /// table.
    fn readme(&self) -> anyhow::Result<String> {
        let mut out = "| | measured | goal | | machine |\n|---|---|---|---|---|\n".to_owned();
        let mut commands = Vec::new();
        for row in &self.shown.row {
            let (kept, id) = self.place(&row.figure)?;
            let (run, figure) = kept.claimed(id).with_context(|| no_figure(&row.figure))?;
            let mut beside = Vec::new();
            for (words, key) in &row.beside {
                // From the same run, if it is on the same page.
                let (other, id) = self.place(key)?;
                let other = if std::ptr::eq(other, kept) {
                    run
                } else {
                    other
                };
                let mut figures = other.figures.iter();
                let other = figures.find(|figure| figure.id == id);
                let other = other.with_context(|| no_figure(key))?;
                let value = match other.unit == figure.unit {
                    true => number(other.value),
                    false => with_unit(other),
                };
                beside.push(format!("{words} {value}"));
            }
            let beside = match beside.join(", ") {
                none if none.is_empty() => none,
                some => format!(" ({some})"),
            };
            let _ = writeln!(
                out,
                "| {} | {}{beside} | {} | {} | {}{} |",
                row.what,
                with_unit(&figure),
                goal(&figure),
                figure.mark(),
                run.stamp.processor(),
                match kept.runs().count() {
                    1 => String::new(),
                    // Without a goal, neither is the worse one.
                    of if figure.met.is_none() => format!(", the newest of {of}"),
                    of => format!(", the worse of {of}"),
                }
            );
            let command = format!("* {}", measured(&run.stamp));
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        let _ = writeln!(
            out,
            "\nOther goals that are missed ([all reasons](docs/benchmarks.md)):\n"
        );
        let shown = |key: &String| self.shown.row.iter().any(|row| row.figure == *key);
        for (key, figure) in self.missed().filter(|(key, _)| !shown(key)) {
            let what = self
                .missed
                .get(&key)
                .map_or(key.as_str(), |missed| &missed.what);
            let _ = writeln!(
                out,
                "* {what}: {} (goal {})",
                with_unit(&figure),
                figure.must
            );
        }
        let _ = writeln!(
            out,
            "\nThe table was measured by these commands:\n\n{}",
            commands.join("\n")
        );
        Ok(out)
    }
}

fn no_figure(key: &str) -> String {
    format!("readme.toml: there is no figure \"{key}\"")
}

/// Returns how, where and when something was measured.
fn measured(stamp: &Stamp) -> String {
    let (command, machine, day) = (&stamp.command, stamp.processor(), stamp.day());
    format!("`{command}` on {machine}, {day}, {}", stamp.commit())
}

/// Returns a goal as tables show it.
fn goal(figure: &Figure) -> &str {
    match (figure.met, figure.must.as_str()) {
        (None, _) => "–",
        (_, "≤ 0") => "0",
        (_, must) => must,
    }
}

/// Formats a number for tables: whole, or with three significant digits.
fn number(value: f64) -> String {
    let size = value.abs();
    let text = if value.fract() == 0.0 || size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.as_str()),
    };
    let (whole, rest) = match digits.split_once('.') {
        Some((whole, rest)) => (whole, format!(".{rest}")),
        None => (digits, String::new()),
    };
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

fn with_unit(figure: &Figure) -> String {
    let space = match figure.unit.as_str() {
        "" | "%" => "",
        _ => " ",
    };
    format!("{}{space}{}", number(figure.value), figure.unit)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

#[cfg(test)]
#[test]
fn numbers_have_three_digits_and_commas() {
    for (value, text) in [
        (0.0, "0"),
        (500.0, "500"),
        (0.6531, "0.653"),
        (6.2234, "6.22"),
        (39.723, "39.7"),
        (4223.125, "4,223"),
        (8_908_765.0, "8,908,765"),
        (-1234.5, "-1,234"),
    ] {
        assert_eq!(number(value), text);
    }
}

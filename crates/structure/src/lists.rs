//! The kept lists, and their differences from the source.
//!
//! A list names today's flaws, one per line; a line that begins with `#` is a comment. It must
//! match the findings exactly. So nothing is added unnoticed, and a fixed flaw cannot return.

use std::collections::{BTreeMap, BTreeSet};

/// The differences between the findings and a kept list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// New findings, or ones that have grown: they are not permitted.
    pub worse: Vec<String>,
    /// Lines that must be removed from the list.
    pub remove: Vec<String>,
    /// Lines that must be added to the list, for findings that have shrunk.
    pub add: Vec<String>,
}

impl Difference {
    /// The report for developers; `None` if there is no difference.
    pub fn report(&self, list: &str) -> Option<String> {
        if *self == Self::default() {
            return None;
        }
        let mut report = String::new();
        if !self.worse.is_empty() {
            report += &format!("new, or more than {list} has; mend the code:\n");
            for line in &self.worse {
                report += &format!("    {line}\n");
            }
        }
        if !self.remove.is_empty() || !self.add.is_empty() {
            report += &format!("less than {list} has; write into the list:\n");
            for line in &self.remove {
                report += &format!("  - {line}\n");
            }
            for line in &self.add {
                report += &format!("  + {line}\n");
            }
        }
        Some(report)
    }
}

/// The lines of a list.
pub fn lines(list: &str) -> impl Iterator<Item = &str> {
    list.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Compares a list of names with the findings, each of which comes with its place.
pub fn names(list: &str, found: &BTreeMap<String, String>) -> Difference {
    let kept: BTreeSet<&str> = lines(list).collect();
    let mut difference = Difference::default();
    for (name, place) in found {
        if !kept.contains(name.as_str()) {
            difference.worse.push(format!("{name} {place}"));
        }
    }
    for name in kept {
        if !found.contains_key(name) {
            difference.remove.push(name.to_owned());
        }
    }
    difference
}

/// Compares a list of names with numbers (`name number`) with the findings.
pub fn numbers(list: &str, found: &BTreeMap<String, usize>) -> Difference {
    let mut difference = Difference::default();
    let mut kept = BTreeMap::new();
    for line in lines(list) {
        match line
            .rsplit_once(' ')
            .map(|(name, number)| (name, number.parse()))
        {
            Some((name, Ok(number))) => drop(kept.insert(name, number)),
            _ => difference.remove.push(line.to_owned()),
        }
    }
    for (name, &number) in found {
        let before: usize = kept.remove(name.as_str()).unwrap_or(0);
        if number > before {
            let line = format!("{name} {number} (the list has {before})");
            difference.worse.push(line);
        } else if number < before {
            difference.remove.push(format!("{name} {before}"));
            difference.add.push(format!("{name} {number}"));
        }
    }
    for (name, before) in kept {
        difference.remove.push(format!("{name} {before}"));
    }
    difference
}

/// Compares a list of circles (`crate number file file …`) with the findings, each as its crate and
/// its files. A circle that is a subset of a kept one has shrunk.
pub fn circles(list: &str, found: &[(String, BTreeSet<String>)]) -> Difference {
    let mut difference = Difference::default();
    let kept: Vec<(&str, BTreeSet<&str>)> = lines(list)
        .map(|line| {
            let mut words = line.split_whitespace();
            let folder = words.next().unwrap_or_default();
            (folder, words.skip(1).collect())
        })
        .collect();
    for (folder, files) in found {
        let files: BTreeSet<&str> = files.iter().map(String::as_str).collect();
        let of_crate = || kept.iter().filter(|(other, _)| other == folder);
        if of_crate().any(|(_, other)| *other == files) {
            continue;
        }
        let line = circle_line(folder, &files);
        if of_crate().any(|(_, other)| other.is_superset(&files)) {
            difference.add.push(line);
        } else {
            difference.worse.push(line);
        }
    }
    for (folder, files) in &kept {
        let is_found = |(other, its): &(String, BTreeSet<String>)| {
            other == folder && its.iter().map(String::as_str).eq(files.iter().copied())
        };
        if !found.iter().any(is_found) {
            difference.remove.push(circle_line(folder, files));
        }
    }
    difference
}

/// A circle's line in the list.
fn circle_line(folder: &str, files: &BTreeSet<&str>) -> String {
    let names: Vec<&str> = files.iter().copied().collect();
    format!("{folder} {} {}", files.len(), names.join(" "))
}

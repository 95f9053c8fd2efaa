//! The kept lists, and how the source differs from them.
//!
//! A list names what is wrong today, one thing on a line; a line that begins with `#` is a comment. It must
//! say exactly what is found. So nothing is added unseen, and what has been mended cannot come back.

use std::collections::{BTreeMap, BTreeSet};

/// How what was found differs from a kept list.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What is new or has grown: it must not be.
    pub worse: Vec<String>,
    /// Lines that must leave the list.
    pub remove: Vec<String>,
    /// Lines that must come into the list, for those that have shrunk.
    pub add: Vec<String>,
}

impl Difference {
    /// What a developer reads. None if there is no difference.
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

/// Compares a list of names with what was found; a text says of each where.
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

/// Compares a list of names with numbers (`name number`) with what was found.
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

/// Compares a list of circles (`crate number file file …`) with what was found, each as its crate and its
/// files. A circle that is a part of a kept one has shrunk.
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

//! Circles of files: dependency cycles, as sets of files of one crate each of which needs all
//! others, directly or indirectly.
//!
//! A file depends on another one if its code outside tests names an item that is defined there. A
//! `mod child;` alone names nothing; `use child::Item` and `pub use child::Item` do. Code that
//! names a re-export depends on the file that defines the item.

use std::collections::{BTreeMap, BTreeSet};

use crate::collect::Role;
use crate::resolve::Target;
use crate::tree::Tree;

/// A dependency of one file on another, with the place that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The path of the dependent file.
    pub from: String,
    /// The path of the file that it depends on.
    pub to: String,
    /// The first line that needs the other file.
    pub line: usize,
    /// The path that this line names.
    pub path: String,
}

impl std::fmt::Display for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            from,
            to,
            line,
            path,
        } = self;
        write!(f, "{from}:{line}: {path} is in {to}")
    }
}

/// The dependencies between the files of a crate, each once.
pub fn edges(tree: &Tree) -> Vec<Edge> {
    let mut edges: BTreeMap<(usize, usize), Edge> = BTreeMap::new();
    for (number, module) in tree.modules.iter().enumerate() {
        for mention in &module.mentions {
            if mention.test {
                continue;
            }
            for target in tree.resolve(number, &mention.path, mention.role, false) {
                let to = match target {
                    Target::Item { file, .. } => file,
                    Target::Module(other) if mention.role == Role::Glob => tree.modules[other].file,
                    _ => continue,
                };
                if to == module.file {
                    continue;
                }
                let edge = Edge {
                    from: tree.files[module.file].path.clone(),
                    to: tree.files[to].path.clone(),
                    line: mention.line,
                    path: mention.path.to_string(),
                };
                let kept = edges.entry((module.file, to)).or_insert(edge);
                if mention.line < kept.line {
                    kept.line = mention.line;
                    kept.path = mention.path.to_string();
                }
            }
        }
    }
    edges.into_values().collect()
}

/// The circles among these dependencies, the largest first.
pub fn circles(edges: &[Edge]) -> Vec<BTreeSet<String>> {
    let mut forth: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut back: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in edges {
        forth.entry(&edge.from).or_default().push(&edge.to);
        back.entry(&edge.to).or_default().push(&edge.from);
    }
    let mut circles = Vec::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    for &file in forth.keys() {
        if done.contains(file) {
            continue;
        }
        // A file's circle: the files that it reaches and that reach it. Crates are small.
        let reached = reach(&forth, file);
        let reaching = reach(&back, file);
        let circle: BTreeSet<&str> = reached.intersection(&reaching).copied().collect();
        if circle.len() > 1 {
            done.extend(&circle);
            circles.push(circle.into_iter().map(str::to_owned).collect());
        }
    }
    circles.sort_by_key(|circle: &BTreeSet<String>| std::cmp::Reverse(circle.len()));
    circles
}

fn reach<'a>(edges: &BTreeMap<&'a str, Vec<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::from([from]);
    let mut next = vec![from];
    while let Some(file) = next.pop() {
        for &other in edges.get(file).into_iter().flatten() {
            if reached.insert(other) {
                next.push(other);
            }
        }
    }
    reached
}

//! The findings in the workspace's source.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use reelway_structure::circles::{self, Edge};
use reelway_structure::effects::{self, EffectKind, KINDS, NEVER_PURE, UNORDERED};
use reelway_structure::tree::Tree;
use reelway_structure::workspace::{self, Crate};

/// The findings that the tests compare with their lists.
#[derive(Default)]
pub struct Found {
    /// Each circle as its crate and its files, relative to the crate's folder.
    pub circles: Vec<(String, BTreeSet<String>)>,
    /// The dependencies between files.
    edges: Vec<Edge>,
    /// The lines of each file outside test code.
    pub lines: BTreeMap<String, usize>,
    /// By kind, each file that uses the machine in this way, and where.
    pub uses: BTreeMap<&'static str, BTreeMap<String, String>>,
    /// Each file that names a table without a fixed order, and where.
    pub unordered: BTreeMap<String, String>,
    /// How often each file's tests sleep.
    pub sleeps: BTreeMap<String, usize>,
    /// The crates, each with those crates of this workspace that it needs outside tests.
    pub crates: BTreeMap<String, Vec<String>>,
    /// The crates that forbid unsafe code.
    pub without_unsafe: BTreeSet<String>,
}

/// Reads the workspace, once.
pub fn found() -> &'static Found {
    static FOUND: LazyLock<Found> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = Found::default();
        let crates = workspace::crates(&root).expect("the sources can be read");
        for one in &crates {
            found.add(one).unwrap_or_else(|error| panic!("{error}"));
        }
        found
    });
    &FOUND
}

impl Found {
    fn add(&mut self, one: &Crate) -> Result<(), String> {
        let folder = &one.folder;
        let only_tests = folder == "tests";
        for root in one.roots() {
            let tree = Tree::of(&one.files, root, only_tests)?;
            self.add_product(folder, &tree);
            self.add_sleeps(&tree);
        }
        for root in one.tests() {
            self.add_sleeps(&Tree::of(&one.files, root, true)?);
        }
        self.crates
            .insert(folder.clone(), dependencies(&one.manifest));
        let library = one.files.get(&format!("{folder}/src/lib.rs"));
        if library.is_some_and(|text| text.contains("\n#![forbid(unsafe_code)]\n")) {
            self.without_unsafe.insert(folder.clone());
        }
        Ok(())
    }

    fn add_product(&mut self, folder: &str, tree: &Tree) {
        let edges = circles::edges(tree);
        for circle in circles::circles(&edges) {
            let short = |path: &String| path[folder.len() + 1..].to_owned();
            self.circles
                .push((folder.to_owned(), circle.iter().map(short).collect()));
        }
        self.edges.extend(edges);
        for file in &tree.files {
            self.lines.insert(file.path.clone(), file.lines);
        }
        for kind in KINDS.iter().chain([&NEVER_PURE]) {
            let found = uses(tree, kind);
            self.uses.entry(kind.name).or_default().extend(found);
        }
        self.unordered.extend(uses(tree, &UNORDERED));
    }

    /// Adds the sleeps in tests. A file that several programs share counts once.
    fn add_sleeps(&mut self, tree: &Tree) {
        for (path, number) in effects::sleeps(tree) {
            let kept = self.sleeps.entry(path).or_default();
            *kept = number.max(*kept);
        }
    }

    /// The dependencies within a circle, which is given as a line of the list.
    pub fn edges_of(&self, circle: &str) -> impl Iterator<Item = &Edge> {
        let mut words = circle.split_whitespace();
        let folder = words.next().unwrap_or_default();
        let files: BTreeSet<String> = words
            .skip(1)
            .map(|file| format!("{folder}/{file}"))
            .collect();
        self.edges
            .iter()
            .filter(move |edge| files.contains(&edge.from) && files.contains(&edge.to))
    }

    /// Where a crate uses the machine in a way that is forbidden in pure crates.
    pub fn machine(&self, folder: &str) -> Vec<String> {
        let below = format!("{folder}/");
        let mut places = Vec::new();
        for (kind, uses) in &self.uses {
            for (path, place) in uses {
                if path.starts_with(&below) {
                    places.push(format!("{kind}: {path} {place}"));
                }
            }
        }
        places
    }
}

/// The files that use the machine in this way, and where.
fn uses(tree: &Tree, kind: &EffectKind) -> impl Iterator<Item = (String, String)> {
    let uses = effects::uses(tree, kind).into_iter();
    uses.map(|(path, (line, what))| (path, format!("(line {line}: {what})")))
}

/// The crates of this workspace that a manifest names outside `[dev-dependencies]`, as folders.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        if !section.ends_with("dependencies]") || section == "[dev-dependencies]" {
            continue;
        }
        let names = line
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .filter_map(|word| word.strip_prefix("reelway-"));
        found.extend(names.map(|name| format!("crates/{name}")));
    }
    found.sort();
    found.dedup();
    found
}

//! The meaning of a path: a file of the crate, or a path of another crate. Imports, public or not,
//! are followed to the file that defines the item.

use std::collections::BTreeSet;

use crate::collect::{Meaning, Name, Role};
use crate::tokens::Path;
use crate::tree::Tree;

/// A possible meaning of a path. A name can be a function, a module and a macro at once, so there
/// may be several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A module of the crate, by index.
    Module(usize),
    /// An item, or a part of one, in the file with this index.
    Item { file: usize, opens: bool },
    /// An item of another crate, as a full path. A local variable looks the same.
    Outside(Vec<String>),
    /// The same, through a one-line function of this crate.
    Behind(Vec<String>),
}

impl Target {
    /// The meaning of calling a one-line function that names this target; `None` if the target is
    /// in the same crate.
    fn behind(self) -> Option<Self> {
        match self {
            Self::Outside(path) | Self::Behind(path) => Some(Self::Behind(path)),
            _ => None,
        }
    }
}

/// Names that are being looked up, so that mutual imports terminate.
type Seen = BTreeSet<(usize, String)>;

impl Tree {
    /// The meaning of the path in a module. Names in test code count only if `test` is set.
    pub(crate) fn resolve(
        &self,
        module: usize,
        path: &Path,
        role: Role,
        test: bool,
    ) -> Vec<Target> {
        if role == Role::Macro
            && let Some(name) = path.segments.last()
            && let Some(files) = self.macros.get(name)
        {
            let item = |file: &usize| Target::Item {
                file: *file,
                opens: false,
            };
            return files.iter().map(item).collect();
        }
        self.path(module, path, test, &mut Seen::new())
    }

    fn path(&self, module: usize, path: &Path, test: bool, seen: &mut Seen) -> Vec<Target> {
        let Some((first, rest)) = path.segments.split_first() else {
            return Vec::new();
        };
        let outside = || vec![Target::Outside(path.segments.clone())];
        if path.rooted {
            return outside();
        }
        let mut targets = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(module)],
            "super" => self.parent(module),
            "Self" => return Vec::new(),
            name => {
                let found = self.lookup(module, name, test, seen);
                if found.is_empty() {
                    return outside();
                }
                found
            }
        };
        for name in rest {
            targets = targets
                .into_iter()
                .flat_map(|target| self.below(target, name, test, seen))
                .collect();
        }
        targets.sort();
        targets.dedup();
        targets
    }

    /// The meaning of `target::name`.
    fn below(&self, target: Target, name: &str, test: bool, seen: &mut Seen) -> Vec<Target> {
        match target {
            Target::Module(module) if name == "super" => self.parent(module),
            Target::Module(module) if name == "self" => vec![Target::Module(module)],
            Target::Module(module) => {
                let found = self.lookup(module, name, test, seen);
                if found.is_empty() {
                    // A macro defines it.
                    let file = self.modules[module].file;
                    return vec![Target::Item { file, opens: true }];
                }
                found
            }
            Target::Item { opens: true, .. } => vec![target],
            Target::Item { .. } | Target::Behind(_) => Vec::new(),
            Target::Outside(mut path) => {
                path.push(name.to_owned());
                vec![Target::Outside(path)]
            }
        }
    }

    fn parent(&self, module: usize) -> Vec<Target> {
        let parent = self.modules[module].parent;
        parent.map(Target::Module).into_iter().collect()
    }

    /// The meaning of a name in a module: its definitions and imports by name, otherwise its
    /// imports by `*`.
    fn lookup(&self, module: usize, name: &str, test: bool, seen: &mut Seen) -> Vec<Target> {
        let key = (module, name.to_owned());
        if !seen.insert(key.clone()) {
            return Vec::new();
        }
        let names = self.modules[module].names.get(name);
        let names = names.into_iter().flatten();
        let mut found = Vec::new();
        for Name {
            what,
            test: of_test,
        } in names
        {
            if *of_test && !test {
                continue;
            }
            match what {
                Meaning::Item { opens } => found.push(Target::Item {
                    file: self.modules[module].file,
                    opens: *opens,
                }),
                Meaning::Short(paths) => {
                    let file = self.modules[module].file;
                    found.push(Target::Item { file, opens: false });
                    let targets = paths.iter();
                    let targets = targets.flat_map(|path| self.path(module, path, test, seen));
                    let behind: Vec<_> = targets.filter_map(Target::behind).collect();
                    found.extend(behind);
                }
                Meaning::Module(child) => found.push(Target::Module(*child)),
                Meaning::Use(path) => found.extend(self.path(module, path, test, seen)),
            }
        }
        if found.is_empty() {
            found = self.by_glob(module, name, test, seen);
        }
        seen.remove(&key);
        found
    }

    fn by_glob(&self, module: usize, name: &str, test: bool, seen: &mut Seen) -> Vec<Target> {
        let mut found = Vec::new();
        for mention in &self.modules[module].mentions {
            if mention.role != Role::Glob || mention.test && !test {
                continue;
            }
            for target in self.path(module, &mention.path, test, seen) {
                if let Target::Module(other) = target {
                    found.extend(self.lookup(other, name, test, seen));
                }
            }
        }
        found
    }
}

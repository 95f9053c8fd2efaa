//! The modules of one crate, from its root file.

use std::collections::{BTreeMap, VecDeque};

use crate::collect::{self, Child, Meaning, Module, Name};
use crate::test_code::is_test_file;

/// Source files: their texts by path.
pub type Files = BTreeMap<String, String>;

/// The modules below one root file (`src/lib.rs`, `src/main.rs`, a test program).
#[derive(Debug, Default)]
pub struct Tree {
    /// Its files, the root first.
    pub files: Vec<File>,
    /// Its modules, the root first.
    pub(crate) modules: Vec<Module>,
    /// For each macro name, the files that define such a macro outside test code.
    pub(crate) macros: BTreeMap<String, Vec<usize>>,
}

/// A file of a tree.
#[derive(Debug)]
pub struct File {
    /// Its path, as in [`Files`].
    pub path: String,
    /// Its lines outside test code, including comments and blank lines; 0 for a test file.
    pub lines: usize,
}

/// A file that is still to be read, and its module.
struct Next {
    path: String,
    /// The folder of its children.
    folder: String,
    module: usize,
    test: bool,
}

impl Tree {
    /// Reads the crate. A child without a file is skipped, as a build script may generate it. If
    /// `test` is set, all of it is test code.
    ///
    /// # Errors
    ///
    /// A file is not valid Rust; the message names the file.
    pub fn of(files: &Files, root: &str, test: bool) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.modules.push(Module::default());
        let mut queue = VecDeque::from([Next {
            path: root.to_owned(),
            folder: folder(root).to_owned(),
            module: 0,
            test,
        }]);
        while let Some(next) = queue.pop_front() {
            tree.read(files, next, &mut queue)?;
        }
        Ok(tree)
    }

    fn read(
        &mut self,
        files: &Files,
        next: Next,
        queue: &mut VecDeque<Next>,
    ) -> Result<(), String> {
        let Some(text) = files.get(&next.path) else {
            return Err(format!("{}: there is no such file", next.path));
        };
        let number = self.files.len();
        self.modules[next.module].file = number;
        let test = next.test || is_test_file(&next.path);
        let found = collect::file(text, test, next.module, &mut self.modules)
            .map_err(|error| format!("{}:{}: {error}", next.path, error.span().start().line))?;
        self.files.push(File {
            path: next.path.clone(),
            lines: found.lines,
        });
        for name in found.macros {
            self.macros.entry(name).or_default().push(number);
        }
        for child in found.children {
            let Some((path, folder)) = place(files, &next, &child) else {
                continue;
            };
            let module = self.modules.len();
            self.modules.push(Module {
                parent: Some(child.parent),
                ..Module::default()
            });
            let name = Name {
                what: Meaning::Module(module),
                test: child.test,
            };
            let names = &mut self.modules[child.parent].names;
            names.entry(child.name.clone()).or_default().push(name);
            queue.push_back(Next {
                path,
                folder,
                module,
                test: child.test,
            });
        }
        Ok(())
    }
}

/// The file of a child, and the folder of the child's own children.
fn place(files: &Files, parent: &Next, child: &Child) -> Option<(String, String)> {
    if let Some(path) = &child.path {
        let path = normal(&join(folder(&parent.path), path));
        let folder = folder(&path).to_owned();
        return files.contains_key(&path).then_some((path, folder));
    }
    let mut place = parent.folder.clone();
    for name in &child.within {
        place = join(&place, name);
    }
    let place = join(&place, &child.name);
    [format!("{place}.rs"), format!("{place}/mod.rs")]
        .into_iter()
        .find(|path| files.contains_key(path))
        .map(|path| (path, place))
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// The path without `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => (),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

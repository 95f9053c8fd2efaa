//! Collects what one file defines, imports and mentions, module by module.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, UseTree};

use crate::test_code::{is_test, of_expression, of_item};
use crate::tokens::{self, Path, word};

/// The meaning of a name in a module.
#[derive(Debug)]
pub enum Meaning {
    /// An item of this file. If it opens (a type, a trait), `Item::name` is a part of it.
    Item { opens: bool },
    /// A function of one line, and the paths in it: it is only another name for them.
    Short(Vec<Path>),
    /// A child module, by its index in the tree.
    Module(usize),
    /// An import.
    Use(Path),
}

/// A name that a module defines or imports.
#[derive(Debug)]
pub struct Name {
    pub what: Meaning,
    pub test: bool,
}

/// How a path is mentioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Import,
    /// An import of everything below the path.
    Glob,
    Code,
    /// The name of a called macro.
    Macro,
}

/// A path somewhere in a file.
#[derive(Debug)]
pub struct Mention {
    pub path: Path,
    pub line: usize,
    pub role: Role,
    pub test: bool,
    pub in_loop: bool,
}

/// A module of a crate: a file, or a part of one.
#[derive(Debug, Default)]
pub struct Module {
    pub parent: Option<usize>,
    /// The index of its file in the tree.
    pub file: usize,
    pub names: BTreeMap<String, Vec<Name>>,
    pub mentions: Vec<Mention>,
}

/// A child module in a file of its own: `mod name;`.
#[derive(Debug)]
pub struct Child {
    pub parent: usize,
    /// The inline modules between the file and the child: usually none.
    pub within: Vec<String>,
    pub name: String,
    /// The file named by `#[path]`.
    pub path: Option<String>,
    pub test: bool,
}

/// The result of [`file`].
pub struct Collected {
    pub children: Vec<Child>,
    /// The macros that the file defines with `macro_rules!`.
    pub macros: Vec<String>,
    /// Lines outside test code.
    pub lines: usize,
}

/// Collects one file into the modules: `module` is the file's own, and inline modules are appended.
pub fn file(
    text: &str,
    test: bool,
    module: usize,
    modules: &mut Vec<Module>,
) -> syn::Result<Collected> {
    let file = syn::parse_file(text)?;
    let mut collector = Collector {
        module,
        modules,
        within: Vec::new(),
        test: test || is_test(&file.attrs),
        loops: 0,
        children: Vec::new(),
        macros: Vec::new(),
        test_lines: BTreeSet::new(),
    };
    collector.visit_file(&file);
    let lines = text.lines().count();
    let lines = if collector.test {
        0
    } else {
        lines - collector.test_lines.len()
    };
    Ok(Collected {
        children: collector.children,
        macros: collector.macros,
        lines,
    })
}

struct Collector<'a> {
    module: usize,
    modules: &'a mut Vec<Module>,
    within: Vec<String>,
    test: bool,
    loops: usize,
    children: Vec<Child>,
    macros: Vec<String>,
    test_lines: BTreeSet<usize>,
}

impl Collector<'_> {
    fn mention(&mut self, path: Path, line: usize, role: Role) {
        let mention = Mention {
            path,
            line,
            role,
            test: self.test,
            in_loop: self.loops > 0,
        };
        self.modules[self.module].mentions.push(mention);
    }

    fn define(&mut self, name: String, what: Meaning) {
        let test = self.test;
        let names = &mut self.modules[self.module].names;
        names.entry(name).or_default().push(Name { what, test });
    }

    fn item(&mut self, name: &proc_macro2::Ident, opens: bool) {
        self.define(word(name), Meaning::Item { opens });
    }

    /// Visits as test code if the attributes mark it as such.
    fn guarded(&mut self, attributes: &[Attribute], span: Span, visit: impl FnOnce(&mut Self)) {
        let before = self.test;
        if is_test(attributes) && !before {
            self.test = true;
            self.test_lines.extend(span.start().line..=span.end().line);
        }
        visit(self);
        self.test = before;
    }

    fn import(&mut self, tree: &UseTree, path: &mut Path) {
        match tree {
            UseTree::Path(tree) => {
                path.segments.push(word(&tree.ident));
                self.import(&tree.tree, path);
                path.segments.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, path);
                }
            }
            UseTree::Glob(glob) => {
                let line = glob.span().start().line;
                self.mention(path.clone(), line, Role::Glob);
            }
            UseTree::Name(tree) => self.import_name(&tree.ident, None, path),
            UseTree::Rename(tree) => self.import_name(&tree.ident, Some(&tree.rename), path),
        }
    }

    fn import_name(
        &mut self,
        name: &proc_macro2::Ident,
        rename: Option<&proc_macro2::Ident>,
        path: &Path,
    ) {
        let mut path = path.clone();
        // `use a::b::{self}` imports the name `b`.
        if name != "self" || path.segments.is_empty() {
            path.segments.push(word(name));
        }
        self.mention(path.clone(), name.span().start().line, Role::Import);
        let shown = match rename {
            Some(rename) => word(rename),
            None => path.segments.last().cloned().unwrap_or_default(),
        };
        if !["_", "self", "super", "crate"].contains(&shown.as_str()) {
            self.define(shown, Meaning::Use(path));
        }
    }

    fn module(&mut self, item: &syn::ItemMod) {
        let name = word(&item.ident);
        let Some((_, items)) = &item.content else {
            self.children.push(Child {
                parent: self.module,
                within: self.within.clone(),
                name,
                path: named_path(&item.attrs),
                test: self.test,
            });
            return;
        };
        let number = self.modules.len();
        self.modules.push(Module {
            parent: Some(self.module),
            file: self.modules[self.module].file,
            ..Module::default()
        });
        self.define(name.clone(), Meaning::Module(number));
        let outer = std::mem::replace(&mut self.module, number);
        self.within.push(name);
        for item in items {
            self.visit_item(item);
        }
        self.within.pop();
        self.module = outer;
    }

    fn tokens(&mut self, tokens: &proc_macro2::TokenStream, strings: bool) {
        for (path, line) in tokens::paths(tokens.clone(), strings) {
            self.mention(path, line, Role::Code);
        }
    }
}

/// The file named by `#[path = "…"]`.
fn named_path(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let value = attribute.meta.require_name_value().ok()?;
        match &value.value {
            Expr::Lit(literal) if value.path.is_ident("path") => match &literal.lit {
                syn::Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        }
    })
}

/// The paths in a function's body, if it is one statement on one line.
fn one_line(block: &syn::Block) -> Vec<Path> {
    struct Paths(Vec<Path>);
    impl<'ast> Visit<'ast> for Paths {
        fn visit_path(&mut self, path: &'ast syn::Path) {
            self.0.push(Path::of(path));
            visit::visit_path(self, path);
        }
    }
    let mut paths = Paths(Vec::new());
    if let [statement] = &block.stmts[..] {
        let span = statement.span();
        if span.start().line == span.end().line {
            paths.visit_stmt(statement);
        }
    }
    paths.0
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        self.guarded(of_item(item), item.span(), |this| {
            match item {
                Item::Const(item) => this.item(&item.ident, false),
                Item::Enum(item) => this.item(&item.ident, true),
                Item::Fn(item) => {
                    let name = word(&item.sig.ident);
                    this.define(name, Meaning::Short(one_line(&item.block)));
                }
                Item::Static(item) => this.item(&item.ident, false),
                Item::Struct(item) => this.item(&item.ident, true),
                Item::Trait(item) => this.item(&item.ident, true),
                Item::TraitAlias(item) => this.item(&item.ident, true),
                Item::Type(item) => this.item(&item.ident, true),
                Item::Union(item) => this.item(&item.ident, true),
                Item::Macro(item) => {
                    if let Some(name) = &item.ident {
                        this.item(name, false);
                        if !this.test {
                            this.macros.push(word(name));
                        }
                    }
                }
                Item::ExternCrate(item) => {
                    let shown = item
                        .rename
                        .as_ref()
                        .map_or(&item.ident, |(_, rename)| rename);
                    let segments = vec![word(&item.ident)];
                    let rooted = item.ident != "self";
                    if *shown != "_" && rooted {
                        this.define(word(shown), Meaning::Use(Path { rooted, segments }));
                    }
                }
                Item::Mod(item) => {
                    for attribute in &item.attrs {
                        this.visit_attribute(attribute);
                    }
                    return this.module(item);
                }
                Item::Use(item) => {
                    let rooted = item.leading_colon.is_some();
                    let segments = Vec::new();
                    return this.import(&item.tree, &mut Path { rooted, segments });
                }
                _ => (),
            }
            visit::visit_item(this, item);
        });
    }

    fn visit_foreign_item(&mut self, item: &'ast syn::ForeignItem) {
        match item {
            syn::ForeignItem::Fn(item) => self.item(&item.sig.ident, false),
            syn::ForeignItem::Static(item) => self.item(&item.ident, false),
            _ => (),
        }
        visit::visit_foreign_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes = match item {
            syn::ImplItem::Const(item) => &item.attrs[..],
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            syn::ImplItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        self.guarded(attributes, item.span(), |this| {
            visit::visit_impl_item(this, item);
        });
    }

    fn visit_trait_item(&mut self, item: &'ast syn::TraitItem) {
        let attributes = match item {
            syn::TraitItem::Const(item) => &item.attrs[..],
            syn::TraitItem::Fn(item) => &item.attrs,
            syn::TraitItem::Type(item) => &item.attrs,
            syn::TraitItem::Macro(item) => &item.attrs,
            _ => &[],
        };
        self.guarded(attributes, item.span(), |this| {
            visit::visit_trait_item(this, item);
        });
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        self.guarded(&field.attrs, field.span(), |this| {
            visit::visit_field(this, field)
        });
    }

    fn visit_field_value(&mut self, field: &'ast syn::FieldValue) {
        self.guarded(&field.attrs, field.span(), |this| {
            visit::visit_field_value(this, field);
        });
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.guarded(&variant.attrs, variant.span(), |this| {
            visit::visit_variant(this, variant);
        });
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.guarded(&arm.attrs, arm.span(), |this| visit::visit_arm(this, arm));
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        self.guarded(&local.attrs, local.span(), |this| {
            visit::visit_local(this, local)
        });
    }

    fn visit_stmt_macro(&mut self, call: &'ast syn::StmtMacro) {
        self.guarded(&call.attrs, call.span(), |this| {
            visit::visit_stmt_macro(this, call);
        });
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        let is_loop = matches!(
            expression,
            Expr::ForLoop(_) | Expr::Loop(_) | Expr::While(_)
        );
        self.guarded(of_expression(expression), expression.span(), |this| {
            this.loops += usize::from(is_loop);
            visit::visit_expr(this, expression);
            this.loops -= usize::from(is_loop);
        });
    }

    // `pub(super)` is not a dependency.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let line = path.span().start().line;
        self.mention(Path::of(path), line, Role::Code);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let line = call.path.span().start().line;
        self.mention(Path::of(&call.path), line, Role::Macro);
        self.tokens(&call.tokens, false);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let path = attribute.path();
        if ["doc", "cfg", "path", "expect", "allow"]
            .iter()
            .any(|name| path.is_ident(name))
        {
            return;
        }
        let line = path.span().start().line;
        self.mention(Path::of(path), line, Role::Macro);
        if let syn::Meta::List(list) = &attribute.meta {
            self.tokens(&list.tokens, true);
        }
    }
}

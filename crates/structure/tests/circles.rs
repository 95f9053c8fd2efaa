//! Circles of files in small crates that are defined here.

use reelway_structure::circles::{circles, edges};
use reelway_structure::tree::{Files, Tree};

/// The circles of a crate: each as its files, without the folder `src`.
fn of(files: &[(&str, &str)]) -> Vec<String> {
    let files: Files = files
        .iter()
        .map(|(name, text)| (format!("src/{name}"), (*text).to_owned()))
        .collect();
    let tree = Tree::of(&files, "src/lib.rs", false).expect("it is Rust");
    let circles = circles(&edges(&tree)).into_iter();
    circles
        .map(|circle| {
            let names: Vec<String> = circle.into_iter().collect();
            names.join(" ").replace("src/", "")
        })
        .collect()
}

const NONE: [&str; 0] = [];

#[test]
fn files_that_import_each_other_are_a_circle() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "use crate::c::C; pub struct B(Box<C>);"),
        ("c.rs", "use crate::a::A; pub struct C(Box<A>);"),
    ];
    assert_eq!(of(&files), ["a.rs b.rs c.rs"]);
}

#[test]
fn a_row_of_files_is_none() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; use a::A; fn f(_: A) {}"),
        ("a.rs", "use crate::{b::B, c}; pub struct A(B, c::C);"),
        ("b.rs", "use super::c::C as Other; pub struct B(Other);"),
        ("c.rs", "pub struct C;"),
    ];
    assert_eq!(of(&files), NONE);
}

#[test]
fn a_child_that_needs_its_parent_is_in_a_circle_with_it() {
    let parent = "mod child; pub use child::Child; pub struct Parent;";
    let child = "use super::Parent; pub struct Child(Parent);";
    let files = [
        ("lib.rs", "mod a;"),
        ("a/mod.rs", parent),
        ("a/child.rs", child),
    ];
    assert_eq!(of(&files), ["a/child.rs a/mod.rs"]);
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", parent),
        ("a/child.rs", child),
    ];
    assert_eq!(of(&files), ["a.rs a/child.rs"]);
}

#[test]
fn the_root_of_a_crate_is_a_file_like_any_other() {
    let files = [
        ("lib.rs", "mod a; pub use a::A; pub trait Clock {}"),
        ("a.rs", "pub struct A; impl crate::Clock for A {}"),
    ];
    assert_eq!(of(&files), ["a.rs lib.rs"]);
}

#[test]
fn a_declaration_of_a_child_is_no_dependency() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod child; pub struct Parent;"),
        (
            "a/child.rs",
            "use super::Parent; pub(super) struct Child(Parent);",
        ),
    ];
    assert_eq!(of(&files), NONE);
}

#[test]
fn super_leads_to_a_sibling() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod one; mod two;"),
        ("a/one.rs", "pub fn one() { super::two::two() }"),
        ("a/two.rs", "pub fn two() { super::super::a::one::one() }"),
    ];
    assert_eq!(of(&files), ["a/one.rs a/two.rs"]);
}

#[test]
fn a_re_export_hides_nothing() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;"),
        ("a.rs", "use crate::B; pub struct A(Box<B>);"),
        ("b.rs", "pub struct B(crate::A);"),
    ];
    assert_eq!(of(&files), ["a.rs b.rs"]);
}

#[test]
fn a_re_export_under_another_name_and_of_a_module_hides_nothing() {
    let files = [
        ("lib.rs", "mod front; mod a; mod b;"),
        (
            "front.rs",
            "pub use crate::a as first; pub use crate::b::B as Second;",
        ),
        (
            "a.rs",
            "use crate::front::Second; pub struct A(Box<Second>);",
        ),
        ("b.rs", "pub struct B(crate::front::first::A);"),
    ];
    assert_eq!(of(&files), ["a.rs b.rs"]);
}

#[test]
fn a_private_import_of_the_parent_hides_nothing() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; mod child; fn f(_: B) {}"),
        ("a/child.rs", "use super::B; pub struct Child(B);"),
        ("b.rs", "pub struct B; fn f(_: crate::a::child::Child) {}"),
    ];
    assert_eq!(of(&files), ["a/child.rs b.rs"]);
}

#[test]
fn an_import_of_everything_counts_for_the_module_and_for_each_name() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; mod child; fn f(_: B) {}"),
        ("a/child.rs", "use super::*; pub struct Child(B);"),
        ("b.rs", "pub struct B; fn f(_: crate::a::child::Child) {}"),
    ];
    assert_eq!(of(&files), ["a.rs a/child.rs b.rs"]);
    let files = [
        ("lib.rs", "mod a; mod b; pub use b::*;"),
        ("a.rs", "pub struct A(crate::B);"),
        ("b.rs", "pub struct B(Box<crate::a::A>);"),
    ];
    assert_eq!(of(&files), ["a.rs b.rs"]);
}

#[test]
fn a_path_in_an_expression_counts() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub fn a() -> usize { 1 + crate::b::limit() }"),
        (
            "b.rs",
            "pub fn limit() -> usize { let f = crate::a::a; f() }",
        ),
    ];
    assert_eq!(of(&files), ["a.rs b.rs"]);
}

#[test]
fn types_patterns_and_bounds_count() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub enum A { X } fn f(_: &dyn Fn(crate::b::B)) {}"),
        (
            "b.rs",
            "pub struct B; impl<T: crate::c::C> From<T> for B { fn from(_: T) -> B { B } }",
        ),
        (
            "c.rs",
            "pub trait C { fn f(a: u8) { matches!(a, _ if true); match g() { crate::a::A::X => () } } }",
        ),
    ];
    assert_eq!(of(&files), ["a.rs b.rs c.rs"]);
}

#[test]
fn arguments_of_macros_and_attributes_count() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub fn a() -> Vec<u8> { vec![0, crate::b::B] }"),
        (
            "b.rs",
            r#"pub const B: u8 = 1; struct S { #[serde(with = "crate::a::text")] it: u8 }"#,
        ),
    ];
    assert_eq!(of(&files), ["a.rs b.rs"]);
}

#[test]
fn a_macro_belongs_to_the_file_that_defines_it() {
    let files = [
        ("lib.rs", "#[macro_use] mod a; mod b;"),
        (
            "a.rs",
            "macro_rules! made { () => { $crate::b::made_by() } }",
        ),
        ("b.rs", "pub fn made_by() {} fn f() { made!() }"),
    ];
    assert_eq!(of(&files), ["a.rs b.rs"]);
}

#[test]
fn what_a_macro_makes_belongs_to_the_file_that_calls_it() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "make!(Made); fn f(_: crate::b::B) {}"),
        ("b.rs", "use crate::a::Made; pub struct B(Made);"),
    ];
    assert_eq!(of(&files), ["a.rs b.rs"]);
}

#[test]
fn imports_in_functions_and_in_modules_in_braces_count() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A; fn f() { use crate::b::inner::B; let _: B; }",
        ),
        (
            "b.rs",
            "pub mod inner { use super::super::a::A; pub struct B(A); }",
        ),
    ];
    assert_eq!(of(&files), ["a.rs b.rs"]);
}

#[test]
fn files_that_path_names_count() {
    let files = [
        ("lib.rs", r#"#[path = "odd/name.rs"] mod a; mod b;"#),
        ("odd/name.rs", "pub struct A(crate::b::B);"),
        ("b.rs", "pub struct B(Box<crate::a::A>);"),
    ];
    assert_eq!(of(&files), ["b.rs odd/name.rs"]);
}

#[test]
fn test_code_does_not_count() {
    for test in [
        "#[cfg(test)] mod tests { use super::*; fn f(_: crate::a::A) {} }",
        "#[cfg(test)] use crate::a::A;",
        "#[cfg(all(test, unix))] fn f(_: crate::a::A) {}",
        "#[test] fn f() { let _: crate::a::A; }",
        "fn f() { #[cfg(test)] crate::a::f(); #[cfg(test)] let a = crate::a::A; }",
        "struct S { #[cfg(test)] a: crate::a::A }",
        "impl B { #[cfg(test)] fn f(_: crate::a::A) {} }",
        "#[cfg(test)] mod other; mod tests;",
    ] {
        let b = format!("pub struct B; {test}");
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct A(crate::b::B);"),
            ("b.rs", &b),
            ("b/other.rs", "use crate::a::A; pub use super::B;"),
            ("b/tests.rs", "use crate::a::A; pub use super::B;"),
        ];
        assert_eq!(of(&files), NONE, "{test}");
    }
}

#[test]
fn code_for_builds_without_tests_counts() {
    for code in [
        "#[cfg(not(test))] use crate::a::A;",
        "#[cfg(any(test, debug_assertions))] use crate::a::A;",
    ] {
        let b = format!("pub struct B; {code}");
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub struct A(crate::b::B);"),
            ("b.rs", &b),
        ];
        assert_eq!(of(&files), ["a.rs b.rs"], "{code}");
    }
}

#[test]
fn comments_strings_and_visibilities_do_not_count() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A(crate::b::B);"),
        (
            "b.rs",
            r#"
            //! As [`crate::a::A`].
            /// Uses [`crate::a::A`]: `crate::a::A`.
            // crate::a::A
            pub(in crate::b) struct B;
            pub(crate) const TEXT: &str = "crate::a::A";
            "#,
        ),
    ];
    assert_eq!(of(&files), NONE);
}

#[test]
fn other_crates_do_not_count() {
    let files = [
        ("lib.rs", "mod a; mod bytes;"),
        (
            "a.rs",
            "use bytes::B; use ::bytes::C; pub struct A(B, std::bytes::D);",
        ),
        ("bytes.rs", "pub struct B(crate::a::A);"),
    ];
    assert_eq!(of(&files), NONE);
}

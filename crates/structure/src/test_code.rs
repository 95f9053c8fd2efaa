//! Identifies code that is only for tests: code under `#[cfg(test)]`, functions marked as tests,
//! and files named `tests.rs` or below a folder `tests`.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Item, Meta, Token};

/// Whether these attributes exclude the code from a build without tests.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if path.is_ident("cfg") {
            return attribute
                .parse_args::<Meta>()
                .is_ok_and(|predicate| without_tests(&predicate) == Some(false));
        }
        // `#[test]`, `#[tokio::test]`.
        path.segments
            .last()
            .is_some_and(|last| last.ident == "test")
    })
}

/// Whether a file's name marks it as test code.
pub fn is_test_file(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let name = parts.pop();
    name == Some("tests.rs") || parts.contains(&"tests")
}

/// The value of a `cfg` predicate in a build without tests; `None` if it also depends on something
/// else.
fn without_tests(predicate: &Meta) -> Option<bool> {
    if predicate.path().is_ident("test") {
        return Some(false);
    }
    let Meta::List(list) = predicate else {
        return None;
    };
    let inner = list
        .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
        .ok()?;
    let values: Vec<_> = inner.iter().map(without_tests).collect();
    let decided = |value| values.contains(&Some(value)).then_some(value);
    let all = |value| values.iter().all(|it| *it == Some(value)).then_some(value);
    match list.path.get_ident()?.to_string().as_str() {
        "not" => values.first()?.map(|value| !value),
        "all" => decided(false).or(all(true)),
        "any" => decided(true).or(all(false)),
        _ => None,
    }
}

/// The attributes of an item.
pub fn of_item(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The attributes of an expression, for those kinds that accept `cfg`.
pub fn of_expression(expression: &Expr) -> &[Attribute] {
    match expression {
        Expr::Assign(it) => &it.attrs,
        Expr::Block(it) => &it.attrs,
        Expr::Call(it) => &it.attrs,
        Expr::ForLoop(it) => &it.attrs,
        Expr::If(it) => &it.attrs,
        Expr::Loop(it) => &it.attrs,
        Expr::Macro(it) => &it.attrs,
        Expr::Match(it) => &it.attrs,
        Expr::MethodCall(it) => &it.attrs,
        Expr::Return(it) => &it.attrs,
        Expr::Struct(it) => &it.attrs,
        Expr::Unsafe(it) => &it.attrs,
        Expr::While(it) => &it.attrs,
        _ => &[],
    }
}

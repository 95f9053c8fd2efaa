//! Uses of the machine, sleeps in tests and line counts, in small crates that are defined here.

use reelway_structure::effects::{KINDS, sleeps, uses};
use reelway_structure::tree::{Files, Tree};

fn tree(files: &[(&str, &str)], test: bool) -> Tree {
    let files: Files = files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    Tree::of(&files, "lib.rs", test).expect("it is Rust")
}

/// The kinds of use in a crate of one file.
fn kinds(text: &str) -> Vec<&'static str> {
    let tree = tree(&[("lib.rs", text)], false);
    let found = KINDS.iter().filter(|kind| !uses(&tree, kind).is_empty());
    found.map(|kind| kind.name).collect()
}

const NONE: [&str; 0] = [];

#[test]
fn every_way_to_name_it_counts() {
    for text in [
        "fn f() { std::time::Instant::now(); }",
        "use std::time::Instant; fn f() { Instant::now(); }",
        "use std::time as t; fn f() { t::Instant::now(); }",
        "use std::{time::{self, Duration}}; fn f() { time::SystemTime::now(); }",
        "use std::time::Instant as Moment; fn f() { x.map(Moment::now); }",
        "use reelway_clock::*;",
        "use reelway_clock::now; fn f() { vec![now()]; }",
        "fn f() { println!(\"{}\", reelway_clock::real()); }",
        "mod inner { pub use reelway_clock as time; } fn f() { inner::time::now(); }",
    ] {
        assert_eq!(kinds(text), ["clock"], "{text}");
    }
}

#[test]
fn each_kind_is_found() {
    for (text, kind) in [
        ("use std::thread; fn f() { thread::sleep(d); }", "sleep"),
        ("async fn f() { tokio::time::sleep(d).await; }", "sleep"),
        ("use std::thread; fn f() { thread::spawn(g); }", "thread"),
        (
            "use reelway_supervise as supervise; fn f() { supervise::thread(g); }",
            "thread",
        ),
        ("#[tokio::main] async fn main() {}", "thread"),
        ("struct S(std::sync::Mutex<u8>);", "lock"),
        ("use std::sync::{Arc, RwLock};", "lock"),
        ("use std::sync::mpsc;", "channel"),
        ("use std::net::UdpSocket;", "socket"),
    ] {
        assert_eq!(kinds(text), [kind], "{text}");
    }
}

#[test]
fn a_function_of_one_line_is_another_name() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        (
            "a.rs",
            "use reelway_clock as clock;\npub fn now() -> u64 {\n    clock::now().nanos()\n}\n
            pub fn longer() {\n    let now = now();\n    f(now);\n}",
        ),
        ("b.rs", "use crate::a::now; fn f() { now(); }"),
        ("c.rs", "fn f() { crate::a::longer(); }"),
    ];
    let clock = KINDS.iter().find(|kind| kind.name == "clock").unwrap();
    let found: Vec<_> = uses(&tree(&files, false), clock).into_keys().collect();
    assert_eq!(found, ["a.rs", "b.rs"]);
    let text = "fn pause() { std::thread::sleep(a) } fn f() { pause(); pause(); }";
    assert_eq!(number(text), 3);
    assert_eq!(number("fn f() { g() } fn g() { f() }"), 0);
}

#[test]
fn time_and_addresses_as_arguments_are_no_use() {
    for text in [
        "use std::time::{Duration, Instant}; fn f(now: Instant) {}",
        "use reelway_clock::Monotonic; fn f(now: Monotonic) { now.nanos(); }",
        "use std::net::{IpAddr, SocketAddr};",
        "use std::sync::{Arc, atomic::AtomicUsize};",
        "fn now() {} fn f() { now(); }",
        "mod thread { pub fn sleep() {} } fn f() { thread::sleep(); }",
        "/// [`std::sync::Mutex`]\nfn f() { \"std::sync::Mutex\"; }",
        "#[cfg(test)] mod tests { use std::sync::Mutex; }",
    ] {
        assert_eq!(kinds(text), NONE, "{text}");
    }
}

#[test]
fn the_first_line_is_shown() {
    let text =
        "use std::sync::Arc;\n\nstruct S(\n    std::sync::Mutex<Arc<u8>>);\nuse std::sync::RwLock;";
    let tree = tree(&[("lib.rs", text)], false);
    let lock = KINDS.iter().find(|kind| kind.name == "lock").unwrap();
    let found: Vec<_> = uses(&tree, lock).into_iter().collect();
    let place = (4, "std::sync::Mutex".to_owned());
    assert_eq!(found, [("lib.rs".to_owned(), place)]);
}

/// How often a test file sleeps.
fn number(text: &str) -> usize {
    sleeps(&tree(&[("lib.rs", text)], true)).values().sum()
}

#[test]
fn sleeps_in_tests_are_counted_call_by_call() {
    assert_eq!(
        number("use std::thread::sleep; fn f() { sleep(a); sleep(b); }"),
        2
    );
    assert_eq!(
        number("use tokio::time; async fn f() { tokio::select! { () = time::sleep(a) => {} } }"),
        1
    );
    assert_eq!(
        number("fn f() { while !g() { std::thread::sleep(a); } }"),
        1
    );
    assert_eq!(number("fn f() { clock.sleep(a); sleep(b); }"), 0);
    assert_eq!(
        number("use tokio::time::timeout; fn f() { timeout(a, b); }"),
        0
    );
}

#[test]
fn a_loop_that_polls_counts() {
    assert_eq!(
        number("fn f() { while !g() { std::thread::yield_now(); } }"),
        1
    );
    assert_eq!(
        number("fn f() { loop { if g() { break } std::hint::spin_loop() } }"),
        1
    );
    assert_eq!(
        number("async fn f() { tokio::task::yield_now().await; }"),
        0
    );
}

#[test]
fn tests_beside_the_code_are_test_code() {
    let text = "
        fn f() { std::thread::sleep(a); }
        #[cfg(test)] mod tests { use super::*; fn g() { std::thread::sleep(a); } }";
    let files = [("lib.rs", text)];
    assert_eq!(sleeps(&tree(&files, false))["lib.rs"], 1);
    assert_eq!(kinds(text), ["sleep"]);
}

#[test]
fn lines_of_tests_are_not_counted() {
    let text =
        "//! A crate.\n\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nmod tests;\n";
    let tree = tree(&[("lib.rs", text), ("tests.rs", "fn f() {}\n")], false);
    let lines: Vec<usize> = tree.files.iter().map(|file| file.lines).collect();
    assert_eq!(lines, [5, 0]);
}

#[test]
fn what_is_no_rust_is_reported_with_its_place() {
    let files = Files::from([("lib.rs".to_owned(), "fn f() {}\nfn {}".to_owned())]);
    let error = Tree::of(&files, "lib.rs", false).unwrap_err();
    assert!(error.starts_with("lib.rs:2: "), "{error}");
}

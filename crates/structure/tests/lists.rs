//! Comparison of kept lists with findings.

use std::collections::{BTreeMap, BTreeSet};

use reelway_structure::lists::{Difference, circles, names, numbers};

fn difference(worse: &[&str], remove: &[&str], add: &[&str]) -> Difference {
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    Difference {
        worse: owned(worse),
        remove: owned(remove),
        add: owned(add),
    }
}

#[test]
fn names_must_be_the_same() {
    let found = BTreeMap::from([("a".to_owned(), "(line 1)".to_owned())]);
    assert_eq!(names("# text\n\na\n", &found), Difference::default());
    assert_eq!(names("", &found), difference(&["a (line 1)"], &[], &[]));
    assert_eq!(names("a\nb\n", &found), difference(&[], &["b"], &[]));
}

#[test]
fn numbers_must_be_the_same() {
    let found = BTreeMap::from([("a".to_owned(), 3)]);
    assert_eq!(numbers("a 3", &found), Difference::default());
    let more = difference(&["a 3 (the list has 2)"], &[], &[]);
    assert_eq!(numbers("a 2", &found), more);
    let fewer = difference(&[], &["a 4"], &["a 3"]);
    assert_eq!(numbers("a 4", &found), fewer);
    let gone = difference(&[], &["b 1"], &[]);
    assert_eq!(numbers("a 3\nb 1", &found), gone);
    let no_number = difference(&[], &["b"], &[]);
    assert_eq!(numbers("a 3\nb", &found), no_number);
}

/// Circles of one crate.
fn found(circles: &[&[&str]]) -> Vec<(String, BTreeSet<String>)> {
    let files = |circle: &&[&str]| circle.iter().map(|file| (*file).to_owned()).collect();
    let of_crate = |circle| ("crates/x".to_owned(), files(circle));
    circles.iter().map(of_crate).collect()
}

#[test]
fn circles_must_be_the_same() {
    let list = "crates/x 3 a.rs b.rs c.rs\n";
    let same = found(&[&["a.rs", "b.rs", "c.rs"]]);
    assert_eq!(circles(list, &same), Difference::default());
}

#[test]
fn a_circle_that_shrank_breaks_up_or_is_gone_must_leave_the_list() {
    let list = "crates/x 4 a.rs b.rs c.rs d.rs\n";
    let before = "crates/x 4 a.rs b.rs c.rs d.rs";
    let shrunk = difference(&[], &[before], &["crates/x 2 a.rs b.rs"]);
    assert_eq!(circles(list, &found(&[&["a.rs", "b.rs"]])), shrunk);
    let two = ["crates/x 2 a.rs b.rs", "crates/x 2 c.rs d.rs"];
    let broken = found(&[&["a.rs", "b.rs"], &["c.rs", "d.rs"]]);
    assert_eq!(circles(list, &broken), difference(&[], &[before], &two));
    assert_eq!(circles(list, &[]), difference(&[], &[before], &[]));
}

#[test]
fn a_circle_that_is_new_or_grew_is_an_error() {
    let new = found(&[&["a.rs", "b.rs"]]);
    let error = difference(&["crates/x 2 a.rs b.rs"], &[], &[]);
    assert_eq!(circles("", &new), error);
    // In another crate, files may have the same names.
    let error = difference(&["crates/x 2 a.rs b.rs"], &["crates/y 2 a.rs b.rs"], &[]);
    assert_eq!(circles("crates/y 2 a.rs b.rs", &new), error);
    let error = difference(&["crates/x 2 a.rs b.rs"], &["crates/x 2 a.rs c.rs"], &[]);
    assert_eq!(circles("crates/x 2 a.rs c.rs", &new), error);
}

#[test]
fn a_report_says_what_to_write() {
    let none = Difference::default();
    assert_eq!(none.report("list.txt"), None);
    let report = difference(&["a 3"], &["b 2"], &["b 1"])
        .report("list.txt")
        .unwrap();
    assert!(report.contains("    a 3\n"), "{report}");
    assert!(report.contains("  - b 2\n  + b 1\n"), "{report}");
}

//! This crate's lints for the whole workspace, compared with the lists in `lists/`.
//!
//! `found.rs` reads the workspace once; each test here compares its findings with one list.

mod found;

use std::collections::BTreeMap;
use std::path::Path;

use found::found;
use reelway_structure::effects::KINDS;
use reelway_structure::lists::{self, Difference};

/// The length above which a file needs a line in `long.txt`.
const LONGEST: usize = 500;

/// Crates that only tests use: they are neither pure nor shells.
const TOOLS: &[&str] = &["crates/skip", "crates/structure", "tests"];
/// Crates of processor hints, which have no effect that a program can observe, and no safe form.
const HINTS: &[&str] = &["crates/hint"];

fn list(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("lists")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
fn same(name: &str, difference: &Difference) {
    if let Some(report) = difference.report(&format!("crates/structure/lists/{name}")) {
        panic!("{report}(docs/development/testing.md says more)");
    }
}

#[test]
fn no_circle_of_files_appears_or_grows() {
    let found = found();
    let difference = lists::circles(&list("circles.txt"), &found.circles);
    for circle in &difference.worse {
        println!("circle: {circle}");
        for edge in found.edges_of(circle) {
            println!("    {edge}");
        }
    }
    same("circles.txt", &difference);
}

#[test]
fn no_file_grows_too_long() {
    let long: BTreeMap<String, usize> = found()
        .lines
        .iter()
        .filter(|(_, lines)| **lines > LONGEST)
        .map(|(path, lines)| (path.clone(), *lines))
        .collect();
    same("long.txt", &lists::numbers(&list("long.txt"), &long));
}

#[test]
fn what_a_folder_holds_stands_in_its_mod_rs_and_not_beside_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside: Vec<&String> = found()
        .lines
        .keys()
        .filter(|path| path.contains("/src/") && root.join(path).with_extension("").is_dir())
        .collect();
    assert!(
        beside.is_empty(),
        "move it to mod.rs of its folder: {beside:#?}"
    );
}

#[test]
fn the_architecture_page_says_which_crates_each_crate_needs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).expect("ARCHITECTURE.md");
    let names = |text: &str| -> Vec<String> {
        let mut names: Vec<String> = text
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        names.sort();
        names
    };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (folder, needs) in &found().crates {
        let name = folder.trim_start_matches("crates/");
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}` |")));
        let needed = row.and_then(|row| row.trim_end_matches(" |").rsplit(" | ").next());
        // Crates that may need everything say so.
        let Some(needed) = needed.filter(|needed| !needed.contains("all")) else {
            continue;
        };
        seen += 1;
        let mut needs: Vec<String> = needs
            .iter()
            .map(|need| need.trim_start_matches("crates/").to_owned())
            .collect();
        needs.sort();
        if names(needed) != needs {
            wrong.push(format!("{name} needs {}", needs.join(", ")));
        }
    }
    assert!(seen > 30, "{seen} rows");
    assert!(
        wrong.is_empty(),
        "ARCHITECTURE.md, table of crates: {wrong:#?}"
    );
}

#[test]
fn no_more_files_use_the_machine() {
    let mut reports = String::new();
    for kind in KINDS {
        let name = format!("{}.txt", kind.name);
        let difference = lists::names(&list(&name), &found().uses[kind.name]);
        reports.extend(difference.report(&format!("crates/structure/lists/{name}")));
    }
    assert!(
        reports.is_empty(),
        "{reports}(docs/development/testing.md says more)"
    );
}

#[test]
fn no_test_sleeps_more_often() {
    let name = "sleeps_in_tests.txt";
    same(name, &lists::numbers(&list(name), &found().sleeps));
}

#[test]
fn pure_crates_are_pure_and_are_on_the_list() {
    let found = found();
    let list = list("pure.txt");
    let pure = pure(&list);
    let mut wrong = Vec::new();
    for (folder, needs) in &found.crates {
        let machine = found.machine(folder);
        let impure: Vec<&str> = needs
            .iter()
            .map(String::as_str)
            .filter(|other| !pure.contains_key(other))
            .collect();
        let Some(kept) = pure.get(folder.as_str()) else {
            if machine.is_empty() && impure.is_empty() && !TOOLS.contains(&folder.as_str()) {
                wrong.push(format!("{folder} is pure: write it into the list"));
            }
            continue;
        };
        wrong.extend(machine.iter().map(|place| format!("{folder}: {place}")));
        if !found.without_unsafe.contains(folder) && !HINTS.contains(&folder.as_str()) {
            wrong.push(format!(
                "{folder}/src/lib.rs: there is no #![forbid(unsafe_code)]"
            ));
        }
        if *kept != impure {
            let impure = impure.join(" ");
            wrong.push(format!(
                "{folder} needs of crates that are not pure: {impure}; the list has {}",
                kept.join(" ")
            ));
        }
    }
    for folder in pure.keys() {
        if !found.crates.contains_key(*folder) {
            wrong.push(format!("{folder}: there is no such crate"));
        }
    }
    let wrong = wrong.join("\n");
    assert!(
        wrong.is_empty(),
        "crates/structure/lists/pure.txt:\n{wrong}"
    );
}

#[test]
fn tables_of_pure_crates_have_a_fixed_order() {
    let list_of_pure = list("pure.txt");
    let pure = pure(&list_of_pure);
    let is_pure = |path: &str| {
        pure.keys()
            .any(|folder| path.starts_with(&format!("{folder}/")))
    };
    let mut unordered = found().unordered.clone();
    unordered.retain(|path, _| is_pure(path));
    let name = "unordered.txt";
    same(name, &lists::names(&list(name), &unordered));
}

/// The pure crates, and the impure ones that each of them still needs: `crate` or `crate: other
/// other`.
fn pure(list: &str) -> BTreeMap<&str, Vec<&str>> {
    lists::lines(list)
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(folder, needs)| (folder, needs.split_whitespace().collect()))
        .collect()
}

#[test]
fn lists_are_sorted_and_say_nothing_twice() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lists");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let list = list(&name);
        let lines: Vec<&str> = lists::lines(&list).collect();
        assert!(
            lines.is_sorted_by(|one, next| one < next),
            "{name} must be sorted"
        );
    }
}

//! The library as C programs see it: its header, its example with the shared and the static
//! library, and its manual page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Builds the libraries like everything else here, and returns their directory.
fn libraries() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("target");
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--locked",
            "--package",
            "reelway-store-c",
            "--target-dir",
        ])
        .arg(target)
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the library builds");
    target.join("debug")
}

#[test]
fn the_header_is_what_the_functions_say() {
    let bindings = cbindgen::generate(env!("CARGO_MANIFEST_DIR")).expect("a header");
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).expect("text");
    let path = here("include/reelway_store.h");
    if std::env::var_os("REELWAY_WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("the header");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "include/reelway_store.h is not what cbindgen makes of src/lib.rs; make it anew: REELWAY_WRITE_HEADER=1 cargo test -p reelway-store-c"
    );
}

#[test]
fn the_manual_page_has_every_function() {
    let header = fs::read_to_string(here("include/reelway_store.h")).expect("the header");
    let page = fs::read_to_string(here("man/reelway_store.3")).expect("the page");
    let functions: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '*']))
        .filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back())
        .filter(|name| name.starts_with("rw_"))
        .collect();
    assert!(functions.len() >= 14, "{functions:?}");
    for function in functions {
        assert!(page.contains(function), "{function}");
    }
}

#[test]
fn the_example_in_c_runs_with_the_shared_and_the_static_library() {
    let libraries = libraries();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    // Not a multiple of the block or page size.
    let film: Vec<u8> = (0..1_000_001u32).map(|at| (at ^ (at >> 8)) as u8).collect();
    let path = dir.path().join("film");
    fs::write(&path, &film).expect("a film");
    let sum: u64 = film.iter().map(|byte| u64::from(*byte)).sum();
    for way in ["shared", "static"] {
        let program = dir.path().join(way);
        let mut compiler = Command::new("cc");
        compiler
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
            .arg(here("include"))
            .arg(here("examples/blocks.c"))
            .arg("-o")
            .arg(&program);
        match way {
            "shared" => compiler.arg("-L").arg(&libraries).arg("-lreelway_store"),
            _ => compiler.arg(libraries.join("libreelway_store.a")).args([
                "-lpthread",
                "-ldl",
                "-lm",
            ]),
        };
        let compiled = compiler.output().expect("cc");
        assert!(
            compiled.status.success(),
            "{way}: {}",
            String::from_utf8_lossy(&compiled.stderr)
        );
        let copy = dir.path().join(format!("{way} copy"));
        let ran = Command::new(&program)
            .arg(&path)
            .arg(&copy)
            .env("LD_LIBRARY_PATH", &libraries)
            .output()
            .expect("the example");
        let (said, errors) = (
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr),
        );
        assert!(ran.status.success(), "{way}: {said}{errors}");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], format!("sums {sum} {sum} {sum} {sum}"), "{way}");
        // 16 blocks, all of which the pool keeps: the second pass reads nothing.
        assert_eq!(lines[1], "hits 16 misses 16 in use 0", "{way}");
        assert_eq!(
            lines[2], "blocks 64: all blocks of the pool are in use",
            "{way}"
        );
        assert!(
            lines[3].contains("/nothing/there: No such file"),
            "{way}: {said}"
        );
        assert!(fs::read(&copy).expect("the copy") == film, "{way}");
    }
}

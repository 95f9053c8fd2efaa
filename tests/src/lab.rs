//! Runs tests in the lab's kernel (`lab/README.md`); they check their results and print what they
//! saw.

use std::path::Path;
use std::process::Command;

/// Runs a test. Its kernel must exist already: tests do not download anything.
///
/// # Panics
/// Panics if the test fails.
#[track_caller]
pub fn run(test: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(root.join("lab/run"))
        .arg(test)
        .env("REELWAY_INSTALL", "no")
        .output()
        .expect("lab/run");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    println!("{said}");
}

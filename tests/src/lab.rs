//! Tests in the lab's kernel (`lab/README.md`), which check by themselves and say what they saw.

use std::path::Path;
use std::process::Command;

/// Runs one. Its kernel is there already: nothing is fetched during a test.
///
/// # Panics
/// It fails.
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

//! Runs the yardstick as a command.

use std::process::Command;

use serde_json::Value;

use crate::films::temp_dir;
use crate::server::binary;

/// Runs the yardstick: returns its exit code, its output, and its JSON.
pub fn yardstick(arguments: &[&str]) -> (i32, String, Value) {
    let dir = temp_dir("yardstick");
    let json = dir.path().join("verdict.json");
    let output = Command::new(binary())
        .arg("yardstick")
        .args(arguments)
        .arg("--json")
        .arg(&json)
        .output()
        .expect("the yardstick");
    let printed = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::fs::read_to_string(&json).unwrap_or_else(|_| panic!("no JSON: {printed}"));
    let value = serde_json::from_str(&text).expect("JSON");
    (output.status.code().expect("an exit code"), printed, value)
}

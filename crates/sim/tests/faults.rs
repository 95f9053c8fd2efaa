//! Checks that the faults that show what the simulation finds (`faults/README.md`) still apply to
//! the code.

use std::path::Path;
use std::process::Command;

#[test]
fn every_fault_can_be_put_into_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/sim");
    let mut seen = 0;
    for entry in root
        .join("crates/sim/faults")
        .read_dir()
        .expect("the faults")
    {
        let path = entry.expect("a file").path();
        if path
            .extension()
            .is_none_or(|extension| extension != "patch")
        {
            continue;
        }
        let mut git = Command::new("git");
        git.args(["apply", "--check"]).arg(&path).current_dir(root);
        let output = git.output().expect("git");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", path.display());
        seen += 1;
    }
    assert!(seen >= 12, "{seen} faults");
}

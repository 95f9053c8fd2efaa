//! The director before edges, in the lab's kernel, which has IPVS.

use std::path::Path;
use std::process::Command;

#[test]
fn edges_behind_a_virtual_address_play_by_every_method_and_one_that_dies_is_passed_over() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(root.join("lab/run"))
        .arg("director")
        .env("REELWAY_BIN", reelway_tests::server::binary())
        .env("REELWAY_INSTALL", "no")
        .output()
        .expect("lab/run");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    println!("{said}");
}

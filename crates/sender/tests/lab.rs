//! What needs a queue that this machine's kernel may lack: in the lab (`lab/README.md`), which checks by
//! itself and says what it saw.

use std::path::Path;
use std::process::Command;

#[test]
fn where_fq_holds_packets_they_leave_in_order_and_evenly() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/sender");
    let output = Command::new(root.join("lab/run"))
        .arg("sender-fq")
        .output()
        .expect("lab/run");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    println!("{said}");
}

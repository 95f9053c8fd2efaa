//! What needs a kernel or a queue that this machine may lack: in the lab (`lab/README.md`), which checks by itself
//! and says what it saw.

use std::path::Path;
use std::process::Command;

#[track_caller]
fn lab(test: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/sender");
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

#[test]
fn where_fq_holds_packets_they_leave_in_order_and_evenly() {
    lab("sender-fq");
}

#[test]
fn on_a_link_that_downloads_fill_media_goes_first_and_is_neither_late_nor_lost() {
    lab("sender-link");
}

#[test]
fn where_the_machine_s_owner_forbids_rings_it_is_said_and_a_film_is_read_without() {
    lab("rings");
}

#[test]
fn a_clock_that_is_stepped_and_a_device_without_runs_of_packets_cost_no_packet() {
    lab("sender-faults");
}
